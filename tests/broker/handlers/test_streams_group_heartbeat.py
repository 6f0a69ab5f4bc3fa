"""StreamsGroupHeartbeat as a request: its feature, rights, topics of a topology, and the topics that it creates."""

from __future__ import annotations

import pytest

from tests.broker.groups.rig import open_rig
from tests.broker.groups.streams.driver import request, subtopology, topic, topology
from trimaran.broker.groups.streams import kind as streams
from trimaran.broker.groups.streams.settings import StreamsGroupSettings
from trimaran.broker.handlers.streams_group_describe import streams_group_describe
from trimaran.broker.handlers.streams_group_heartbeat import streams_group_heartbeat
from trimaran.broker.handlers.streams_group_topology_description_update import (
    streams_group_topology_description_update,
)
from trimaran.quorum.metadata.acls import Acl
from trimaran.quorum.metadata.authorizer import Authorizer
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig
from trimaran.wire.messages.streams_group_describe import StreamsGroupDescribeRequest
from trimaran.wire.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    TopologyDescription,
)
from trimaran.wire.security.acls import Operation, PatternType, Permission, ResourceType

E = ErrorCode
MISSING = topology(
    subtopology(changelogs=["c"], sinks=["r"]),
    subtopology("1", [], repartition=[topic("r", 0, 2, k="v")]),
)


def authorizer(*described, more=()):
    """Returns an authorizer that lets every client read groups, describe `t` and these topics, and do `more`."""
    made = Authorizer()
    for kind, name, operation in (
        (ResourceType.GROUP, "*", Operation.ALL),
        *more,
        *((ResourceType.TOPIC, name, Operation.DESCRIBE) for name in ("t", *described)),
    ):
        made._index.add(
            Acl(kind, name, PatternType.LITERAL, "User:*", "*", operation, Permission.ALLOW)
        )
    made.complete_initial_load()
    return made


class Creation:
    """Notes the topics to create; they fail for the given reasons."""

    def __init__(self, **reasons):
        self.calls = []
        self._reasons = reasons

    async def create_for_client(self, topics, call, seconds):
        self.calls.append((topics, call.header.client_id, seconds))
        return self._reasons


def served(rig, level=1, protocols=("classic", "streams"), **reasons):
    rig.finalize(streams_version=level)
    rig.context.config = {"group.coordinator.rebalance.protocols": list(protocols)}
    rig.context.topic_creation = Creation(**reasons)


@pytest.fixture(autouse=True)
def _no_delays(monkeypatch):
    settings = StreamsGroupSettings(assignment_interval_ms=0, initial_rebalance_delay_ms=0)
    monkeypatch.setattr(streams, "DEFAULTS", settings)


@pytest.mark.parametrize("field", ["group_id", "member_id"])
async def test_empty_ids_are_invalid_requests(tmp_path, autojump_clock, field):
    async with open_rig(tmp_path) as rig:
        served(rig)
        await rig.leading()
        beat = request()
        setattr(beat, field, "")
        answer = await rig.call(streams_group_heartbeat, beat, 1)
        assert E(answer.error_code) is E.INVALID_REQUEST
        assert answer.error_message in ("GroupId can't be empty.", "MemberId can't be empty.")


async def test_member_joins_stays_and_leaves(tmp_path, autojump_clock):
    async with open_rig(tmp_path) as rig:
        served(rig)
        answer = await rig.call(streams_group_heartbeat, request(), 1)
        assert (answer.error_code, answer.status) == (E.NOT_COORDINATOR, [])
        await rig.leading()
        answer = await rig.call(streams_group_heartbeat, request(), 1)
        assert (answer.error_code, answer.member_epoch, answer.status) == (0, 2, [])
        assert [one.partitions for one in answer.active_tasks] == [[0, 1, 2, 3]]
        answer = await rig.call(streams_group_heartbeat, request("a", 2), 0)
        assert (answer.error_code, answer.active_tasks) == (0, None)
        answer = await rig.call(streams_group_heartbeat, request("a", -1), 1)
        assert (answer.error_code, answer.member_epoch) == (0, -1)
        answer = await rig.call(streams_group_heartbeat, request("a", 2), 1)
        assert (answer.error_code, answer.error_message) == (
            E.UNKNOWN_MEMBER_ID,
            "Member a is not a member of group g.",
        )


@pytest.mark.parametrize(
    ("level", "protocols", "code"),
    [
        (0, ("classic", "streams"), E.UNSUPPORTED_VERSION),
        (1, ("classic",), E.UNSUPPORTED_VERSION),
        (1, ("classic", "streams"), E.NONE),
    ],
)
async def test_requests_need_feature_and_protocol(tmp_path, autojump_clock, level, protocols, code):
    async with open_rig(tmp_path) as rig:
        await rig.leading()
        served(rig, level, protocols)
        answer = await rig.call(streams_group_heartbeat, request(), 1)
        assert E(answer.error_code) is code
        describe = StreamsGroupDescribeRequest(group_ids=["g"], include_authorized_operations=False)
        answer = await rig.call(streams_group_describe, describe, 1)
        assert E(answer.groups[0].error_code) is code
        update = StreamsGroupTopologyDescriptionUpdateRequest(
            group_id="g",
            member_id="a",
            topology_epoch=1,
            topology_description=TopologyDescription(subtopologies=[], global_stores=[]),
        )
        answer = await rig.call(streams_group_topology_description_update, update, 0)
        assert E(answer.error_code) is code


@pytest.mark.parametrize(
    ("given", "code", "message"),
    [
        (
            subtopology("0", ["t", "__transaction_state"]),
            E.STREAMS_INVALID_TOPOLOGY,
            "Use of Kafka internal topics __transaction_state in a Kafka Streams topology is prohibited.",
        ),
        (
            subtopology("0", ["t"], sinks=["a b"]),
            E.STREAMS_INVALID_TOPOLOGY,
            "Topic names a b are not valid topic names.",
        ),
        (subtopology("0", ["t"], sinks=["u"]), E.TOPIC_AUTHORIZATION_FAILED, None),
        (subtopology("0", ["t"], changelogs=["u"]), E.TOPIC_AUTHORIZATION_FAILED, None),
        (subtopology("0", [], repartition=[topic("u")]), E.TOPIC_AUTHORIZATION_FAILED, None),
        (
            subtopology("0", []),
            E.STREAMS_INVALID_TOPOLOGY,
            "No source topics found for subtopology 0",
        ),
    ],
)
async def test_refused_topology_leaves_no_trace(tmp_path, autojump_clock, given, code, message):
    async with open_rig(tmp_path) as rig:
        served(rig)
        rig.context.authorizer = authorizer()  # allows `t` only
        await rig.leading()
        answer = await rig.call(streams_group_heartbeat, request(topology=topology(given)), 1)
        assert E(answer.error_code) is code
        assert message in (None, answer.error_message)
        assert rig.leaders[rig.index_of("g")].log.log_end_offset == 0


async def test_missing_internal_topics_are_created(tmp_path, autojump_clock):
    async with open_rig(tmp_path) as rig:
        served(rig)
        await rig.leading()
        answer = await rig.call(streams_group_heartbeat, request(topology=MISSING), 1)
        assert [one.status_detail for one in answer.status] == ["Internal topics are missing: c, r"]
        c = CreatableTopic(
            name="c", num_partitions=4, replication_factor=-1, assignments=[], configs=[]
        )
        r = CreatableTopic(
            name="r",
            num_partitions=4,
            replication_factor=2,
            assignments=[],
            configs=[CreatableTopicConfig(name="k", value="v")],
        )
        assert rig.context.topic_creation.calls == [({"c": c, "r": r}, "c", 10.0)]


async def test_reason_of_a_failure_is_in_the_status(tmp_path, autojump_clock):
    async with open_rig(tmp_path) as rig:
        served(rig, c="too many replicas")
        await rig.leading()
        answer = await rig.call(streams_group_heartbeat, request(topology=MISSING), 1)
        assert [one.status_detail for one in answer.status] == [
            "Internal topics are missing: c, r; Creation failed: c (too many replicas)."
        ]


@pytest.mark.parametrize(
    ("operation", "created"), [(Operation.CREATE, True), (Operation.ALTER, False)]
)
@pytest.mark.parametrize("kind", [ResourceType.CLUSTER, ResourceType.TOPIC])
async def test_permission_to_create_may_be_the_clusters(
    tmp_path, autojump_clock, kind, operation, created
):
    async with open_rig(tmp_path) as rig:
        served(rig)
        name = "kafka-cluster" if kind is ResourceType.CLUSTER else "*"
        rig.context.authorizer = authorizer("c", "r", more=[(kind, name, operation)])
        await rig.leading()
        await rig.call(streams_group_heartbeat, request(topology=MISSING), 1)
        assert bool(rig.context.topic_creation.calls) is created


@pytest.mark.parametrize(("client_id", "kept"), [("c", "c"), (None, "")])
async def test_client_of_a_member_is_described(tmp_path, autojump_clock, client_id, kept):
    async with open_rig(tmp_path) as rig:
        served(rig)
        await rig.leading()
        await rig.call(streams_group_heartbeat, request(), 1, client_id=client_id)
        ask = StreamsGroupDescribeRequest(group_ids=["g"], include_authorized_operations=False)
        [group] = (await rig.call(streams_group_describe, ask, 1)).groups
        [member] = group.members
        assert (member.client_id, member.client_host) == (kept, "/10.1.2.3")
        shard = rig.epoch(rig.index_of("g")).active()
        assert list(shard.account.by_principal) == ["User:ANONYMOUS"]


async def test_topics_are_created_only_with_permission(tmp_path, autojump_clock):
    async with open_rig(tmp_path) as rig:
        served(rig)
        rig.context.authorizer = authorizer("c", "r")
        await rig.leading()
        answer = await rig.call(streams_group_heartbeat, request(topology=MISSING), 1)
        assert [one.status_detail for one in answer.status] == [
            "Internal topics are missing: c, r; Unauthorized to CREATE on topics c, r."
        ]
        assert rig.context.topic_creation.calls == []
