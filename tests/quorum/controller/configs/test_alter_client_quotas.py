"""AlterClientQuotas as a decision, DescribeClientQuotas against a naive twin (KIP-546)."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.quorum.metadata.build import image_of
from trimaran.node.runtime.steps import at_once
from trimaran.quorum.controller.configs.alter_client_quotas import alter_client_quotas
from trimaran.quorum.metadata.describe_client_quotas import describe_client_quotas
from trimaran.quorum.metadata.image import EMPTY
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    EntityData,
    OpData,
)
from trimaran.wire.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest

RATE = "producer_byte_rate"


def entry(entity, *ops):
    return AlterClientQuotasRequestEntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
        ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in ops],
    )


def alter(*entries, image=EMPTY, validate_only=False):
    request = AlterClientQuotasRequest(entries=list(entries), validate_only=validate_only)
    result = at_once(alter_client_quotas(request, image.quotas))
    return list(result.records), [
        (entry.error_code, entry.error_message) for entry in result.response.entries
    ]


def test_nan_quota_is_stored_once_as_in_kafka():
    alice = [("user", "alice")]
    records, answers = alter(entry(alice, (RATE, math.nan)))
    assert (len(records), answers) == (1, [(0, None)])
    image = image_of(*records)
    assert alter(entry(alice, (RATE, math.nan)), image=image)[0] == []
    assert len(alter(entry(alice, (RATE, 1.0)), image=image)[0]) == 1


def test_quotas_are_set_kept_and_removed():
    alice = [("user", "alice"), ("client-id", None)]
    records, answers = alter(entry(alice, (RATE, 1.0), ("request_percentage", 0.5)))
    assert (len(records), answers) == (2, [(0, None)])
    image = image_of(*records)
    other_order = list(reversed(alice))
    assert alter(entry(other_order, (RATE, 1.0)), image=image)[0] == []
    assert len(alter(entry(other_order, (RATE, 2.0)), image=image)[0]) == 1
    assert alter(entry(alice, (RATE, 2.0)), image=image, validate_only=True)[0] == []
    removed, _ = alter(entry(alice, (RATE, None), ("consumer_byte_rate", None)), image=image)
    assert [record.key for record in removed] == [RATE]
    assert [key for _, key in image_of(*removed, base=image).quotas] == ["request_percentage"]


def test_entities_and_quotas_have_kafkas_order():
    """The order that a test of @platformatic/kafka observed in Kafka."""
    quotas = [(RATE, 1000.0), ("consumer_byte_rate", 1000.0), ("request_percentage", 0.5)]
    alice, pair = [("user", "alice")], [("user", "alice"), ("client-id", "a")]
    request = AlterClientQuotasRequest(
        entries=[entry(pair, *quotas), entry(alice, *quotas)], validate_only=False
    )
    result = at_once(alter_client_quotas(request, EMPTY.quotas))
    assert [part.entity_type for part in result.response.entries[0].entity] == ["client-id", "user"]
    wanted = DescribeClientQuotasRequest(
        components=[ComponentData(entity_type="user", match_type=0, match="alice")], strict=False
    )
    found = list(describe_client_quotas(wanted, image_of(*result.records).quotas))
    assert [[part.entity_type for part in item.entity] for item in found] == [
        ["user"],
        ["client-id", "user"],
    ]
    for item in found:
        assert [value.key for value in item.values] == [
            "consumer_byte_rate",
            "request_percentage",
            "producer_byte_rate",
        ]


@pytest.mark.parametrize(
    ("entity", "ops", "message"),
    [
        ([], [], "Invalid empty client quota entity"),
        ([("shoe", "a")], [], "Unhandled client quota entity type: shoe"),
        ([("user", "")], [], "Empty user not supported"),
        (
            [("user", "a"), ("user", "b")],
            [],
            "Invalid client quota entity, duplicate entity entry user",
        ),
        (
            [("ip", None), ("user", "a")],
            [],
            "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId",
        ),
        ([("ip", "300.1.1.1")], [], "300.1.1.1 is not a valid IP or resolvable host."),
        ([("user", "a")], [("foo", 1.0)], "Invalid configuration key foo"),
        (
            [("user", "a")],
            [("connection_creation_rate", 1.0)],
            "Invalid configuration key connection_creation_rate",
        ),
        ([("ip", "-host")], [], "-host is not a valid IP or resolvable host."),
        ([("user", "a")], [(RATE, 0.0)], f"Quota {RATE} must be greater than 0"),
        ([("user", "a")], [(RATE, -1.0)], f"Quota {RATE} must be greater than 0"),
        ([("user", "a")], [(RATE, 1.5)], f"{RATE} cannot be a fractional value."),
        ([("user", "a")], [(RATE, 1e19)], f"Proposed value for {RATE} is too large for a LONG."),
        (
            [("ip", "::1")],
            [("connection_creation_rate", 3e9)],
            "Proposed value for connection_creation_rate is too large for an INT.",
        ),
    ],
)
def test_invalid_quota_is_refused_alone(entity, ops, message):
    records, answers = alter(entry(entity, *ops), entry([("user", "b")], (RATE, 1.0)))
    assert answers == [(ErrorCode.INVALID_REQUEST, message), (0, None)]
    assert len(records) == 1


@pytest.mark.parametrize("ip", [None, "1.2.3.4", "::1", "localhost", "a.b-c.example."])
def test_connection_quotas_are_accepted_up_to_largest_integer(ip):
    records, answers = alter(entry([("ip", ip)], ("connection_creation_rate", 2.0**31 - 1)))
    assert (len(records), answers) == (1, [(0, None)])


def test_duplicate_quota_entities_are_refused():
    twice = entry([("user", "a")], (RATE, 1.0), (RATE, 2.0))
    records, ((code, message),) = alter(twice)
    assert (records, code) == ([], ErrorCode.INVALID_REQUEST)
    assert message == "Ignoring duplicate entity ClientQuotaEntity(entries={user=a})"
    once = entry([("user", "a")], (RATE, 1.0))
    _, ((code, message),) = alter(once, once)
    assert code == ErrorCode.INVALID_REQUEST
    assert message.startswith("Ignoring duplicate entity")


def test_more_than_10000_quotas_are_refused():
    many = [entry([("user", str(n))], (RATE, 1.0)) for n in range(10_001)]
    assert len(alter(*many[1:])[0]) == 10_000
    with pytest.raises(KafkaError) as caught:
        alter(*many)
    assert caught.value.code is ErrorCode.POLICY_VIOLATION


def describe(quotas, components, *, strict):
    request = DescribeClientQuotasRequest(
        components=[ComponentData(entity_type=k, match_type=h, match=m) for k, h, m in components],
        strict=strict,
    )
    return [
        tuple((part.entity_type, part.entity_name) for part in quota.entity)
        for quota in describe_client_quotas(request, quotas)
    ]


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([("", 0, "a")], ErrorCode.INVALID_REQUEST),
        ([("shoe", 0, "a")], ErrorCode.UNSUPPORTED_VERSION),
        ([("user", 0, None)], ErrorCode.INVALID_REQUEST),
        ([("user", 1, "a")], ErrorCode.INVALID_REQUEST),
        ([("user", 2, "a")], ErrorCode.INVALID_REQUEST),
        ([("user", 3, None)], ErrorCode.INVALID_REQUEST),
        ([("user", 2, None), ("user", 1, None)], ErrorCode.INVALID_REQUEST),
        ([("user", 2, None), ("ip", 2, None)], ErrorCode.INVALID_REQUEST),
    ],
)
def test_invalid_quota_filters_are_refused(components, code):
    with pytest.raises(KafkaError) as caught:
        describe(EMPTY.quotas, components, strict=False)
    assert caught.value.code is code


NAMES = st.sampled_from([None, "a", "b"])
ENTITIES = st.dictionaries(st.sampled_from(["user", "client-id"]), NAMES, min_size=1)
COMPONENTS = st.dictionaries(
    st.sampled_from(["user", "client-id"]),
    st.sampled_from([(0, "a"), (0, "b"), (1, None), (2, None)]),
)


@given(st.lists(ENTITIES, max_size=6), COMPONENTS, st.booleans())
def test_filters_match_as_a_naive_twin(entities, components, strict):
    records, _ = alter(
        *(
            entry(list(entity.items()), (RATE, 1.0))
            for number, entity in enumerate(entities)
            if entity not in entities[:number]
        )
    )
    asked = [(kind, how, name) for kind, (how, name) in components.items()]
    found = {frozenset(item) for item in describe(image_of(*records).quotas, asked, strict=strict)}

    def matches(entity):
        for kind, how, name in asked:
            if kind not in entity:
                return False
            if how == 0 and entity[kind] != name:
                return False
            if how == 1 and entity[kind] is not None:
                return False
        return not strict or len(entity) == len(asked)

    assert found == {frozenset(entity.items()) for entity in entities if matches(entity)}
