"""A share group over real connections: share coordinators on two brokers store its states."""

from __future__ import annotations

import trio

from tests.broker.handlers.broker_client import SECONDS, broker_client
from tests.cluster.in_process import connected_to
from trimaran.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from trimaran.wire.messages.delete_groups import DeleteGroupsRequest
from trimaran.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from trimaran.wire.messages.find_coordinator import FindCoordinatorRequest
from trimaran.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

SETTINGS = {
    "offsets_topic_num_partitions": "4",
    "offsets_topic_replication_factor": "1",
    "share_coordinator_state_topic_num_partitions": "4",
    "share_coordinator_state_topic_replication_factor": "1",
    "share_coordinator_state_topic_min_isr": "1",
    "group_share_assignment_interval_ms": "0",
}


async def coordinator_of(one, group_id):
    """Returns the broker that coordinates the group."""
    while True:
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=[group_id])
        [found] = (await one.call(request, 4)).coordinators
        if not found.error_code:
            return one.cluster.brokers[found.node_id]
        await trio.sleep(0.05)


def beat(epoch):
    names = ["t"] if epoch == 0 else None
    return ShareGroupHeartbeatRequest(
        group_id="g", member_id="m", member_epoch=epoch, subscribed_topic_names=names
    )


async def test_group_uses_states_on_both_brokers(tmp_path):
    async with broker_client(tmp_path, brokers=2, **SETTINGS) as one:
        await one.create("t", partitions=8)
        broker = await coordinator_of(one, "g")
        async with connected_to(broker) as connection:

            async def call(request):
                return await connection.call(request, version=None, timeout=SECONDS)

            partition = AlterShareGroupOffsetsRequestPartition(partition_index=3, start_offset=5)
            topic = AlterShareGroupOffsetsRequestTopic(topic_name="t", partitions=[partition])
            altered = await call(AlterShareGroupOffsetsRequest(group_id="g", topics=[topic]))
            assert [part.error_code for part in altered.responses[0].partitions] == [0]
            answer = await call(beat(0))
            with trio.fail_after(SECONDS):
                while len(answer.assignment.topic_partitions[0].partitions) < 8:
                    await trio.sleep(0.05)
                    answer = await call(beat(0))
            group = DescribeShareGroupOffsetsRequestGroup(group_id="g", topics=None)
            described = await call(DescribeShareGroupOffsetsRequest(groups=[group]))
            [topic] = described.groups[0].topics
            starts = [part.start_offset for part in topic.partitions]
            assert starts == [0, 0, 0, 5, 0, 0, 0, 0]
            states = broker.parts.metadata.image.topics.by_name["__share_group_state"]
            assert {part.leader for part in states.partitions.values()} == set(one.cluster.brokers)
            assert (await call(beat(-1))).error_code == 0
            deleted = await call(DeleteGroupsRequest(groups_names=["g"]))
            assert [result.error_code for result in deleted.results] == [0]
            described = await call(DescribeShareGroupOffsetsRequest(groups=[group]))
            assert described.groups[0].topics == []
