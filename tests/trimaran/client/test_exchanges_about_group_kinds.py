"""Exchanges with the coordinators of share and streams groups: positions that are set and deleted, tasks and their
source topics, and the description of a topology.
"""

from pathlib import Path

import pytest

from tests.trimaran.client.answers import LEADERS, NOW_MS, UUID, batch_of, fetched, listed
from tests.trimaran.client.test_exchanges_about_groups import classic, committed
from tests.trimaran.client.transcripts import Cases, exchange, exchanges
from trimaran.client import group_kinds, group_members, group_offsets, record_ages, share_groups
from trimaran.client import streams_groups as streams
from trimaran.wire.client.errors import VersionMismatch
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import TopicPartition
from trimaran.wire.messages import (
    alter_share_group_offsets,
    delete_share_group_offsets,
    describe_share_group_offsets,
    offset_delete,
    streams_group_describe,
)
from trimaran.wire.messages.streams_group_topology_description_update import (
    TopologyDescription,
    TopologyDescriptionGlobalStore,
    TopologyDescriptionNode,
    TopologyDescriptionSubtopology,
)

case = Cases()
E = ErrorCode
T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


@pytest.fixture(autouse=True)
def _still_clock(monkeypatch):
    monkeypatch.setattr(record_ages, "now_ms", lambda: NOW_MS)


def test_exchanges_about_kinds_are_as_written():
    case.check(Path(__file__).parent / "testdata/group_kinds.txt")


# --- positions


def started(*starts, code=0, message=None):
    partitions = [
        describe_share_group_offsets.DescribeShareGroupOffsetsResponsePartition(
            partition_index=n, start_offset=start, leader_epoch=0, lag=1
        )
        for n, start in enumerate(starts)
    ]
    topic = describe_share_group_offsets.DescribeShareGroupOffsetsResponseTopic(
        topic_name="t", topic_id=UUID, partitions=partitions
    )
    group = describe_share_group_offsets.DescribeShareGroupOffsetsResponseGroup(
        group_id="g", topics=[topic], error_code=code, error_message=message
    )
    return describe_share_group_offsets.DescribeShareGroupOffsetsResponse(groups=[group])


@case
def _start_offsets():
    denied = started(code=E.GROUP_AUTHORIZATION_FAILED, message="not you")
    return exchanges(
        exchange(
            lambda client: share_groups.start_offsets(client, {"group": "g"}), started(7, -1, -2)
        ),
        exchange(lambda client: share_groups.start_offsets(client, {"group": "g"}), denied),
    )


@case
def _set_start_offsets():
    def answer(*codes, code=0, message=None):
        partitions = [
            alter_share_group_offsets.AlterShareGroupOffsetsResponsePartition(
                partition_index=n, error_code=one, error_message=message
            )
            for n, one in enumerate(codes)
        ]
        topic = alter_share_group_offsets.AlterShareGroupOffsetsResponseTopic(
            topic_name="t", topic_id=UUID, partitions=partitions
        )
        return alter_share_group_offsets.AlterShareGroupOffsetsResponse(
            error_code=code, error_message=message, responses=[topic]
        )

    def set_all(client):
        share_groups.set_start_offsets(client, "g", {T1: 5, U0: 2, T0: 0})

    return exchanges(
        exchange(set_all, answer(0, 0)),
        exchange(set_all, answer(code=E.NON_EMPTY_GROUP)),
        exchange(set_all, answer(code=E.GROUP_ID_NOT_FOUND)),
        exchange(set_all, answer(code=E.GROUP_AUTHORIZATION_FAILED, message="not you")),
        exchange(set_all, answer(0, E.UNKNOWN_TOPIC_OR_PARTITION)),
        exchange(set_all, answer(E.TOPIC_AUTHORIZATION_FAILED, message="not that")),
        exchange(lambda client: share_groups.set_start_offsets(client, "g", {})),
    )


@case
def _delete_start_offsets():
    def answer(topic_code=0, code=0, message=None):
        topic = delete_share_group_offsets.DeleteShareGroupOffsetsResponseTopic(
            topic_name="t", topic_id=UUID, error_code=topic_code, error_message=message
        )
        return delete_share_group_offsets.DeleteShareGroupOffsetsResponse(
            error_code=code, error_message=message, responses=[topic]
        )

    def delete(client):
        return share_groups.delete_positions(client, "g", [U0, T1, T0])

    before = started(7, -1, 9)
    return exchanges(
        exchange(delete, before, answer()),
        exchange(lambda client: share_groups.delete_positions(client, "g", [U0]), before, answer()),
        exchange(delete, before, answer(code=E.NON_EMPTY_GROUP)),
        exchange(delete, before, answer(code=E.GROUP_ID_NOT_FOUND, message="it is no share group")),
        exchange(delete, before, answer(E.UNKNOWN_TOPIC_OR_PARTITION, message="unknown here")),
        exchange(delete, before, answer(E.TOPIC_AUTHORIZATION_FAILED)),
    )


@case
def _delete_offsets():
    def answer(*codes, code=0):
        partitions = [
            offset_delete.OffsetDeleteResponsePartition(partition_index=n, error_code=one)
            for n, one in enumerate(codes)
        ]
        topic = offset_delete.OffsetDeleteResponseTopic(name="t", partitions=partitions)
        return offset_delete.OffsetDeleteResponse(error_code=code, topics=[topic])

    def delete(client):
        return group_offsets.delete_offsets(client, "g", [U0, T1, T0])

    return exchanges(
        exchange(delete, answer(0, 0)),
        exchange(delete, answer(code=E.GROUP_ID_NOT_FOUND)),
        exchange(delete, answer(code=E.GROUP_AUTHORIZATION_FAILED)),
        exchange(delete, answer(0, E.GROUP_SUBSCRIBED_TO_TOPIC)),
    )


@case
def _age_before_the_start():
    outside = fetched(code=E.OFFSET_OUT_OF_RANGE)
    refused = fetched(code=E.TOPIC_AUTHORIZATION_FAILED)
    return exchanges(
        exchange(
            lambda client: record_ages.age_seconds(client, T1, 0),
            outside,
            listed(2),
            fetched(batch_of(3)),
        ),
        exchange(lambda client: record_ages.age_seconds(client, T1, 0), refused),
    )


@case
def _kind_named():
    names = ["classic", "Consumer", "Share", "streams", "", "later"]
    return exchanges(
        *(exchange(lambda _, name=name: group_kinds.kind_named(name).name) for name in names)
    )


# --- streams groups


def topic_info(name):
    return streams_group_describe.TopicInfo(
        name=name, partitions=2, replication_factor=1, topic_configs=[]
    )


def subtopology(name, sources, repartition=(), sinks=(), changelogs=()):
    return streams_group_describe.Subtopology(
        subtopology_id=name,
        source_topics=list(sources),
        repartition_sink_topics=list(sinks),
        state_changelog_topics=[topic_info(one) for one in changelogs],
        repartition_source_topics=[topic_info(one) for one in repartition],
    )


TOPOLOGY = streams_group_describe.Topology(
    epoch=3,
    subtopologies=[
        subtopology("0", ["t"], sinks=["g-by-key-repartition"]),
        subtopology(
            "1",
            ["u"],
            repartition=["g-by-key-repartition", "of-another-repartition", "g-odd"],
            changelogs=["g-counts-changelog", "gh-counts-changelog", "u"],
        ),
    ],
)


def tasks(**by_subtopology):
    return [
        streams_group_describe.TaskIds(subtopology_id=name[1:], partitions=partitions)
        for name, partitions in by_subtopology.items()
    ]


def assignment(active, standby=(), warmup=()):
    return streams_group_describe.Assignment(
        active_tasks=active, standby_tasks=list(standby), warmup_tasks=list(warmup)
    )


def described(topology=TOPOLOGY, code=0, **fields):
    position = streams_group_describe.TaskOffset(subtopology_id="1", partition=0, offset=4)
    member = streams_group_describe.Member(
        member_id="m",
        member_epoch=4,
        instance_id="i",
        rack_id="r",
        client_id="c",
        client_host="/h",
        topology_epoch=3,
        process_id="p",
        user_endpoint=streams_group_describe.Endpoint(host="e", port=80),
        client_tags=[streams_group_describe.KeyValue(key="zone", value="a")],
        task_offsets=[position],
        task_end_offsets=[position.replace(offset=9)],
        assignment=assignment(tasks(_0=[1, 0], _9=[0]), tasks(_1=[0]), tasks(_1=[1])),
        target_assignment=assignment(tasks(_0=[0]), tasks(_1=[1])),
        is_classic=False,
    )
    group = streams_group_describe.DescribedGroup(
        error_code=code,
        group_id="g",
        group_state="Stable",
        group_epoch=7,
        assignment_epoch=6,
        topology=topology,
        members=[member],
        assignor_name="sticky",
        **fields,
    )
    return streams_group_describe.StreamsGroupDescribeResponse(groups=[group])


NONE = described(code=E.GROUP_ID_NOT_FOUND)


@case
def _streams_described():
    def describe(client):
        found = streams.streams_described(client, "g")
        internal = streams.internal_topics({**found, "group": "g"})
        return found, sorted(streams.task_owners(found)), internal

    return exchanges(
        exchange(describe, described()),
        exchange(describe, described(topology=None)),
        exchange(lambda client: streams.streams_described(client, "g"), NONE),
        exchange(lambda client: streams.streams_described(client, "g"), VersionMismatch("old")),
    )


@case
def _source_rows():
    """Partition 1 has no committed offset; the topic of partition 3 is no source topic."""

    def rows(client):
        found = streams.streams_described(client, "g")
        return streams.source_rows(client, {"group": "g", **(found or {})})

    return exchanges(
        exchange(
            rows,
            described(),
            committed(3),
            listed(9, 8, first=0),
            listed(5, first=1),
            leaders=LEADERS,
        ),
        exchange(
            rows, described(), committed(3), listed(9, first=0), listed(5, first=1), leaders=LEADERS
        ),
        exchange(rows, described(topology=None), committed(3), listed(9, first=0), leaders=LEADERS),
        exchange(rows, NONE, committed(3), listed(9, first=0), leaders=LEADERS),
    )


@case
def _input_offsets():
    def inputs(client):
        found = streams.streams_described(client, "g")
        return streams.input_offsets(client, {"group": "g", **(found or {})})

    elsewhere = streams_group_describe.Topology(epoch=1, subtopologies=[subtopology("0", ["u"])])
    return exchanges(
        exchange(inputs, described(), committed(3, -1)),
        exchange(inputs, described(topology=elsewhere), committed(3)),
        exchange(inputs, described(topology=None), committed(3)),
        exchange(inputs, NONE, committed()),
    )


@case
def _topology_of():
    def node(name, kind, successors=(), **fields):
        given = {"source_topics": [], "stores": [], **fields}
        return TopologyDescriptionNode(
            name=name, node_type=kind, successors=list(successors), **given
        )

    nodes = [
        node("in", 1, ["b", "a"], source_topics=["u", "t"]),
        node("a", 2, ["out"], stores=["y", "x"]),
        node("b", 2, ["out"]),
        node("out", 3, sink_topic="v"),
        node("odd", 9),
    ]
    store = TopologyDescriptionGlobalStore(
        source=node("all", 1, ["keep"], source_topics=["w"]),
        processor=node("keep", 2, stores=["k"]),
    )
    told = TopologyDescription(
        subtopologies=[TopologyDescriptionSubtopology(subtopology_id="0", nodes=nodes)],
        global_stores=[store],
    )

    def topology(client):
        return streams.topology_of(client, "g")

    return exchanges(
        exchange(topology, described(topology_description=told, topology_description_status=3)),
        exchange(topology, described(topology_description_status=1)),
        exchange(topology, described(topology_description_status=9)),
        exchange(topology, described(topology_description_status=-1)),
        exchange(topology, NONE),
        exchange(topology, VersionMismatch("old")),
    )


@case
def _described_or_none():
    dead, gone = classic("Dead"), VersionMismatch("old")
    return exchanges(
        exchange(
            lambda client: group_members.described_or_none(client, "g"), dead, gone, gone, NONE
        )
    )
