"""The largest valid requests of streams groups are handled in steps: topologies with as many names and tasks as are
allowed, and the member that gets all tasks.
"""

from __future__ import annotations

import pytest
import trio

from tests.broker.groups.rig import TOPIC_ID, cluster_image, open_rig, topic_image
from tests.broker.handlers.test_streams_group_heartbeat import served
from tests.broker.test_largest_share_requests import asked
from tests.slow_steps import CALLS_MAX
from trimaran.broker.coordination import effects
from trimaran.broker.groups.records import OFFSETS_TOPIC
from trimaran.broker.groups.streams.configuring import TASKS_MAX
from trimaran.broker.groups.streams.topology import SUBTOPOLOGIES_MAX, TOPOLOGY_ENTRIES_MAX
from trimaran.broker.handlers.streams_group_describe import streams_group_describe
from trimaran.broker.handlers.streams_group_heartbeat import streams_group_heartbeat
from trimaran.wire.messages.streams_group_describe import StreamsGroupDescribeRequest
from trimaran.wire.messages.streams_group_heartbeat import (
    KeyValue,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TopicInfo,
    Topology,
)

pytestmark = pytest.mark.slow(seconds=15)


def subtopology(name, *changelogs):
    return Subtopology(
        subtopology_id=name,
        source_topics=["t"],
        source_topic_regex=[],
        state_changelog_topics=list(changelogs),
        repartition_sink_topics=[],
        repartition_source_topics=[],
        copartition_groups=[],
    )


def changelog(name, configs=0):
    return TopicInfo(
        name=name,
        partitions=0,
        replication_factor=1,
        topic_configs=[KeyValue(key=f"k{number}", value="v") for number in range(configs)],
    )


def of_names():
    """Returns one subtopology with as many changelogs as names are allowed."""
    return [subtopology("s", *[changelog(f"c{n}") for n in range(TOPOLOGY_ENTRIES_MAX // 2 - 1)])]


def of_configs():
    """Returns changelogs with three configs each, which count as eight names."""
    count = (TOPOLOGY_ENTRIES_MAX - 200) // 800
    return [
        subtopology(f"s{one}", *[changelog(f"c{one}-{n}", 3) for n in range(count)])
        for one in range(100)
    ]


def of_tasks():
    return [subtopology(f"s{one}") for one in range(SUBTOPOLOGIES_MAX)]


TOPOLOGIES = {
    "names": (of_names, 1),
    "configs": (of_configs, 1),
    "tasks": (of_tasks, TASKS_MAX // SUBTOPOLOGIES_MAX),
}


def beat(epoch, topology=None, member="m"):
    owned = [] if topology is not None else None
    return StreamsGroupHeartbeatRequest(
        group_id="g",
        member_id=member,
        member_epoch=epoch,
        endpoint_information_epoch=0,
        rebalance_timeout_ms=1000,
        topology=topology,
        active_tasks=owned,
        standby_tasks=owned,
        warmup_tasks=owned,
        process_id="p",
    )


@pytest.mark.parametrize(("name", "exist"), [("names", True), ("configs", False), ("tasks", True)])
async def test_largest_topologies_run_in_steps(tmp_path, name, exist, autojump_clock, monkeypatch):
    """The changelogs exist, or are to be created."""
    # Intervals between assignments are measured by this clock.
    monkeypatch.setattr(effects, "now_ms", lambda: int(trio.current_time() * 1000))
    make, partitions = TOPOLOGIES[name]
    topology = Topology(epoch=1, subtopologies=make())
    names = [each.name for one in topology.subtopologies for each in one.state_changelog_topics]
    topics = [
        topic_image(each, number.to_bytes(16, "big"), partitions)
        for number, each in enumerate(names, 1)
    ]
    async with open_rig(tmp_path) as rig:
        offsets = topic_image(OFFSETS_TOPIC, b"o" * 16, rig.limits.partition_count)
        source = topic_image("t", TOPIC_ID, partitions)
        rig.metadata.image = cluster_image(source, offsets, *(topics if exist else ()))
        served(rig)
        await rig.leading()

        async def heartbeat(*given):
            return await asked(streams_group_heartbeat, beat(*given), rig.context, CALLS_MAX)

        await heartbeat(0, topology)
        await heartbeat(0, topology, "n")
        for _ in range(3):
            await trio.sleep(5)
            await heartbeat(0, topology)
            await heartbeat(0, topology, "n")
        await heartbeat(-1, None, "n")
        for _ in range(3):
            await trio.sleep(5)
            answer = await heartbeat(0, topology)
        count = len(topology.subtopologies) * partitions if exist else 0
        assert sum(len(one.partitions) for one in answer.active_tasks) == count
        describe = StreamsGroupDescribeRequest(group_ids=["g"], include_authorized_operations=False)
        described = await asked(streams_group_describe, describe, rig.context, CALLS_MAX)
        [group] = described.groups
        assert len(group.topology.subtopologies) == len(topology.subtopologies)
