"""Plans a read of metadata logs: the directory, the end of its committed records, and the required snapshot.

Without a running node there is no high watermark, so a record counts as committed if a majority of the voters have it
in the given directories: the same offset in the same epoch. With fewer directories the end is unknown (None).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path

from trimaran.log.batches.batch import BatchView
from trimaran.log.batches.records import decode_records
from trimaran.log.inspection.reader import SegmentFile, scan_batches
from trimaran.log.segments.scan import read_batch, scan_headers
from trimaran.quorum.raft_log.snapshot_files import parse_snapshot_name
from trimaran.spark.data_source.limits import OffsetsAt
from trimaran.spark.kafka_metadata.bounds import span, span_of, times_among
from trimaran.spark.kafka_metadata.options import MetadataOptions, NodesWanted
from trimaran.spark.origins.directories.directory_origin import split
from trimaran.spark.origins.directories.discovery import (
    METADATA_TOPIC,
    PartitionFound,
    StorageOptions,
    find_log_directories,
    find_partitions,
)
from trimaran.spark.origins.directories.replicas import (
    MAX_OFFSET,
    NO_CHECKPOINTS,
    EpochStart,
    SegmentPlace,
    StoredReplica,
    examine,
)
from trimaran.spark.origins.directories.storage import LOCAL, FileStorage
from trimaran.spark.origins.origin import Bounds, DataUnreadable, Range, Reading
from trimaran.spark.origins.packing import pack
from trimaran.spark.origins.running_cluster.controllers import (
    ControllerRange,
    LiveLog,
    LiveSnapshot,
    survey_quorum,
)
from trimaran.wire.errors import KafkaError, RemoteProtocolError
from trimaran.wire.identity import NO_LEADER_EPOCH, NO_NODE, LeaderEpoch, NodeId, Offset
from trimaran.wire.messages.control import (
    ControlType,
    LeaderChangeMessage,
    VotersRecord,
    decode_control_key,
    decode_control_value,
)


@dataclass(frozen=True, slots=True)
class SnapshotFile:
    """A complete `.checkpoint` file: the state up to `end_offset`."""

    path: str
    end_offset: Offset
    epoch: LeaderEpoch
    storage: FileStorage = LOCAL

    def batches(self) -> Iterator[tuple[int, BatchView]]:
        """Yields (position, batch) up to the end or damage. Raises OSError."""
        return scan_batches(self.path, files=self.storage.files)

    def read(self) -> bytes:
        """Returns the whole file. Raises OSError."""
        return self.storage.files.read_bytes(Path(self.path))

    @property
    def size(self) -> int:
        files = self.storage.files
        return files.size(files.open(Path(self.path), write=False))


Snapshot = SnapshotFile | LiveSnapshot


@dataclass(frozen=True, slots=True)
class StoredMetadataLog:
    """One directory's metadata log; `epochs` ascend."""

    replica: StoredReplica
    epochs: tuple[EpochStart, ...]
    voters: frozenset[NodeId]
    snapshots: tuple[SnapshotFile, ...]
    cuts: Mapping[Offset, SegmentPlace] = field(default_factory=dict)
    """The place at which the log continues after a snapshot, by its end offset."""

    @property
    def found(self) -> PartitionFound:
        return self.replica.found

    @property
    def segments(self) -> tuple[SegmentFile, ...]:
        return self.replica.segments

    @property
    def end_offset(self) -> Offset:
        return self.replica.end_offset

    @property
    def start_offset(self) -> Offset:
        return self.segments[0].base_offset if self.segments else Offset(0)


@dataclass(frozen=True, slots=True)
class MetadataTask:
    """The input of one executor: ranges of one node's log, or a snapshot; `committed_end` is None if unknown."""

    ranges: tuple[Range, ...]
    committed_end: Offset | None
    snapshot: Snapshot | None = None
    node_id: NodeId = NO_NODE
    shows_snapshot: bool = True
    """False if another task has the rows of the changes that led to the snapshot."""
    names: Mapping[bytes, str] = field(default_factory=dict)
    """The names of topics by their ids, if rows need them."""
    shown_from: Offset = Offset(0)
    """Earlier records, and states that had ended by then, are replayed but give no rows."""

    def is_committed(self, offset: Offset) -> bool | None:
        return None if self.committed_end is None else offset < self.committed_end


def find_metadata_logs(
    paths: Iterable[str], storage_options: StorageOptions = ()
) -> list[StoredMetadataLog]:
    """Returns the metadata logs of all node directories. Raises DataUnreadable if there is none."""
    names = tuple(paths)
    logs = [
        survey(found)
        for directory in find_log_directories(names, storage_options)
        for found in find_partitions(directory)
        if found.key.topic == METADATA_TOPIC
    ]
    if not logs:
        raise DataUnreadable(f"no metadata log ({METADATA_TOPIC}-0) in {', '.join(names)}")
    return logs


def survey(found: PartitionFound) -> StoredMetadataLog:
    """Walks the headers of a metadata log, and reads the last record that names the voters.

    Raises:
        DataUnreadable: records are missing between two batches, though this log is never compacted.
    """
    replica, files = examine(found, NO_CHECKPOINTS), found.storage.files
    snapshots = _snapshots(found)
    ends = {snapshot.end_offset for snapshot in snapshots}
    epochs: list[EpochStart] = []
    voters: frozenset[NodeId] | None = None
    cuts: dict[Offset, SegmentPlace] = {}
    next_offset: Offset | None = None
    for segment in replica.segments:
        is_last = segment is replica.segments[-1]
        size = replica.end_position if is_last else segment.size
        file = files.open(Path(segment.path), write=False)
        for position, header in scan_headers(files, file, 0, size):
            base = header.base_offset
            if next_offset is not None and base != next_offset:
                raise DataUnreadable(
                    f"{segment.path}: offsets {next_offset} to {base - 1} are missing before position {position}"
                )
            next_offset = header.next_offset
            if not epochs or header.leader_epoch > epochs[-1].epoch:
                epochs.append(EpochStart(header.leader_epoch, base))
            if header.is_control:
                batch = read_batch(files, file, position, header.size)
                voters = _voters_in(batch) or voters
            if base in ends:
                cuts[base] = SegmentPlace(segment.path, position)
    if voters is None:
        voters = _voters_of(snapshots)
    return StoredMetadataLog(replica, tuple(epochs), voters, snapshots, cuts)


def _voters_of(snapshots: Sequence[SnapshotFile]) -> frozenset[NodeId]:
    """Returns the voters in the latest snapshot that names them, for a log without an election since it was trimmed."""
    for snapshot in reversed(snapshots):
        for _, batch in snapshot.batches():
            if (told := _voters_in(batch)) is not None:
                return told
            if not batch.is_control:
                break  # control records are at the beginning of a snapshot
    return frozenset()


def _voters_in(batch: BatchView | None) -> frozenset[NodeId] | None:
    """Returns the voters in the last control record of the batch that names any; None if there is none, or it is
    damaged.
    """
    told = None
    if batch is None or not batch.is_control:
        return told
    try:
        for record in decode_records(batch):
            kind = decode_control_key(record.key or b"")
            if kind in (ControlType.LEADER_CHANGE, ControlType.KRAFT_VOTERS):
                value = decode_control_value(kind, record.value or b"")
                assert isinstance(value, LeaderChangeMessage | VotersRecord)
                told = frozenset(NodeId(voter.voter_id) for voter in value.voters)
    except (RemoteProtocolError, KafkaError):
        pass  # the reader of the batch raises the error
    return told


def _snapshots(found: PartitionFound) -> tuple[SnapshotFile, ...]:
    names = sorted(entry.name for entry in found.storage.entries(found.path))
    return tuple(
        SnapshotFile(f"{found.path}/{name}", *snapshot_id, found.storage)
        for name in names
        if (snapshot_id := parse_snapshot_name(name))
    )


def choose_log(logs: Sequence[StoredMetadataLog]) -> StoredMetadataLog:
    """Returns the log of the node that would be elected: the latest epoch, then the longest."""
    return max(logs, key=_standing)


def _standing(log: StoredMetadataLog) -> tuple[int, int, int]:
    epoch = log.epochs[-1].epoch if log.epochs else NO_LEADER_EPOCH
    return epoch, log.end_offset, -log.start_offset


def committed_end(logs: Sequence[StoredMetadataLog]) -> Offset | None:
    """Returns the end of the records that a majority of the voters share; None if the directories of too few voters are
    given.
    """
    best = choose_log(logs)
    by_node = {log.found.node_id: log for log in logs if log.found.node_id in best.voters}
    majority = len(best.voters) // 2 + 1
    if not best.voters or len(by_node) < majority:
        return None
    shared = sorted((shared_end(best, log) for log in by_node.values()), reverse=True)
    return shared[majority - 1]


def shared_end(one: StoredMetadataLog, other: StoredMetadataLog) -> Offset:
    """Returns the offset up to which both logs have the same records: the end of the last epoch that both have."""
    ours, theirs = _epoch_ends(one), _epoch_ends(other)
    common = [min(ours[epoch], theirs[epoch]) for epoch in ours.keys() & theirs.keys()]
    return max(common, default=Offset(0))


def _epoch_ends(log: StoredMetadataLog) -> dict[LeaderEpoch, Offset]:
    starts = [start for _, start in log.epochs[1:]]
    return {
        epoch: end for (epoch, _), end in zip(log.epochs, [*starts, log.end_offset], strict=False)
    }


def plan_metadata(options: MetadataOptions, plan: str) -> list[MetadataTask]:
    """Returns the tasks of a read; `plan` is that of the table (`trimaran.spark.kafka_metadata.table`).

    Raises:
        DataUnreadable: there is no metadata log, or it does not have the requested offsets.
        OptionError: the log has not reached a given time.
    """
    if options.cluster is not None:
        return _live_tasks(survey_quorum(options.cluster), options, plan)
    logs = find_metadata_logs(options.paths, options.storage_options)
    committed = committed_end(logs)
    if plan in ("node", "snapshots"):
        chosen = _chosen(logs, options.nodes)
        if plan == "snapshots":
            return [
                MetadataTask((), committed, snapshot, log.found.node_id)
                for log in chosen
                for snapshot in log.snapshots
            ] or [MetadataTask((), committed)]
        tasks = [task for log in chosen for task in _tasks(log, committed, options)]
        return tasks or [MetadataTask((), committed)]
    log = choose_log(logs)
    base = base_snapshot(log)
    end = _as_of(log, base, end_of(log, committed, options), options)
    begin = base.end_offset if base else log.start_offset
    start, end = span_of(options, log.replica, Bounds(begin, max(begin, end)))
    shown_from = _shown_from(options, start)
    if plan == "events":
        return _showing(_cut(log, base, end, committed, options.split_bytes), shown_from)
    if plan == "image" and options.as_of_timestamp is None:
        base = max(
            (snapshot for snapshot in log.snapshots if snapshot.end_offset <= end),
            key=lambda one: one.end_offset,
            default=base,
        )
    return [replace(_between(log, base, end, committed), shown_from=shown_from)]


def _live_tasks(log: LiveLog, options: MetadataOptions, plan: str) -> list[MetadataTask]:
    """Returns one task: the log of a leader is read in order. Its log begins with one snapshot."""
    assert options.cluster is not None
    mark, snapshot = max(log.start_offset, log.high_watermark), log.snapshot
    if plan == "snapshots":
        return [MetadataTask((), mark, snapshot, log.leader_id)]
    wanted = options.as_of_offset
    if wanted is not None and not max(Offset(0), log.start_offset - 1) <= wanted < mark:
        raise DataUnreadable(
            f"asOfOffset {wanted}: {options.cluster.bootstrap} has offsets "
            f"{max(Offset(0), log.start_offset - 1)} to {mark - 1}"
        )
    bounds = Bounds(log.start_offset, mark if wanted is None else wanted + 1)
    whole = ControllerRange(options.cluster, log.leader_id, bounds.start, bounds.end)
    start, end = span(options, bounds, times_in(whole, bounds))
    shown_from = _shown_from(options, start)
    if plan == "node" and not _shows_snapshots(options):
        snapshot = None
    begin = start if plan == "node" else log.start_offset
    piece = replace(whole, start_offset=begin, end_offset=end)
    return [MetadataTask((piece,), mark, snapshot, log.leader_id, shown_from=shown_from)]


def _shown_from(options: MetadataOptions, start: Offset) -> Offset:
    """Returns the first offset to show: 0 for the beginning, since the first rows may be from a snapshot."""
    return Offset(0) if options.starting.is_earliest else start


def _showing(tasks: Sequence[MetadataTask], shown_from: Offset) -> list[MetadataTask]:
    """Returns the tasks that make rows, at least one."""
    kept = [t for t in tasks if any(r.end_offset > shown_from for r in t.ranges)] or tasks[-1:]
    return [replace(task, shown_from=shown_from) for task in kept]


def _shows_snapshots(options: MetadataOptions) -> bool:
    """True if a snapshot at the beginning of a log makes rows, too."""
    wanted = options.include_snapshots
    return wanted == "true" or (wanted == "needed" and options.starting.is_earliest)


def times_in(piece: ControllerRange, bounds: Bounds) -> OffsetsAt:
    """Returns a function that finds offsets of a running quorum by time."""
    reading = Reading(include_control=True)
    return times_among(lambda: (found.batch for found in piece.batches(reading)), bounds)


def _as_of(
    log: StoredMetadataLog, base: SnapshotFile | None, end: Offset, options: MetadataOptions
) -> Offset:
    """Returns the end of the records up to `asOfOffset`."""
    wanted = options.as_of_offset
    if wanted is None:
        return end
    start = base.end_offset - 1 if base else 0
    if not start <= wanted < end:
        raise DataUnreadable(
            f"asOfOffset {wanted}: {log.found.path} has offsets {start} to {end - 1}"
        )
    return wanted + 1


def _between(
    log: StoredMetadataLog, base: SnapshotFile | None, end: Offset, committed: Offset | None
) -> MetadataTask:
    """Returns a task for the log from a snapshot, or from its beginning, to an offset."""
    start = base.end_offset if base else Offset(0)
    ranges = split(log.replica, start, end, MAX_OFFSET)
    path, at = log.cuts.get(start, SegmentPlace("", 0))
    found = (replace(r, start_position=at, first=None) if r.path == path else r for r in ranges)
    return MetadataTask(tuple(found), committed, base, log.found.node_id)


def _cut(
    log: StoredMetadataLog,
    base: SnapshotFile | None,
    end: Offset,
    committed: Offset | None,
    target: int,
) -> list[MetadataTask]:
    """Divides the log into several tasks if snapshots allow: each begins at a snapshot, and none is small."""
    tasks = []
    start, begun = base, 0
    for snapshot in log.snapshots:
        place = log.cuts.get(snapshot.end_offset)
        after = start.end_offset if start else 0
        if place is None or not after < snapshot.end_offset < end:
            continue
        at = _bytes_before(log, *place)
        if at - begun >= target:
            tasks.append(_between(log, start, snapshot.end_offset, committed))
            start, begun = snapshot, at
    tasks.append(_between(log, start, end, committed))
    return [tasks[0], *(replace(task, shows_snapshot=False) for task in tasks[1:])]


def _bytes_before(log: StoredMetadataLog, path: str, position: int) -> int:
    earlier = takewhile(lambda segment: segment.path != path, log.segments)
    return sum(segment.size for segment in earlier) + position


def _chosen(logs: Sequence[StoredMetadataLog], nodes: NodesWanted) -> Sequence[StoredMetadataLog]:
    if isinstance(nodes, str):
        return [choose_log(logs)] if nodes == "leader" else logs
    missing = nodes - {log.found.node_id for log in logs}
    if missing:
        raise DataUnreadable(f"no metadata log of node {min(missing)} was found")
    return [log for log in logs if log.found.node_id in nodes]


def end_of(log: StoredMetadataLog, committed: Offset | None, options: MetadataOptions) -> Offset:
    """Returns the end of the records that the options select: the committed ones, or all."""
    if committed is None or options.include_uncommitted:
        return log.end_offset
    return min(committed, log.end_offset)


def base_snapshot(log: StoredMetadataLog) -> SnapshotFile | None:
    """Returns the earliest snapshot from which the log continues without a gap; None if the log begins at 0."""
    if log.start_offset == 0:
        return None
    for snapshot in log.snapshots:
        if snapshot.end_offset >= log.start_offset:
            return snapshot
    raise DataUnreadable(
        f"{log.found.path} begins at offset {log.start_offset}, and has no snapshot of what was before"
    )


def _tasks(
    log: StoredMetadataLog, committed: Offset | None, options: MetadataOptions
) -> list[MetadataTask]:
    node = log.found.node_id
    if not _shows_snapshots(options):
        snapshots = log.snapshots[:0]
    elif options.include_snapshots == "true":
        snapshots = log.snapshots
    else:
        base = base_snapshot(log)
        snapshots = log.snapshots[:0] if base is None else (base,)
    bounds = Bounds(log.start_offset, max(log.start_offset, end_of(log, committed, options)))
    start, end = span_of(options, log.replica, bounds)
    ranges = split(log.replica, _shown_from(options, start), end, options.split_bytes)
    return [
        *(MetadataTask((), committed, snapshot, node) for snapshot in snapshots),
        *(
            MetadataTask(piece, committed, None, node)
            for piece in pack(ranges, options.split_bytes)
        ),
    ]
