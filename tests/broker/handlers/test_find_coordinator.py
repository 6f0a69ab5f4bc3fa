from __future__ import annotations

import contextlib
from dataclasses import replace
from types import SimpleNamespace

import pytest

from tests.broker.calls import call, connection, finished, through_wire
from tests.broker.groups.rig import NODE_ID, cluster_image, open_rig, topic_image
from tests.broker.handlers.broker_client import broker_client
from tests.broker.transactions.wire_producer import SETTINGS, WireProducer
from tests.cluster.data_side import open_harness, partition, registration, topic
from trimaran.broker.handlers.find_coordinator import _fail, find_coordinator
from trimaran.quorum.metadata.acls import Acl
from trimaran.quorum.metadata.authorizer import Authorizer
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.find_coordinator import FindCoordinatorRequest
from trimaran.wire.security.acls import Operation, PatternType, Permission, ResourceType
from trimaran.wire.text.endpoint import Endpoint

E = ErrorCode
# Types of keys.
OF_GROUP, OF_TRANSACTION, SHARE = 0, 1, 2


def request(version, key="g", kind=OF_GROUP):
    if version >= 4:
        return FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
    return FindCoordinatorRequest(key=key, key_type=kind if version else 0)


def coordinator_in(answer, version):
    where = answer.coordinators[0] if version >= 4 else answer
    return where.node_id, where.host, where.port, E(where.error_code)


NOWHERE = (-1, "", -1)


@pytest.mark.parametrize("version", range(7))
async def test_every_version_finds_the_coordinator(tmp_path, version):
    async with open_rig(tmp_path) as rig:
        answer = await rig.call(find_coordinator, request(version), version)
        assert coordinator_in(answer, version) == (NODE_ID, "here", 9092, E.NONE)


async def test_each_of_many_keys_has_its_coordinator(tmp_path):
    async with open_rig(tmp_path) as rig:
        many = FindCoordinatorRequest(coordinator_keys=["a", "b", ""])
        answer = await rig.call(find_coordinator, many, 4)
        assert [(c.key, c.node_id) for c in answer.coordinators] == [
            ("a", NODE_ID),
            ("b", NODE_ID),
            ("", NODE_ID),
        ]


@pytest.mark.parametrize(
    ("kind", "version", "code"),
    [
        (SHARE, 6, E.INVALID_REQUEST),
        (SHARE, 5, E.INVALID_REQUEST),
        (9, 6, E.INVALID_REQUEST),
    ],
)
async def test_other_key_types_are_refused(tmp_path, kind, version, code):
    async with open_rig(tmp_path) as rig:
        answer = await rig.call(find_coordinator, request(version, kind=kind), version)
        assert coordinator_in(answer, version) == (*NOWHERE, code)


@pytest.mark.parametrize("leader", [-1, 7])
async def test_partition_without_live_leader_has_no_coordinator(tmp_path, leader):
    async with open_rig(tmp_path) as rig:
        rig.metadata.image = cluster_image(
            topic_image("__consumer_offsets", b"o" * 16, 4, leader=leader)
        )
        answer = await rig.call(find_coordinator, request(6), 6)
        assert coordinator_in(answer, 6) == (*NOWHERE, E.COORDINATOR_NOT_AVAILABLE)


class Creation:
    """Creates the offsets topic, or returns the error."""

    def __init__(self, rig, code):
        self.rig, self.code, self.asked = rig, code, []

    async def create(self, names):
        self.asked += names
        if self.code is E.NONE:
            self.rig.metadata.image = cluster_image(
                *(topic_image(name, b"o" * 16, 4) for name in names)
            )
        return dict.fromkeys(names, self.code)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (E.NONE, (NODE_ID, "here", 9092, E.NONE)),
        (E.INVALID_REPLICATION_FACTOR, (*NOWHERE, E.COORDINATOR_NOT_AVAILABLE)),
    ],
)
async def test_first_request_creates_the_topic(tmp_path, code, expected):
    async with open_rig(tmp_path) as rig:
        rig.metadata.image = cluster_image()
        creation = Creation(rig, code)
        rig.context = SimpleNamespace(**vars(rig.context), topic_creation=creation)
        answer = await rig.call(find_coordinator, request(6), 6)
        assert creation.asked == ["__consumer_offsets"]
        assert coordinator_in(answer, 6) == expected
        if code is not E.NONE:
            assert "INVALID_REPLICATION_FACTOR" in answer.coordinators[0].error_message


async def test_coordinator_of_a_transaction_is_found(tmp_path):
    """The first request creates the topic of transactions, as configured."""
    async with broker_client(tmp_path, transaction_state_log_min_isr="2", **SETTINGS) as one:
        found = await WireProducer(one).find()
        assert (found.error_code, found.node_id) == (E.NONE, one.broker.node_id)
        topic = one.image.topics.by_name["__transaction_state"]
        assert len(topic.partitions) == 1
        configs = one.image.configs.by_resource[2, "__transaction_state"]
        assert dict(configs) == {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": "1",  # the topic has one replica
            "segment.bytes": str(100 << 20),
            "unclean.leader.election.enable": "false",
        }
        assert (await WireProducer(one).find("")).error_code == E.INVALID_REQUEST


async def test_each_transaction_key_finds_its_partitions_leader(tmp_path):
    """The address is that of the client's listener; a fenced broker, or one without the listener, coordinates
    nothing.
    """
    harness = open_harness(tmp_path)
    leaders = {"here": 11, "fenced": 12, "other listener": 13, "unknown": 14, "none": -1}
    partitions = [partition((11, 12, 13, 14), leader=leader) for leader in leaders.values()]
    other = registration(13, listeners=(Endpoint("INSIDE", "inside", 9999),))
    harness.set_image(
        topic("__transaction_state", *partitions),
        brokers=(registration(11, port=7777), registration(12, fenced=True), other),
    )
    coordinator = harness.contexts.transactions.transactions
    names = {}
    for number in range(100):
        names.setdefault(list(leaders)[coordinator.partition_of(f"id-{number}")], f"id-{number}")
    asked_for = [names[leader] for leader in leaders] + [""]
    message = FindCoordinatorRequest(key_type=OF_TRANSACTION, coordinator_keys=asked_for)
    answer = await finished(find_coordinator(message, harness.contexts.groups, call(message, 6)))
    unavailable = (*NOWHERE, E.COORDINATOR_NOT_AVAILABLE)
    assert [
        (
            coordinator.key,
            coordinator.node_id,
            coordinator.host,
            coordinator.port,
            coordinator.error_code,
        )
        for coordinator in answer.coordinators
    ] == [
        (names["here"], 11, "127.0.0.1", 7777, E.NONE),
        *((names[leader], *unavailable) for leader in list(leaders)[1:]),
        ("", *NOWHERE, E.INVALID_REQUEST),
    ]
    assert all(coordinator.error_message for coordinator in answer.coordinators[1:])
    inside = await finished(
        find_coordinator(message, harness.contexts.groups, call(message, 6, connection("INSIDE")))
    )
    assert [coordinator.node_id for coordinator in inside.coordinators] == [
        -1,
        -1,
        13,
        -1,
        -1,
        -1,
    ]
    harness.directory.close(broker_epoch=None)


@pytest.mark.parametrize("kind", [OF_GROUP, OF_TRANSACTION])
async def test_finding_coordinator_needs_describe_on_its_resource(tmp_path, kind):
    """The right on a group does not count for a transactional id, nor the other way round; and unauthorized clients do
    not cause a topic to be created.
    """
    harness = open_harness(tmp_path)
    types = {OF_GROUP: ResourceType.GROUP, OF_TRANSACTION: ResourceType.TRANSACTIONAL_ID}
    code = {
        OF_GROUP: E.GROUP_AUTHORIZATION_FAILED,
        OF_TRANSACTION: E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
    names = ("__consumer_offsets", "__transaction_state")
    harness.set_image(*(topic(name, partition()) for name in names), brokers=(registration(11),))
    message = FindCoordinatorRequest(key_type=kind, coordinator_keys=["a", "b"])

    async def codes(of_type, operation):
        authorizer = Authorizer()
        authorizer.complete_initial_load()
        authorizer._index.add(
            Acl(
                of_type,
                "a",
                PatternType.LITERAL,
                "User:ANONYMOUS",
                "*",
                operation,
                Permission.ALLOW,
            )
        )
        context = replace(harness.contexts.groups, authorizer=authorizer)
        answer = await finished(find_coordinator(message, context, call(message, 6)))
        return [coordinator.error_code for coordinator in answer.coordinators]

    assert await codes(types[kind], Operation.DESCRIBE) == [E.NONE, code[kind]]
    assert await codes(types[kind], Operation.DESCRIBE_CONFIGS) == [code[kind]] * 2
    assert await codes(types[1 - kind], Operation.DESCRIBE) == [code[kind]] * 2
    harness.set_image(brokers=(registration(11),))
    assert await codes(ResourceType.TOPIC, Operation.CREATE) == [code[kind]] * 2
    harness.directory.close(broker_epoch=None)


SHARE_KEY = "g:AAAAAAAAAAAAAAAAAAAABw:1"  # of partition 1 of 2, see `test_partition_follows_hash_of_the_text`


@contextlib.contextmanager
def share_harness(tmp_path):
    harness = open_harness(tmp_path)
    partitions = partition((11,)), partition((12,), leader=12)
    brokers = registration(11, port=7777), registration(12, port=8888)
    harness.set_image(topic("__share_group_state", *partitions), brokers=brokers)
    try:
        yield harness
    finally:
        harness.directory.close(broker_epoch=None)


async def test_share_partition_key_finds_its_partitions_leader(tmp_path):
    keys = [SHARE_KEY, SHARE_KEY[:-1] + "2", SHARE_KEY[:-1] + "02", "g", ""]
    message = FindCoordinatorRequest(key_type=SHARE, coordinator_keys=keys)
    with share_harness(tmp_path) as harness:
        answer = await finished(
            find_coordinator(message, harness.contexts.groups, call(message, 6))
        )
    assert [(c.key, c.node_id, c.port, c.error_code) for c in answer.coordinators] == [
        (keys[0], 12, 8888, E.NONE),
        (keys[1], 11, 7777, E.NONE),
        (keys[2], 11, 7777, E.NONE),
        ("g", -1, -1, E.INVALID_REQUEST),
        ("", -1, -1, E.INVALID_REQUEST),
    ]


@pytest.mark.parametrize(
    ("operation", "version", "code"),
    [
        (Operation.CLUSTER_ACTION, 6, E.NONE),
        (Operation.DESCRIBE, 6, E.CLUSTER_AUTHORIZATION_FAILED),
        (Operation.DESCRIBE, 5, E.INVALID_REQUEST),
        (Operation.CLUSTER_ACTION, 5, E.INVALID_REQUEST),
    ],
)
async def test_share_partition_needs_cluster_action(tmp_path, operation, version, code):
    """Version 5 has no such keys, whatever the client may do."""
    authorizer = Authorizer()
    authorizer.complete_initial_load()
    authorizer._index.add(
        Acl(
            *(ResourceType.CLUSTER, "kafka-cluster", PatternType.LITERAL, "User:ANONYMOUS", "*"),
            *(operation, Permission.ALLOW),
        )
    )
    message = FindCoordinatorRequest(key_type=SHARE, coordinator_keys=[SHARE_KEY, "g"])
    with share_harness(tmp_path) as harness:
        context = replace(harness.contexts.groups, authorizer=authorizer)
        handling = find_coordinator(message, context, call(message, version))
        try:
            codes = [one.error_code for one in (await finished(handling)).coordinators]
        except KafkaError as error:
            codes = [error.code] * 2
    assert codes == [code, code or E.INVALID_REQUEST]


async def test_share_partition_request_without_keys_is_empty(tmp_path):
    authorizer = Authorizer()
    authorizer.complete_initial_load()
    message = FindCoordinatorRequest(key_type=SHARE, coordinator_keys=[])
    with share_harness(tmp_path) as harness:
        context = replace(harness.contexts.groups, authorizer=authorizer)
        answer = await finished(find_coordinator(message, context, call(message, 6)))
    assert answer.coordinators == []


async def test_share_coordinator_topic_is_created_as_configured(tmp_path):
    settings = {
        "share_coordinator_state_topic_num_partitions": "3",
        "share_coordinator_state_topic_replication_factor": "1",
        "share_coordinator_state_topic_segment_bytes": "2000000",
    }
    async with broker_client(tmp_path, **settings) as one:
        answer = await one.call(
            FindCoordinatorRequest(key_type=SHARE, coordinator_keys=[SHARE_KEY]), 6
        )
        assert coordinator_in(answer, 6)[::3] == (one.broker.node_id, E.NONE)
        assert len(one.image.topics.by_name["__share_group_state"].partitions) == 3
        assert dict(one.image.configs.by_resource[2, "__share_group_state"]) == {
            "cleanup.policy": "delete",
            "compression.type": "producer",
            "min.insync.replicas": "1",  # the topic has one replica
            "retention.ms": "-1",
            "segment.bytes": "2000000",
        }


def test_failure_is_reported_for_each_key():
    many = FindCoordinatorRequest(coordinator_keys=["a", "b"])
    found = through_wire(_fail(many, E.UNKNOWN_SERVER_ERROR, "why"), 4).coordinators
    assert [(node.key, node.node_id, node.port, node.error_code) for node in found] == [
        (key, -1, -1, E.UNKNOWN_SERVER_ERROR) for key in "ab"
    ]
    one = through_wire(_fail(FindCoordinatorRequest(key="a"), E.INVALID_REQUEST, "why"), 3)
    assert (one.error_code, one.error_message) == (E.INVALID_REQUEST, "why")
    assert (one.node_id, one.host, one.port) == NOWHERE
