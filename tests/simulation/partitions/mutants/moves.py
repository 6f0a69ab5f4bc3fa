"""Bugs of moves between the log directories of a broker."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from unittest import mock

from tests.simulation.here import patched_here
from tests.simulation.mutants.mutant import both
from tests.simulation.partitions.mutants.leaders import SAFETY
from trimaran.broker.background import directory_moves
from trimaran.broker.background.directory_moves import DirectoryMoves, Move
from trimaran.broker.storage import directories, unfinished_moves
from trimaran.log.directories import future_replicas
from trimaran.log.directories.directory import LogDirectory
from trimaran.log.directories.future_replicas import FutureReplicas
from trimaran.log.partitions import opening
from trimaran.log.partitions.names import FUTURE_SUFFIX
from trimaran.log.partitions.opening import LastRun
from trimaran.log.partitions.partition_log import PartitionLog
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicPartition

Patch = AbstractContextManager[Any]
# Lost records are missing when the log is opened, or the replica is refused because of them and the partition has no
# leader.
LOST = ("P6", "P23", "P19", "P20", "P25", "L1", *SAFETY)


async def _claims_to_flush(copy: PartitionLog) -> None:
    copy._flushing.flushed_offset = copy.log_end_offset


def _copies_are_not_flushed() -> Patch:
    """A copy gets its final name while its records are only in the page cache."""

    def close(self: PartitionLog, *, clean: bool = True) -> None:
        is_copy = self.directory.name.endswith(FUTURE_SUFFIX)
        real(self, clean=clean and not is_copy)

    real = PartitionLog.close
    return both(
        mock.patch.object(directory_moves, "_flush", _claims_to_flush),
        mock.patch.object(PartitionLog, "close", close),
    )


def _purged_before_the_copy_is_durable() -> Patch:
    """The old files are deleted at once."""
    real = DirectoryMoves._finish

    def finish(self: DirectoryMoves, move: Move, source: Any, copy: Any) -> None:
        real(self, move, source, copy)
        for directory in self._directories.online:
            directory.purge()

    return both(mock.patch.object(DirectoryMoves, "_finish", finish), _copies_are_not_flushed())


def _the_name_of_a_copy_is_not_synced() -> Patch:
    def promote(self: FutureReplicas, partition: TopicPartition, target: Path) -> None:
        with self._health.guard("renaming"):
            self._files.rename(self._directories[partition], target)
        del self._directories[partition]

    return mock.patch.object(FutureReplicas, "promote", promote)


def _move_ends_before_it_has_copied_everything() -> Patch:
    """A move ends once the copy has all flushed records."""
    real = DirectoryMoves._step

    async def step(self: DirectoryMoves, move: Move, copy: PartitionLog) -> bool:
        source = move.partition.log
        is_near = 0 < copy.log_end_offset < source.log_end_offset
        if (
            is_near
            and copy.flushed_offset == copy.log_end_offset
            and source.epochs.latest_epoch >= 0
        ):
            self._finish(move, source, copy)
            return True
        if is_near:
            await directory_moves._flush(copy)
            return True
        return await real(self, move, copy)

    return mock.patch.object(DirectoryMoves, "_step", step)


def _copies_are_not_truncated_with_the_source() -> Patch:
    """Records truncated in the source stay in the copy."""
    return mock.patch.object(directory_moves, "align", return_value=None)


def _the_start_is_not_carried() -> Patch:
    """Deleted records reappear in the copy."""
    real = LogDirectory.promote_future

    def promote(self: LogDirectory, key: TopicPartition, **options: Any) -> None:
        real(self, key, **{**options, "start_offset": 0})

    return mock.patch.object(LogDirectory, "promote_future", promote)


def _epochs_are_not_carried() -> Patch:
    real = PartitionLog.append_as_follower

    def append(self: PartitionLog, records: memoryview, **options: Any) -> Any:
        info = real(self, records, **options)
        if self.directory.name.endswith(FUTURE_SUFFIX):
            self.epochs.clear()
        return info

    return both(
        mock.patch.object(PartitionLog, "append_as_follower", append),
        mock.patch.object(opening, "_knows_end", return_value=True),
        mock.patch.object(opening, "_knows_start", return_value=True),
    )


def _a_copy_of_another_topic_goes_on() -> Patch:
    """The topic was deleted and recreated meanwhile."""

    def opened(
        self: FutureReplicas, key: TopicPartition, topic_id: bytes, config: Any
    ) -> PartitionLog:
        found = self._directories.get(key)
        return PartitionLog.open(
            found or self._make(key, topic_id),
            config,
            LastRun(clean_shutdown=found is None),
            now_ms=0,
            files=self._files,
            health=self._health,
        )

    return both(
        mock.patch.object(FutureReplicas, "open", opened),
        mock.patch.object(DirectoryMoves, "_goes_on", return_value=True),
    )


def _copies_have_no_topic_id() -> Patch:
    real = future_replicas.make_partition_directory

    def make(directory: Path, _topic_id: bytes, files: Any) -> None:
        real(directory, None, files)

    return patched_here(future_replicas, "make_partition_directory", make)


def _moves_are_not_reported() -> Patch:
    """The controller does not learn the new directory of the replica."""
    real = DirectoryMoves._finish

    def finish(self: DirectoryMoves, move: Move, source: Any, copy: Any) -> None:
        with mock.patch.object(self._directories, "on_placed", return_value=None):
            real(self, move, source, copy)

    return mock.patch.object(DirectoryMoves, "_finish", finish)


def _source_of_a_move_goes_first() -> Patch:
    """A failed rename leaves no log with the name, and an empty log takes its place."""

    def finish(self: DirectoryMoves, move: Move, source: PartitionLog, copy: PartitionLog) -> None:
        partition, target = move.partition, move.target
        key = partition.topic_partition
        current = self._directories.holding(key)
        assert current is not None
        start = source.log_start_offset

        def swap() -> None:
            copy.close()
            current.hand_over(key)
            target.promote_future(key, end_offset=copy.flushed_offset, start_offset=start)

        del self._moves[key]
        self._partitions.reopen([partition], swap)
        self._directories.on_placed(partition.topic_id_partition, target.directory_id)

    return both(mock.patch.object(DirectoryMoves, "_finish", finish), any_log_is_made())


def any_log_is_made() -> Patch:
    """A replica that was not found is treated as nonexistent."""
    return mock.patch.object(directories, "why_not_made", return_value=None)


def _truncated_records_are_copied() -> Patch:
    """A thread read the records before the source was truncated."""

    async def step(self: DirectoryMoves, move: Move, copy: PartitionLog) -> bool:
        source = move.partition.log
        directory_moves.align(source, copy)
        if copy.log_end_offset < source.log_end_offset:
            piece = source.read(
                copy.log_end_offset,
                directory_moves.STEP_BYTES_MAX,
                upto_offset=source.log_end_offset,
                min_one=True,
            )
            if piece is not None:
                try:
                    data = await directory_moves.run_blocking(piece.read)
                except OSError as error:
                    raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
                if self.of(move.partition) is move:
                    directory_moves._append(copy, data)
                return True
        return await real(self, move, copy)

    real = DirectoryMoves._step
    return mock.patch.object(DirectoryMoves, "_step", step)


def _longer_of_two_logs_stays() -> Patch:
    """The longer log stays, whatever its topic."""

    async def settle(self: Any, key: TopicPartition) -> None:
        twins = [directory for directory in self.directories.online if key in directory]
        ends = {twin: twin.end_of(key) for twin in twins}
        for twin in sorted(twins, key=lambda one: ends[one])[:-1]:
            twin.put_aside(key)

    return mock.patch.object(unfinished_moves._Moves, "_resolve_twins", settle)


def _shorter_of_two_logs_stays() -> Patch:
    async def settle(self: Any, key: TopicPartition) -> None:
        topic = self.topics.by_name.get(key.topic)
        twins = [directory for directory in self.directories.online if key in directory]
        twins = [twin for twin in twins if topic is not None and twin.is_of(key, topic.id)]
        ends = {twin: twin.end_of(key) for twin in twins}
        for twin in sorted(twins, key=lambda one: ends[one])[1:]:
            twin.put_aside(key)

    return mock.patch.object(unfinished_moves._Moves, "_resolve_twins", settle)


def _copies_without_source_are_complete() -> Patch:
    """A copy is complete even if its source may be in a missing directory."""

    def promote(self: Any, directory: LogDirectory, key: TopicPartition) -> None:
        directory.promote_future(key)

    return mock.patch.object(unfinished_moves._Moves, "_promote", promote)


def _partial_copy_counts_as_complete() -> Patch:
    """A copy counts as complete if the disk of its source has failed."""
    real = DirectoryMoves._give_up

    def give_up(self: DirectoryMoves, move: Move) -> None:
        key = move.partition.topic_partition
        source = self._directories.holding(key)
        is_alone = source is None or source.offline is not None
        real(self, move)
        if is_alone and move.copy is not None and not move.partition.deleted:
            move.target.promote_future(key, end_offset=move.copy.flushed_offset)

    return mock.patch.object(DirectoryMoves, "_give_up", give_up)


def _abandoned_move_continues() -> Patch:
    """A thread was working for the move when another one was requested."""
    real = DirectoryMoves._finish

    def give_up(self: DirectoryMoves, move: Move) -> None:
        self._moves.pop((move.partition.topic, move.partition.index), None)

    def goes_from(_self: DirectoryMoves, move: Move, source: PartitionLog) -> bool:
        return not move.partition.deleted and move.partition.open_log is source

    async def step(self: DirectoryMoves, move: Move, copy: PartitionLog) -> bool:
        while True:
            await real_step(self, move, copy)
            if copy.is_closed or self.of(move.partition) is move:
                return True

    def finish(self: DirectoryMoves, move: Move, source: PartitionLog, copy: PartitionLog) -> None:
        self._moves.setdefault((move.partition.topic, move.partition.index), move)
        real(self, move, source, copy)

    real_step = DirectoryMoves._step
    return both(
        mock.patch.object(DirectoryMoves, "_give_up", give_up),
        mock.patch.object(DirectoryMoves, "_goes_from", goes_from),
        mock.patch.object(DirectoryMoves, "_step", step),
        mock.patch.object(DirectoryMoves, "_finish", finish),
    )


MOVES = (
    ("source of a move goes first", _source_of_a_move_goes_first, LOST),
    ("truncated records are copied", _truncated_records_are_copied, (*LOST, "P10", "L1")),
    ("longer of two logs stays", _longer_of_two_logs_stays, (*LOST, "P22", "P25", "L1")),
    ("shorter of two logs stays", _shorter_of_two_logs_stays, (*LOST, "L1")),
    (
        "copies without source are complete",
        _copies_without_source_are_complete,
        (*LOST, "P22", "L1"),
    ),
    ("partial copy counts as complete", _partial_copy_counts_as_complete, (*LOST, "P22", "P24")),
    ("abandoned move continues", _abandoned_move_continues, ("P24", "P22")),
    ("copies are not flushed", _copies_are_not_flushed, LOST),
    ("purged before the copy is durable", _purged_before_the_copy_is_durable, LOST),
    ("the name of a copy is not synced", _the_name_of_a_copy_is_not_synced, LOST),
    ("move ends before it has copied everything", _move_ends_before_it_has_copied_everything, LOST),
    (
        "copies are not truncated with the source",
        _copies_are_not_truncated_with_the_source,
        (*LOST, "P10", "P24", "L1"),
    ),
    ("the start is not carried", _the_start_is_not_carried, ("P19", *LOST)),
    ("epochs are not carried", _epochs_are_not_carried, ("P10", *LOST, "L1")),
    (
        "a copy of another topic goes on",
        _a_copy_of_another_topic_goes_on,
        ("P14", "P22", "P24", *LOST),
    ),
    ("copies have no topic id", _copies_have_no_topic_id, ("P22", *LOST)),
    ("moves are not reported", _moves_are_not_reported, ("P24", "P25", "L1", *LOST)),
)
