"""Transaction markers: the control record that ends a producer's transaction in a partition.

Source: Kafka's `EndTransactionMarker`, `MemoryRecords.withEndTransactionMarker` (KIP-98).
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from trimaran.log.batches.batch import BatchView
from trimaran.log.batches.records import NewRecord, build_batch, decode_records
from trimaran.wire.errors import KafkaError, RemoteProtocolError
from trimaran.wire.identity import CoordinatorEpoch, ProducerEpoch, ProducerId
from trimaran.wire.messages.control import ControlType, decode_control_key, encode_control_key

CONTROL_BATCH_BYTES_MAX = 1024  # a marker takes less than 100 bytes
_VALUE = struct.Struct(">hi")  # version, coordinator epoch
_VALUE_VERSION = 0


class EndMarker(NamedTuple):
    """A transaction marker. `coordinator_epoch` is the leader epoch of the coordinator that wrote it."""

    is_commit: bool
    coordinator_epoch: CoordinatorEpoch


def read_end_marker(batch: BatchView) -> EndMarker | None:
    """Returns the marker in a whole control batch; None if the batch is empty (compaction removed its transaction) or
    has other control records.
    """
    if not batch.count or len(batch.buffer) != batch.size:
        return None
    try:
        [record] = decode_records(batch, CONTROL_BATCH_BYTES_MAX)
        kind = decode_control_key(record.key or b"")
        if kind not in (ControlType.COMMIT, ControlType.ABORT):
            return None
        return EndMarker(kind is ControlType.COMMIT, _VALUE.unpack_from(record.value or b"")[1])
    except (RemoteProtocolError, KafkaError, ValueError, struct.error):
        return None  # a marker type of a later Kafka version is ignored (mB9)


def build_end_marker(
    marker: EndMarker, *, producer_id: ProducerId, producer_epoch: ProducerEpoch, timestamp_ms: int
) -> bytearray:
    """Returns a control batch with the marker, to be appended."""
    kind = ControlType.COMMIT if marker.is_commit else ControlType.ABORT
    value = _VALUE.pack(_VALUE_VERSION, marker.coordinator_epoch)
    return bytearray(
        build_batch(
            [NewRecord(encode_control_key(kind), value, timestamp_ms)],
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            is_control=True,
            is_transactional=True,
        )
    )
