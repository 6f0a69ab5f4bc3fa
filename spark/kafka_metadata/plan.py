"""Plans a read of metadata logs: which directory speaks, up to where its records are committed, which snapshot is
needed.

Nobody can be asked where the high watermark is, so a record counts as committed when a majority of the quorum's voters
have it in the directories given: the same offset in the same epoch. With fewer directories that stays unknown (None).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from log.disk.files import REAL_FILES
from log.inspection.reader import SegmentFile, list_segments, scan_batches
from log.segments.scan import scan_headers
from quorum.metadata.epochs import leader_change
from quorum.raft_log.snapshot_files import parse_snapshot_name
from spark.kafka_log.plan import LogRange, find_end, pack, split
from spark.kafka_metadata.options import MetadataOptions, NodesWanted
from spark.origins.discovery import (
    METADATA_TOPIC,
    PartitionFound,
    find_log_directories,
    find_partitions,
)
from spark.origins.origin import DataUnreadable

MAX_OFFSET = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A complete `.checkpoint` file: the state up to `end_offset`."""

    path: str
    end_offset: int
    epoch: int


@dataclass(frozen=True, slots=True)
class MetadataLog:
    """One directory's metadata log; `epochs` are (epoch, its first offset here), ascending."""

    found: PartitionFound
    segments: tuple[SegmentFile, ...]
    end_offset: int
    end_position: int
    epochs: tuple[tuple[int, int], ...]
    voters: frozenset[int]
    snapshots: tuple[Snapshot, ...]

    @property
    def start_offset(self) -> int:
        return self.segments[0].base_offset if self.segments else 0


@dataclass(frozen=True, slots=True)
class MetadataTask:
    """What one executor reads: ranges of one node's log, or a snapshot; `committed_end` None when nobody knows."""

    ranges: tuple[LogRange, ...]
    committed_end: int | None
    snapshot: Snapshot | None = None
    node_id: int = -1

    def is_committed(self, offset: int) -> bool | None:
        return None if self.committed_end is None else offset < self.committed_end


def find_metadata_logs(paths: Iterable[str]) -> list[MetadataLog]:
    """The metadata logs of all node directories. Raises DataUnreadable when there is none."""
    names = tuple(paths)
    logs = [
        survey(found)
        for directory in find_log_directories(names)
        for found in find_partitions(directory)
        if found.topic == METADATA_TOPIC
    ]
    if not logs:
        raise DataUnreadable(f"no metadata log ({METADATA_TOPIC}-0) in {', '.join(names)}")
    return logs


def survey(found: PartitionFound) -> MetadataLog:
    """Walks the headers of a metadata log, and reads the last change of leader."""
    segments = tuple(list_segments(Path(found.path)))
    epochs: list[tuple[int, int]] = []
    last_control: tuple[str, int, int] | None = None
    end_offset = end_position = 0
    for index, segment in enumerate(segments):
        size = segment.size
        if index == len(segments) - 1:
            end_offset, end_position = find_end(segment)
            size = end_position
        file = REAL_FILES.open(Path(segment.path), write=False)
        for position, header in scan_headers(REAL_FILES, file, 0, size):
            if not epochs or header.leader_epoch > epochs[-1][0]:
                epochs.append((header.leader_epoch, header.base_offset))
            if header.is_control:
                last_control = segment.path, position, position + header.size
    voters = _voters(*last_control) if last_control else frozenset()
    return MetadataLog(
        found, segments, end_offset, end_position, tuple(epochs), voters, _snapshots(found.path)
    )


def _voters(path: str, start: int, end: int) -> frozenset[int]:
    for _, batch in scan_batches(path, start, end):
        change = leader_change(batch)
        if change is not None:
            return frozenset(voter.voter_id for voter in change.voters)
    return frozenset()


def _snapshots(directory: str) -> tuple[Snapshot, ...]:
    found = [(path, parse_snapshot_name(path.name)) for path in sorted(Path(directory).iterdir())]
    return tuple(Snapshot(str(path), *snapshot_id) for path, snapshot_id in found if snapshot_id)


def choose_log(logs: Sequence[MetadataLog]) -> MetadataLog:
    """The log that a new leader would come from: the latest epoch, then the longest."""
    return max(logs, key=_standing)


def _standing(log: MetadataLog) -> tuple[int, int, int]:
    return (log.epochs[-1][0] if log.epochs else -1), log.end_offset, -log.start_offset


def committed_end(logs: Sequence[MetadataLog]) -> int | None:
    """Where the records end that a majority of the voters share; None when too few voters' directories are given."""
    best = choose_log(logs)
    by_node = {log.found.node_id: log for log in logs if log.found.node_id in best.voters}
    majority = len(best.voters) // 2 + 1
    if not best.voters or len(by_node) < majority:
        return None
    shared = sorted((shared_end(best, log) for log in by_node.values()), reverse=True)
    return shared[majority - 1]


def shared_end(one: MetadataLog, other: MetadataLog) -> int:
    """Up to which offset both logs hold the same records: the end of the last epoch that both have."""
    ours, theirs = _epoch_ends(one), _epoch_ends(other)
    common = [min(ours[epoch], theirs[epoch]) for epoch in ours.keys() & theirs.keys()]
    return max(common, default=0)


def _epoch_ends(log: MetadataLog) -> dict[int, int]:
    starts = [start for _, start in log.epochs[1:]]
    return {
        epoch: end for (epoch, _), end in zip(log.epochs, [*starts, log.end_offset], strict=False)
    }


def plan_metadata(options: MetadataOptions) -> list[MetadataTask]:
    """The tasks of a read; the folded tables come from one directory and in one task.

    Raises:
        DataUnreadable: no metadata log there.
    """
    logs = find_metadata_logs(options.paths)
    committed = committed_end(logs)
    if options.table != "records":
        return [_whole(choose_log(logs), committed, options)]
    chosen = _chosen(logs, options.nodes)
    tasks = [task for log in chosen for task in _tasks(log, committed, options)]
    return tasks or [MetadataTask((), committed)]


def _chosen(logs: Sequence[MetadataLog], nodes: NodesWanted) -> Sequence[MetadataLog]:
    if isinstance(nodes, str):
        return [choose_log(logs)] if nodes == "leader" else logs
    missing = nodes - {log.found.node_id for log in logs}
    if missing:
        raise DataUnreadable(f"no metadata log of node {min(missing)} was found")
    return [log for log in logs if log.found.node_id in nodes]


def _end(log: MetadataLog, committed: int | None, options: MetadataOptions) -> int:
    if committed is None or options.include_uncommitted:
        return log.end_offset
    return min(committed, log.end_offset)


def _whole(log: MetadataLog, committed: int | None, options: MetadataOptions) -> MetadataTask:
    base = base_snapshot(log)
    start = base.end_offset if base else 0
    end = _end(log, committed, options)
    ranges = split(log.found, log.segments, log.end_position, start, end, MAX_OFFSET)
    return MetadataTask(tuple(ranges), committed, base, log.found.node_id)


def base_snapshot(log: MetadataLog) -> Snapshot | None:
    """The earliest snapshot from which the log goes on without a gap; None when the log begins at 0."""
    if log.start_offset == 0:
        return None
    for snapshot in log.snapshots:
        if snapshot.end_offset >= log.start_offset:
            return snapshot
    raise DataUnreadable(
        f"{log.found.path} begins at offset {log.start_offset}, and has no snapshot up to there"
    )


def _tasks(log: MetadataLog, committed: int | None, options: MetadataOptions) -> list[MetadataTask]:
    node = log.found.node_id
    if options.include_snapshots == "needed":
        base = base_snapshot(log)
        snapshots = log.snapshots[:0] if base is None else (base,)
    else:
        snapshots = log.snapshots if options.include_snapshots == "true" else ()
    end = _end(log, committed, options)
    ranges = split(log.found, log.segments, log.end_position, 0, end, options.split_bytes)
    return [
        *(MetadataTask((), committed, snapshot, node) for snapshot in snapshots),
        *(
            MetadataTask(piece, committed, None, node)
            for piece in pack(ranges, options.split_bytes)
        ),
    ]
