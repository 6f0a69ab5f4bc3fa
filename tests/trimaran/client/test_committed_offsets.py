"""The committed offsets as commands read them."""

import trio

from tests.broker.handlers.broker_client import broker_client
from trimaran.client.group_offsets import committed_offsets
from trimaran.wire.blocking import BlockingClient
from trimaran.wire.client.destinations import CoordinatorNode
from trimaran.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)


async def test_negative_offset_is_invalid(tmp_path):
    async with broker_client(tmp_path, offsets_topic_replication_factor="1") as one:
        await one.create("t", partitions=2)

        def committed():
            with BlockingClient(one.cluster.bootstrap) as client:
                committed_offsets(client, "g")  # waits until the group has a coordinator
                partitions = [
                    OffsetCommitRequestPartition(
                        partition_index=index, committed_offset=offset, committed_metadata=""
                    )
                    for index, offset in ((0, 5), (1, -2))
                ]
                topic = OffsetCommitRequestTopic(name="t", partitions=partitions)
                request = OffsetCommitRequest(group_id="g", member_id="", topics=[topic])
                answer = client.call(CoordinatorNode("g"), request, version=9)
                assert {partition.error_code for partition in answer.topics[0].partitions} == {0}
                return committed_offsets(client, "g")

        assert await trio.to_thread.run_sync(committed) == {("t", 0): 5}
