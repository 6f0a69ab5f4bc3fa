from __future__ import annotations

from types import SimpleNamespace

import pytest

from broker.handlers.find_coordinator import GROUP, find_coordinator
from tests.broker.groups.rig import NODE_ID, cluster_image, open_rig, topic_image
from tests.broker.handlers.asking import asked
from tests.broker.transactions.wire_producer import SETTINGS, WireProducer
from wire.errors import ErrorCode
from wire.messages.find_coordinator import FindCoordinatorRequest

E = ErrorCode
SHARE = 2


def request(version, key="g", kind=GROUP):
    if version >= 4:
        return FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
    return FindCoordinatorRequest(key=key, key_type=kind if version else 0)


def told(answer, version):
    where = answer.coordinators[0] if version >= 4 else answer
    return where.node_id, where.host, where.port, E(where.error_code)


NOWHERE = (-1, "", -1)


@pytest.mark.parametrize("version", range(7))
async def test_every_version(tmp_path, version):
    async with open_rig(tmp_path) as rig:
        answer = await rig.call(find_coordinator, request(version), version)
        assert told(answer, version) == (NODE_ID, "here", 9092, E.NONE)


async def test_many_keys(tmp_path):
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
async def test_other_kinds(tmp_path, kind, version, code):
    async with open_rig(tmp_path) as rig:
        answer = await rig.call(find_coordinator, request(version, kind=kind), version)
        assert told(answer, version) == (*NOWHERE, code)


@pytest.mark.parametrize("leader", [-1, 7])
async def test_a_partition_without_a_leader_that_lives(tmp_path, leader):
    async with open_rig(tmp_path) as rig:
        rig.metadata.image = cluster_image(
            topic_image("__consumer_offsets", b"o" * 16, 4, leader=leader)
        )
        answer = await rig.call(find_coordinator, request(6), 6)
        assert told(answer, 6) == (*NOWHERE, E.COORDINATOR_NOT_AVAILABLE)


class Creation:
    """Creates the offsets topic, or says why not."""

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
async def test_the_first_that_asks_has_the_topic_created(tmp_path, code, expected):
    async with open_rig(tmp_path) as rig:
        rig.metadata.image = cluster_image()
        creation = Creation(rig, code)
        rig.context = SimpleNamespace(**vars(rig.context), topic_creation=creation)
        answer = await rig.call(find_coordinator, request(6), 6)
        assert creation.asked == ["__consumer_offsets"]
        assert told(answer, 6) == expected
        if code is not E.NONE:
            assert "INVALID_REPLICATION_FACTOR" in answer.coordinators[0].error_message


async def test_the_coordinator_of_a_transaction(tmp_path):
    """Its topic is created for the first that asks, as configured."""
    async with asked(tmp_path, transaction_state_log_min_isr="2", **SETTINGS) as one:
        found = await WireProducer(one).find()
        assert (found.error_code, found.node_id) == (E.NONE, one.broker.node_id)
        topic = one.image.topics.by_name["__transaction_state"]
        assert len(topic.partitions) == 1
        configs = one.image.configs.by_resource[2, "__transaction_state"]
        assert dict(configs) == {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": "1",  # there is one replica
            "segment.bytes": str(100 << 20),
            "unclean.leader.election.enable": "false",
        }
        assert (await WireProducer(one).find("")).error_code == E.INVALID_REQUEST
