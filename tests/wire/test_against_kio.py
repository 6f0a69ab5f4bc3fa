"""kio, which knows every version as a class of its own, reads and writes the same bytes."""

import datetime as dt
import io
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.index import UnknownEntity, load_entity_schema
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from tests.wire.declared import CASES, case_id
from tests.wire.random_messages import random_message
from wire.codec.plan import plan_struct
from wire.primitives import NIL_UUID
from wire.schema import Struct


def kio_class(cls, version):
    for suffix, kind in (("Request", EntityType.request), ("Response", EntityType.response)):
        if cls.__name__.endswith(suffix):
            name, kind_found = cls.__name__.removesuffix(suffix), kind
            break
    else:
        name, kind_found = cls.__name__, EntityType.data
    snake = "".join("_" + c.lower() if c.isupper() else c for c in name).lstrip("_")
    try:
        return load_entity_schema(snake, version, kind_found)
    except UnknownEntity:
        return None


KNOWN: dict[type, list[int]] = {}
for cls, version in CASES:
    if kio_class(cls, version) is not None:
        KNOWN.setdefault(cls, []).append(version)


def plain(theirs):
    """Their rich types as ours."""
    if isinstance(theirs, uuid.UUID):
        return theirs.bytes
    if isinstance(theirs, dt.timedelta):
        return round(theirs.total_seconds() * 1000)
    if isinstance(theirs, dt.datetime):
        return round(theirs.timestamp() * 1000)
    return theirs


def assert_same(ours, theirs, version):
    if isinstance(ours, Struct):
        plan = plan_struct(type(ours), version)
        for p in (*plan.plain, *plan.tagged):
            name = RENAMED.get(p.name, p.name)
            if not hasattr(theirs, name):
                name = name.removesuffix("_ms")  # a timedelta or datetime
            assert_same(getattr(ours, p.name), getattr(theirs, name), version)
    elif isinstance(ours, list):
        for our, their in zip(ours, theirs, strict=True):
            assert_same(our, their, version)
    elif theirs is None:
        assert ours in (None, -1, NIL_UUID)
    else:
        assert ours == plain(theirs)


RENAMED = {
    "id": "id_",
    "type": "type_",
    "kraft_version": "k_raft_version",
    "kraft_version_feature": "k_raft_version_feature",
}


def test_many_are_known():
    assert sum(map(len, KNOWN.values())) > 600


@pytest.mark.parametrize("cls", KNOWN, ids=case_id)
@given(seed=st.integers(0, 2**32 - 1))
def test_same_bytes_and_values(cls, seed):
    for version in KNOWN[cls]:
        check_version(cls, version, seed)


def check_version(cls, version, seed):
    message = random_message(cls, version, seed, tame=True)
    encoded = message.encode(version)
    their_class = kio_class(cls, version)
    theirs, size = entity_reader(their_class)(encoded, 0)
    assert size == len(encoded)
    assert_same(message, theirs, version)
    out = io.BytesIO()
    entity_writer(their_class)(out, theirs)
    assert out.getvalue() == encoded
