"""WriteTxnMarkers: a coordinator ends transactions, and gets a result for each partition."""

import pytest
import trio
import trio.testing

from tests.broker.calls import call, finished, through_wire
from tests.broker.test_transactions import mark, write
from tests.cluster.data_side import open_harness, partition, topic
from trimaran.broker.handlers.write_txn_markers import write_txn_markers
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)


@pytest.fixture
def harness(tmp_path):
    harness = open_harness(tmp_path)
    harness.set_image(topic("t", partition()), topic("followed", partition((11, 12), leader=12)))
    yield harness
    harness.directory.close(broker_epoch=None)


@pytest.mark.parametrize("commit", [True, False])
async def test_marker_ends_the_transaction(harness, commit):
    write(harness, 7)
    log = harness.leader().log
    assert log.last_stable_offset(2) == 0
    assert await mark(harness, 7, commit=commit) == ErrorCode.NONE
    assert log.log_end_offset == log.last_stable_offset(2) == 2


async def test_answer_comes_when_marker_is_on_disk(harness):
    write(harness, 7)
    request = through_wire(markers(7, ("t", [0])), 1)
    answers = []

    async def ask():
        answers.append(
            await finished(
                write_txn_markers(request, harness.contexts.transactions, call(request, 1))
            )
        )

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await trio.testing.wait_all_tasks_blocked()
            assert answers == []
            harness.flush()
    assert codes_of(answers[0]) == {(7, "t", 0): 0}


def markers(producer, *topics, epoch=0):
    marker = WritableTxnMarker(
        producer_id=producer,
        producer_epoch=epoch,
        transaction_result=True,
        topics=[WritableTxnMarkerTopic(name=name, partition_indexes=ids) for name, ids in topics],
        coordinator_epoch=0,
    )
    return WriteTxnMarkersRequest(markers=[marker])


def codes_of(answer):
    return {
        (marker.producer_id, found.name, partition.partition_index): partition.error_code
        for marker in answer.markers
        for found in marker.topics
        for partition in found.partitions
    }


async def test_every_partition_has_its_answer(harness):
    """Partitions not led here are refused, and the markers of the rest are written."""
    write(harness, 7, epoch=3)
    topics = (("followed", [0]), ("nowhere", [0]), ("t", [1]))
    request = through_wire(markers(7, *topics, epoch=3), 1)
    answer = await finished(
        write_txn_markers(request, harness.contexts.transactions, call(request, 1))
    )
    assert codes_of(answer) == {
        (7, "followed", 0): ErrorCode.NOT_LEADER_OR_FOLLOWER,
        (7, "nowhere", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        (7, "t", 1): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


async def test_stale_coordinators_and_epochs_are_refused(harness):
    """T4, T6, mA9, KIP-890."""
    write(harness, 7, epoch=3)
    assert await mark(harness, 7, commit=True, epoch=2) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert await mark(harness, 7, commit=True, epoch=3, txn=2) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert await mark(harness, 7, commit=True, epoch=4, coordinator_epoch=5, txn=2) == 0
    assert await mark(harness, 7, commit=True, epoch=4, coordinator_epoch=5, txn=2) == 0
    write(harness, 7, epoch=4)
    late = await mark(harness, 7, commit=False, epoch=4, coordinator_epoch=5, txn=2)
    assert late == ErrorCode.INVALID_PRODUCER_EPOCH
    fenced = await mark(harness, 7, commit=True, epoch=5, coordinator_epoch=4, txn=2)
    assert fenced == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    harness.flush()
    assert harness.leader().log.last_stable_offset(4) == 3
