"""Markers that end a transaction in a partition: outdated ones are refused, and write nothing (T4, T6)."""

from __future__ import annotations

from tests.broker.batches import batch
from tests.broker.partitions.listening import code_of
from tests.cluster.data_side import partition, topic
from trimaran.broker.partitions.end_markers import append_end_marker
from trimaran.log.batches.batch import iter_batches
from trimaran.log.producers.marker import EndMarker
from trimaran.wire.errors import ErrorCode


def test_outdated_marker_is_refused(harness):
    harness.set_image(topic("t", partition()))
    leader = harness.leader()
    data = batch(b"a", producer_id=7, producer_epoch=3, base_sequence=0, is_transactional=True)
    leader.append(data, list(iter_batches(data)))

    def end(producer_epoch, coordinator_epoch):
        return append_end_marker(
            leader,
            EndMarker(is_commit=True, coordinator_epoch=coordinator_epoch),
            producer_id=7,
            producer_epoch=producer_epoch,
            transaction_version=2,
            now_ms=0,
        )

    assert code_of(end, 3, 5) is ErrorCode.INVALID_PRODUCER_EPOCH, "it needs a higher epoch"
    assert leader.log.log_end_offset == 1
    assert end(4, 5).last_offset == 1
    assert code_of(end, 4, 4) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert leader.log.log_end_offset == 2
