"""ListPartitionReassignments on the controller."""

from tests.broker.handlers.test_alter_partition_reassignments import code_of, move
from tests.quorum.controller.handlers.controller_client import controller_client
from trimaran.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)


async def test_ongoing_reassignments_are_listed(tmp_path):
    async with controller_client(tmp_path) as one:
        await one.join(1, 2)
        await one.create("t", [1])
        await one.create("u", [1])
        everything = ListPartitionReassignmentsRequest(topics=None)
        assert (await one.call(everything)).topics == []
        assert await code_of(one, move([2])) == 0
        (topic,) = (await one.call(everything)).topics
        (found,) = topic.partitions
        assert (topic.name, found.adding_replicas, found.removing_replicas) == ("t", [2], [1])
        for name, count in (("t", 1), ("u", 0), ("nowhere", 0)):
            wanted = ListPartitionReassignmentsTopics(name=name, partition_indexes=[0])
            assert len((await one.call(everything.replace(topics=[wanted]))).topics) == count
