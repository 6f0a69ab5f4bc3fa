"""AlterPartitionReassignments through a broker."""

from tests.broker.handlers.broker_client import broker_client
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)


def move(replicas, *, topic="t", index=0):
    partition = ReassignablePartition(partition_index=index, replicas=replicas)
    wanted = ReassignableTopic(name=topic, partitions=[partition])
    return AlterPartitionReassignmentsRequest(topics=[wanted])


async def code_of(one, request):
    answer = await one.call(request)
    assert answer.error_code == 0
    return answer.responses[0].partitions[0].error_code


async def test_partition_moves_to_another_broker(tmp_path):
    async with broker_client(tmp_path, brokers=2) as one:
        await one.create_at("t", [11])
        assert await code_of(one, move([12])) == 0
        await one.seen(lambda image: image.topics.by_name["t"].partitions[0].replicas == (12,))
        assert one.image.topics.by_name["t"].partitions[0].leader == 12


async def test_impossible_reassignment_is_refused(tmp_path):
    async with broker_client(tmp_path) as one:
        await one.create("t")
        codes = [
            await code_of(one, request)
            for request in (move([77]), move([]), move(None), move([11], topic="nowhere"))
        ]
        assert codes == [
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]
