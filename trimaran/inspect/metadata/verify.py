"""Checks that the metadata logs of several controllers match (R4: the same offset and epoch mean the same prefix)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trimaran.inspect.metadata.on_disk import MetadataDirectory
from trimaran.log.inspection.reader import scan_batches
from trimaran.quorum.metadata.image import UnknownRecords
from trimaran.quorum.metadata.replay import Replay
from trimaran.quorum.raft_log.record_batches import unknown_records
from trimaran.wire.errors import KafkaError, RemoteProtocolError
from trimaran.wire.identity import LeaderEpoch, Offset
from trimaran.wire.records.metadata import UnknownRecord

Row = dict[str, Any]


@dataclass(slots=True)
class Verified:
    """The result. `logs` has a row for each directory; `compared` counts batches that at least two of them have.
    `unknown` names the records of a later Kafka in all logs: their bytes were compared, but not their effects on a
    snapshot.
    """

    logs: list[Row] = field(default_factory=list)
    problems: list[Row] = field(default_factory=list)
    compared: int = 0
    unknown: UnknownRecords = field(default_factory=UnknownRecords)


def verify_directories(directories: Sequence[Path]) -> Verified:
    """Reads every log once; keeps a digest of 16 bytes for each batch.

    Raises:
        UserError: a directory without a metadata log. OSError.
    """
    result = Verified()
    seen: dict[tuple[int, int], tuple[bytes, Path]] = {}
    shared: set[tuple[int, int]] = set()
    for directory in directories:
        log = _Log(directory, result.problems)
        for key, digest in log.digests():
            first = seen.setdefault(key, (digest, directory))
            if first[1] is directory:
                continue
            shared.add(key)
            if first[0] != digest:
                offset, epoch = key
                result.problems.append(
                    _problem(
                        "two logs differ",
                        f"offset {offset}, epoch {epoch}: {first[1]} and {directory}",
                    )
                )
        result.logs.append(log.row())
        result.unknown = result.unknown.plus(len(log.unknown), log.unknown)
    result.compared = len(shared)
    return result


def _problem(what: str, where: str) -> Row:
    return {"problem": what, "where": where}


class _Log:
    """The log of one directory during the walk."""

    def __init__(self, directory: Path, problems: list[Row]) -> None:
        self._directory = directory
        self._problems = problems
        self._source = MetadataDirectory(directory)
        self._batches = 0
        self._start: int | None = None
        self._end = 0
        self._epoch = 0
        self._torn = 0
        self._snapshots = 0
        self.unknown: list[UnknownRecord] = []

    def row(self) -> Row:
        return {
            "directory": str(self._directory),
            "start_offset": self._start or 0,
            "end_offset": self._end,
            "last_epoch": self._epoch,
            "batches": self._batches,
            "snapshots": self._snapshots,
            "torn_bytes": self._torn,
        }

    def digests(self) -> list[tuple[tuple[Offset, LeaderEpoch], bytes]]:
        """Yields ((base offset, epoch), digest) of every batch after checking it."""
        found = []
        for index, path in enumerate(self._source.segments):
            position = 0
            for position, batch in scan_batches(path):
                self._follow(batch.base_offset, batch.leader_epoch, batch.next_offset)
                self.unknown += unknown_records(batch)
                digest = hashlib.blake2b(batch.buffer, digest_size=16).digest()
                found.append(((batch.base_offset, batch.leader_epoch), digest))
                position += batch.size
            self._check_tail(path, position, is_last=index + 1 == len(self._source.segments))
        self._check_snapshots()
        return found

    def _follow(self, base_offset: Offset, epoch: LeaderEpoch, next_offset: Offset) -> None:
        if self._start is None:
            self._start = base_offset
        elif base_offset != self._end:
            self._report("offsets do not continue", f"{base_offset} after {self._end - 1}")
        if epoch < self._epoch:
            self._report("an epoch goes back", f"{epoch} after {self._epoch} at {base_offset}")
        self._end, self._epoch = next_offset, epoch
        self._batches += 1

    def _check_tail(self, path: str, end: int, *, is_last: bool) -> None:
        """Checks the bytes after the last valid batch: a torn end is damage except in the last segment."""
        rest = Path(path).stat().st_size - end
        if rest and is_last:
            self._torn = rest
        elif rest:
            self._report("damage", f"{path}, position {end}")

    def _check_snapshots(self) -> None:
        """Compares snapshots with a replay of the log, which stops at each; if the log begins later, only checks that
        they are complete.
        """
        replayed = Replay()
        for end_offset, epoch, path in self._source.snapshots:
            self._snapshots += 1
            snapshot = Replay()
            try:
                snapshot.load_snapshot(end_offset, epoch, path.read_bytes())
            except (RemoteProtocolError, KafkaError) as error:
                self._report("a damaged snapshot", f"{path.name}: {error}")
                continue
            if self._start == 0 and 0 < end_offset <= self._end:
                replayed.apply_all(self._source.batches(replayed.next_offset), end_offset)
                if not replayed.state.image.same_content(snapshot.state.image):
                    self._report("a snapshot is not what the log says", path.name)

    def _report(self, what: str, where: str) -> None:
        self._problems.append(_problem(what, f"{self._directory}: {where}"))
