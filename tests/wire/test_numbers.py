"""Section 4.2, mE8: extreme numbers in every field of every message."""

import math
import struct

import pytest

from tests.wire.declared import check_all
from tests.wire.random_messages import INTEGERS, random_message
from trimaran.wire.codec.declarations import Struct
from trimaran.wire.codec.plan import plan_struct, shape_of
from trimaran.wire.errors import LocalProtocolError
from trimaran.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from trimaran.wire.messages.describe_client_quotas import (
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from trimaran.wire.messages.metadata import MetadataRequest


def set_integers(value, version, end):
    """Sets every integer field of the version to its lowest (0) or highest (1) number."""
    plan = plan_struct(type(value), version)
    for p in (*plan.plain, *plan.tagged):
        found = getattr(value, p.name)
        shape, _ = shape_of(p.field.annotation)
        if shape.wire is not None and shape.wire.name in INTEGERS:
            setattr(value, p.name, INTEGERS[shape.wire.name][end])
        for item in found if isinstance(found, list) else [found]:
            if isinstance(item, Struct) and type(item).__slots__:
                set_integers(item, version, end)


def test_me8_extreme_integers_round_trip():
    check_all(travels_with_integers_at_their_ends)


def travels_with_integers_at_their_ends(cls, version):
    for end in (0, 1):
        message = random_message(cls, version, 1)
        set_integers(message, version, end)
        encoded = message.encode(version)
        assert cls.decode(encoded, version) == message


@pytest.mark.parametrize("beyond", [-(2**31) - 1, 2**31, 2**70, 1.5, None, "1"])
def test_me8_integers_out_of_range_raise_local_error(beyond):
    message = random_message(ConsumerGroupHeartbeatRequest, 0, 1)
    message.member_epoch = beyond
    with pytest.raises(LocalProtocolError):
        message.encode(0)


def quota(value: float) -> DescribeClientQuotasResponse:
    entry = EntryData(
        entity=[EntityData(entity_type="user", entity_name="u")],
        values=[ValueData(key="producer_byte_rate", value=value)],
    )
    return DescribeClientQuotasResponse(error_message=None, entries=[entry])


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, 5e-324, -0.0])
@pytest.mark.parametrize("version", [0, 1])
def test_me8_nan_and_infinity_are_transmitted(value, version):
    """The codec transmits them; handlers must refuse them if they are invalid."""
    decoded = DescribeClientQuotasResponse.decode(quota(value).encode(version), version)
    found = decoded.entries[0].values[0].value
    assert struct.pack(">d", found) == struct.pack(">d", value)


@pytest.mark.parametrize("byte", [2, 127, 128, 255])
def test_me8_every_byte_except_0_is_true(byte):
    decoded = MetadataRequest.decode(b"\0\0\0\0" + bytes([byte]), 4)
    assert decoded.allow_auto_topic_creation is True
