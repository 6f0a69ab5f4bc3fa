"""ListPartitionReassignments through a broker: current reassignments, as the controller knows them."""

from tests.broker.handlers.broker_client import broker_client
from tests.broker.handlers.test_alter_partition_reassignments import code_of, move
from trimaran.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)


async def test_stuck_move_is_listed_until_cancelled(tmp_path):
    async with broker_client(tmp_path, brokers=2) as one:
        await one.create_at("t", [11])
        await one.create_at("u", [11])
        everything = ListPartitionReassignmentsRequest(topics=None)
        assert (await one.call(everything)).topics == []
        await one.cluster.stop(12)
        assert await code_of(one, move([11, 12])) == 0
        (topic,) = (await one.call(everything)).topics
        (found,) = topic.partitions
        assert (topic.name, found.replicas, found.adding_replicas) == ("t", [11, 12], [12])
        other = ListPartitionReassignmentsTopics(name="u", partition_indexes=[0])
        assert (await one.call(everything.replace(topics=[other]))).topics == []
        assert await code_of(one, move(None)) == 0
        assert (await one.call(everything)).topics == []
