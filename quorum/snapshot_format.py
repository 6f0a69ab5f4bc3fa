"""The bytes of a metadata snapshot: a header batch, batches of records, a footer batch.

    snapshot = control batch { SnapshotHeader }, { batch of metadata records }, control batch { SnapshotFooter }

Offsets count from 0 through the file, every batch has the snapshot's epoch. A file without its footer, or with a batch whose
checksum is wrong, is no snapshot. Source: KIP-630, Kafka's `RecordsSnapshotWriter` and `RecordsSnapshotReader`.
Left out: KRaftVersion and Voters records (kraft.version 1); they are skipped when read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from log.batch import NewRecord, build_batch, check_batch, decode_records, iter_batches
from log.control_records import build_control_batch, read_control_records
from quorum.listener import LoadedSnapshot
from quorum.raft.types import OffsetAndEpoch
from wire.errors import KafkaError, RemoteProtocolError
from wire.messages.control import (
    ControlType,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
)
from wire.records.metadata import decode_metadata_record
from wire.schema import Message

# Records per batch: large enough that headers cost nothing, small enough to read one by one.
RECORDS_PER_BATCH = 1000


class SnapshotDamaged(RemoteProtocolError):
    """Not a complete snapshot: cut short, or a checksum is wrong."""


def encode_snapshot(
    snapshot_id: OffsetAndEpoch, values: Iterable[bytes], *, appended_at_ms: int, now_ms: int
) -> Iterator[bytes]:
    """The batches of a snapshot of the encoded metadata records `values`, one after another.

    `appended_at_ms` is the append time of the last record of the log that is contained.
    """
    header = SnapshotHeaderRecord(version=0, last_contained_log_timestamp=appended_at_ms)
    yield _control_batch(ControlType.SNAPSHOT_HEADER, header, 0, snapshot_id.epoch, now_ms)
    offset = 1
    records = (NewRecord(None, value, now_ms) for value in values)
    while chunk := list(islice(records, RECORDS_PER_BATCH)):
        yield build_batch(chunk, base_offset=offset, leader_epoch=snapshot_id.epoch)
        offset += len(chunk)
    footer = SnapshotFooterRecord(version=0)
    yield _control_batch(ControlType.SNAPSHOT_FOOTER, footer, offset, snapshot_id.epoch, now_ms)


def _control_batch(
    kind: ControlType,
    value: SnapshotHeaderRecord | SnapshotFooterRecord,
    offset: int,
    epoch: int,
    now_ms: int,
) -> bytes:
    return build_control_batch(
        [(kind, value)], timestamp_ms=now_ms, base_offset=offset, leader_epoch=epoch
    )


def decode_snapshot(snapshot_id: OffsetAndEpoch, data: bytes | memoryview) -> LoadedSnapshot:
    """All records of a complete snapshot.

    Raises:
        SnapshotDamaged: see there.
    """
    try:
        return _decode(snapshot_id, data)
    except SnapshotDamaged:
        raise
    except (RemoteProtocolError, KafkaError) as error:
        raise SnapshotDamaged(f"snapshot {snapshot_id}: {error}") from error


def _decode(snapshot_id: OffsetAndEpoch, data: bytes | memoryview) -> LoadedSnapshot:
    appended_at_ms = None
    ended = False
    records: list[Message] = []
    for batch in iter_batches(memoryview(data)):
        check_batch(batch)
        if ended:
            raise SnapshotDamaged(f"snapshot {snapshot_id} goes on after its footer")
        if batch.is_control:
            for control in read_control_records(batch):
                if isinstance(control.value, SnapshotHeaderRecord):
                    appended_at_ms = control.value.last_contained_log_timestamp
                ended = ended or isinstance(control.value, SnapshotFooterRecord)
        else:
            records.extend(
                decode_metadata_record(record.value or b"") for record in decode_records(batch)
            )
    if appended_at_ms is None or not ended:
        raise SnapshotDamaged(f"snapshot {snapshot_id} has no header or no footer")
    return LoadedSnapshot(
        end_offset=snapshot_id.offset,
        epoch=snapshot_id.epoch,
        appended_at_ms=appended_at_ms,
        records=records,
    )
