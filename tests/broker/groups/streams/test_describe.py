"""Streams groups in ListGroups and StreamsGroupDescribe."""

from __future__ import annotations

import pytest

from tests.broker.groups.streams.driver import StreamsDriver, subtopology, topic, topology
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.list_groups import ListedGroup
from trimaran.wire.messages.streams_group_describe import (
    Assignment,
    DescribedGroup,
    Endpoint,
    KeyValue,
    Member,
    Subtopology,
    TaskIds,
    TaskOffset,
    TopicInfo,
    Topology,
)

GIVEN = topology(
    subtopology("0", ["t"], sinks=["r"], changelogs=["c"]),
    subtopology("1", [], repartition=[topic("r", 0, 2, k="v")]),
)


def info(name, partitions, replicas=0, configs=()):
    return TopicInfo(
        name=name,
        partitions=partitions,
        replication_factor=replicas,
        topic_configs=[KeyValue(key=key, value=value) for key, value in configs],
    )


def described_topology(count):
    return Topology(
        epoch=1,
        subtopologies=[
            Subtopology(
                subtopology_id="0",
                source_topics=["t"],
                repartition_sink_topics=["r"],
                state_changelog_topics=[info("c", count)],
                repartition_source_topics=[],
            ),
            Subtopology(
                subtopology_id="1",
                source_topics=[],
                repartition_sink_topics=[],
                state_changelog_topics=[],
                repartition_source_topics=[info("r", count, 2, [("k", "v")])],
            ),
        ],
    )


def ids(**tasks):
    return [TaskIds(subtopology_id=one[1:], partitions=mine) for one, mine in tasks.items()]


def test_group_is_described_whole():
    driver = StreamsDriver()
    driver.topics.set("c", 4)
    driver.topics.set("r", 4)
    driver.beat(
        "a",
        topology=GIVEN,
        tags={"zone": "z"},
        endpoint=("h", 80),
        rack_id="rack",
        instance_id="i",
        offsets={"0": {1: 5, 0: 4}},
    )
    head, members = driver.streams.described_with_members("g")
    assert head == DescribedGroup(
        group_id="g",
        group_state="Stable",
        group_epoch=2,
        assignment_epoch=2,
        topology=described_topology(4),
        members=[],
        assignor_name="sticky",
    )
    every = [0, 1, 2, 3]
    tasks = Assignment(active_tasks=ids(_0=every, _1=every), standby_tasks=[], warmup_tasks=[])
    assert list(members) == [
        Member(
            member_id="a",
            member_epoch=2,
            instance_id="i",
            rack_id="rack",
            client_id="c",
            client_host="/127.0.0.1",
            topology_epoch=1,
            process_id="process-a",
            user_endpoint=Endpoint(host="h", port=80),
            client_tags=[KeyValue(key="zone", value="z")],
            task_offsets=[
                TaskOffset(subtopology_id="0", partition=0, offset=4),
                TaskOffset(subtopology_id="0", partition=1, offset=5),
            ],
            task_end_offsets=[],
            assignment=tasks,
            target_assignment=tasks,
            is_classic=False,
        )
    ]


def test_topology_that_cannot_run_is_described_as_given():
    driver = StreamsDriver()
    driver.beat("a", topology=GIVEN)
    head, _ = driver.streams.described_with_members("g")
    assert (head.group_state, head.topology) == ("NotReady", described_topology(0))


def test_loaded_group_is_described_before_its_first_heartbeat():
    driver = StreamsDriver()
    driver.beat("a")
    head, members = driver.reloaded().streams.described_with_members("g")
    assert (head.group_state, head.topology.epoch, len(list(members))) == ("Stable", 1, 1)


def test_other_groups_are_not_found():
    driver = StreamsDriver()
    with pytest.raises(KafkaError) as raised:
        driver.streams.described_with_members("g")
    assert raised.value.code is ErrorCode.GROUP_ID_NOT_FOUND
    assert raised.value.message == "Group g not found."
    driver.consumer_heartbeat("m")
    with pytest.raises(KafkaError, match="Group g is not a streams group"):
        driver.streams.described_with_members("g")


def test_group_is_listed_with_its_type():
    driver = StreamsDriver()
    driver.beat("a")
    assert driver.shard.list_groups(["g"], ["stable"], ["streams"]) == [
        ListedGroup(
            group_id="g", protocol_type="streams", group_state="Stable", group_type="streams"
        )
    ]
    assert driver.shard.list_groups(["g"], ["NotReady"], []) == []


def test_describe_groups_finds_no_classic_group():
    driver = StreamsDriver()
    driver.beat("a")
    head, _ = driver.shard.kind_of("g").described("g", 6)
    assert (head.error_code, head.group_state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")
