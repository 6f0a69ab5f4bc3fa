"""The bytes of a metadata snapshot: a header batch, batches of records, a footer batch.

    snapshot = control batch { SnapshotHeader, [ KRaftVersion, [ Voters ] ] }, { batch of metadata records },
               control batch { SnapshotFooter }

Offsets count from 0 through the file, and every batch has the snapshot's epoch. A file without a footer, or with a
wrong checksum, is not a snapshot. From kraft.version 1 on the header is followed by the version and the voters, which
`voter_records.note_snapshot` reads. Source: KIP-630, KIP-853, Kafka's `RecordsSnapshotWriter` and
`RecordsSnapshotReader`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from trimaran.log.batches.batch import Buffer, check_batch, iter_batches
from trimaran.log.batches.control_records import build_control_batch, read_control_records
from trimaran.log.batches.records import NewRecord, build_batch
from trimaran.quorum.raft.listener import LoadedSnapshot
from trimaran.quorum.raft.types import OffsetAndEpoch
from trimaran.quorum.raft.voters import STATIC_QUORUM, VoterSet
from trimaran.quorum.raft_log.record_batches import in_pieces, metadata_records
from trimaran.quorum.raft_log.voter_records import kraft_version_record, voters_record
from trimaran.wire.errors import KafkaError, RemoteProtocolError
from trimaran.wire.identity import LeaderEpoch, Offset
from trimaran.wire.messages.control import (
    ControlType,
    ControlValue,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
)
from trimaran.wire.records.metadata import UnknownRecord
from trimaran.wire.schema import Message

# The number of records per batch: large enough that headers cost almost nothing, small enough to read one by one.
RECORDS_PER_BATCH = 1000


class SnapshotDamaged(RemoteProtocolError):
    """The snapshot is incomplete, or a checksum is wrong."""


def encode_snapshot(
    snapshot_id: OffsetAndEpoch,
    values: Iterable[bytes],
    *,
    appended_at_ms: int,
    now_ms: int,
    kraft_version: int = STATIC_QUORUM,
    voters: VoterSet | None = None,
) -> Iterator[bytes]:
    """Yields the batches of a snapshot of the encoded metadata records `values`.

    `appended_at_ms` is the append time of the last record of the log in the snapshot; `kraft_version` and `voters` are
    the values in effect there.
    """
    header = SnapshotHeaderRecord(version=0, last_contained_log_timestamp=appended_at_ms)
    head: list[tuple[ControlType, ControlValue]] = [(ControlType.SNAPSHOT_HEADER, header)]
    if kraft_version != STATIC_QUORUM:
        head.append(kraft_version_record(kraft_version))
        if voters is not None:
            head.append(voters_record(voters))
    epoch = LeaderEpoch(snapshot_id.epoch)
    yield build_control_batch(head, timestamp_ms=now_ms, base_offset=Offset(0), leader_epoch=epoch)
    offset = Offset(len(head))
    records = (NewRecord(None, value, now_ms) for value in values)
    while chunk := list(islice(records, RECORDS_PER_BATCH)):
        yield build_batch(chunk, base_offset=offset, leader_epoch=epoch)
        offset += len(chunk)
    foot = [(ControlType.SNAPSHOT_FOOTER, SnapshotFooterRecord(version=0))]
    yield build_control_batch(foot, timestamp_ms=now_ms, base_offset=offset, leader_epoch=epoch)


@dataclass(frozen=True, slots=True)
class CheckedSnapshot:
    """The bytes of a complete snapshot; `appended_at_ms` is the append time of the last record of the log in it."""

    id: OffsetAndEpoch
    appended_at_ms: int
    data: Buffer

    def records(self) -> Iterator[Message | UnknownRecord]:
        """Yields the records, each decoded on demand.

        Raises:
            SnapshotDamaged: a record is malformed.
        """
        try:
            for batch in iter_batches(memoryview(self.data)):
                yield from metadata_records(batch)
        except (RemoteProtocolError, KafkaError) as error:
            raise SnapshotDamaged(f"snapshot {self.id}: {error}") from error

    def pieces(self, records_max: int) -> Iterator[LoadedSnapshot]:
        """Yields the snapshot in pieces, decoded on demand. Raises the same errors as `records`."""
        begins = True
        for records, ends in in_pieces(self.records(), records_max):
            yield LoadedSnapshot(
                self.id.offset, self.id.epoch, self.appended_at_ms, records, begins, ends
            )
            begins = False


def check_snapshot(snapshot_id: OffsetAndEpoch, data: Buffer) -> CheckedSnapshot:
    """Checks that the snapshot is complete, without decoding its records.

    Raises:
        SnapshotDamaged: the snapshot is incomplete or corrupt.
    """
    try:
        return CheckedSnapshot(snapshot_id, _check(snapshot_id, data), data)
    except SnapshotDamaged:
        raise
    except (RemoteProtocolError, KafkaError) as error:
        raise SnapshotDamaged(f"snapshot {snapshot_id}: {error}") from error


def _check(snapshot_id: OffsetAndEpoch, data: Buffer) -> int:
    appended_at_ms = None
    ended = False
    seen: set[ControlType] = set()
    for batch in iter_batches(memoryview(data)):
        check_batch(batch)
        if ended:
            raise SnapshotDamaged(f"snapshot {snapshot_id} goes on after its footer")
        if batch.is_control:
            for control in read_control_records(batch):
                if control.type in seen:
                    raise SnapshotDamaged(f"snapshot {snapshot_id} has two {control.type.name}")
                if control.value is not None:
                    seen.add(control.type)
                if isinstance(control.value, SnapshotHeaderRecord):
                    appended_at_ms = control.value.last_contained_log_timestamp
                ended = ended or isinstance(control.value, SnapshotFooterRecord)
    if appended_at_ms is None or not ended:
        raise SnapshotDamaged(f"snapshot {snapshot_id} has no header or no footer")
    return appended_at_ms


def appended_at_ms(snapshot_id: OffsetAndEpoch, head: Buffer) -> int:
    """Returns the append time of the last record in the snapshot; `head` is the start of its bytes, at least the
    header's batch.

    Raises:
        SnapshotDamaged: there is no header.
    """
    try:
        batch = next(iter_batches(memoryview(head)), None)
        for control in read_control_records(batch) if batch and batch.is_control else ():
            if isinstance(control.value, SnapshotHeaderRecord):
                return control.value.last_contained_log_timestamp
    except (RemoteProtocolError, KafkaError) as error:
        raise SnapshotDamaged(f"snapshot {snapshot_id}: {error}") from error
    raise SnapshotDamaged(f"snapshot {snapshot_id} has no header")


def decode_snapshot(snapshot_id: OffsetAndEpoch, data: Buffer) -> LoadedSnapshot:
    """Returns all records of a complete snapshot.

    Raises:
        SnapshotDamaged: the snapshot is incomplete or corrupt.
    """
    checked = check_snapshot(snapshot_id, data)
    return LoadedSnapshot(
        end_offset=snapshot_id.offset,
        epoch=snapshot_id.epoch,
        appended_at_ms=checked.appended_at_ms,
        records=list(checked.records()),
    )
