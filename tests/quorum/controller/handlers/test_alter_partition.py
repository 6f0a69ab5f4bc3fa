"""AlterPartition: a leader changes an ISR (KIP-497)."""

import pytest

from tests.quorum.controller.handlers.controller_client import controller_client, standby_client
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerState,
)


def change(leader, topic_id, isr, *, leader_epoch=0, partition_epoch=0):
    """Returns a request; `isr` are brokers of the harness."""
    data = AlterPartitionRequestPartitionData(
        partition_index=0,
        leader_epoch=leader_epoch,
        new_isr_with_epochs=[BrokerState(broker_id=b.id, broker_epoch=b.epoch) for b in isr],
        partition_epoch=partition_epoch,
    )
    topic = AlterPartitionRequestTopicData(topic_id=topic_id, partitions=[data])
    return AlterPartitionRequest(broker_id=leader.id, broker_epoch=leader.epoch, topics=[topic])


async def test_replica_leaves_and_rejoins_isr(tmp_path):
    async with controller_client(tmp_path) as one:
        first, second = await one.join(1, 2)
        topic = await one.create("t", [1, 2])
        for isr, epoch in (([first], 0), ([first, second], 1)):
            request = change(first, topic.id, isr, partition_epoch=epoch)
            (found,) = (await one.call(request)).topics[0].partitions
            ids = [broker.id for broker in isr]
            assert (found.error_code, found.isr, found.partition_epoch) == (0, ids, epoch + 1)
            assert sorted(one.partition().isr) == ids


async def test_stale_or_foreign_isr_changes_are_refused(tmp_path):
    async with controller_client(tmp_path) as one:
        first, second = await one.join(1, 2)
        topic = await one.create("t", [1, 2])
        requests = (
            change(first, topic.id, [first], partition_epoch=-1),
            change(first, topic.id, [first], leader_epoch=7),
            change(second, topic.id, [second]),
            change(first, bytes(15) + b"\7", [first]),
        )
        answers = [await one.call(request) for request in requests]
        codes = [answer.topics[0].partitions[0].error_code for answer in answers]
        assert codes == [
            ErrorCode.INVALID_UPDATE_VERSION,
            ErrorCode.NOT_CONTROLLER,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.UNKNOWN_TOPIC_ID,
        ]
        assert one.partition().isr == (1, 2)


async def test_broker_of_old_epoch_changes_nothing(tmp_path):
    async with controller_client(tmp_path) as one:
        (first,) = await one.join(1)
        topic = await one.create("t", [1])
        request = change(first, topic.id, [first])
        request.broker_epoch -= 1
        assert (await one.call(request)).error_code == ErrorCode.STALE_BROKER_EPOCH


async def test_replica_of_stale_epoch_does_not_join_isr(tmp_path):
    """KIP-841: otherwise it would count as in sync although it has restarted."""
    async with controller_client(tmp_path) as one:
        first, second = await one.join(1, 2)
        topic = await one.create("t", [1, 2])
        await one.call(change(first, topic.id, [first]))
        second.epoch -= 1
        request = change(first, topic.id, [first, second], partition_epoch=1)
        (found,) = (await one.call(request)).topics[0].partitions
        assert found.error_code == ErrorCode.INELIGIBLE_REPLICA
        assert one.partition().isr == (1,)


@pytest.mark.slow
async def test_inactive_controller_answers_not_controller(tmp_path):
    async with standby_client(tmp_path) as one:
        answer = await one.call(AlterPartitionRequest(broker_id=1, topics=[]))
        assert answer.error_code == ErrorCode.NOT_CONTROLLER
