"""Moves replicas between the log directories of this broker while they serve reads and writes (KIP-113).

Source: `ReplicaAlterLogDirsThread` and `Partition.maybeReplaceCurrentWithFutureReplica` of Kafka. The replica is copied
batch by batch into a `-future` directory, in the same way as a follower fetches it. When the copy is complete and
durable, it is durably renamed to the partition's name; only then is the old directory renamed (`-delete`). If either
disk fails in between, the other one has the partition's log; a crash in between leaves two directories with the same
name, and the next start keeps one of them (`trimaran.broker.storage.unfinished_moves`).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import trio

from trimaran.broker import events
from trimaran.broker.partitions.partition import Partition
from trimaran.broker.partitions.registry import Partitions
from trimaran.broker.storage.directories import LogDirectories
from trimaran.log.directories.directory import LogDirectory
from trimaran.log.partitions.partition_log import PartitionLog
from trimaran.node.quotas.replication_throttle import ReplicationThrottle
from trimaran.node.runtime.threads import run_blocking
from trimaran.wire.errors import ErrorCode, KafkaError, RemoteProtocolError
from trimaran.wire.identity import TopicPartition
from trimaran.wire.transport.scheduling.events import AutoResetEvent, yield_to_loop

log = logging.getLogger(__name__)

# The bytes that one step of a move copies: about 2 ms of the event loop, which clients hardly notice.
STEP_BYTES_MAX = 1 << 20
PAUSE_SECONDS = 0.05


@dataclass(slots=True, eq=False)
class Move:
    """A replica being moved. `copy` becomes the partition's log in `target`; it is None while a copy from a previous
    run is being checked.
    """

    partition: Partition
    target: LogDirectory
    copy: PartitionLog | None


class DirectoryMoves:
    """The moves of this broker's replicas; at most one for each."""

    def __init__(
        self, directories: LogDirectories, partitions: Partitions, throttle: ReplicationThrottle
    ) -> None:
        self._throttle = throttle
        self._directories = directories
        self._partitions = partitions
        self._moves: dict[TopicPartition, Move] = {}
        # Copies from a previous run that a thread checks or will check; no other task uses them. Bounded by the number
        # of copies found at startup.
        self._unchecked: set[tuple[LogDirectory, TopicPartition]] = set()
        self._wanted = AutoResetEvent()

    def of(self, partition: Partition) -> Move | None:
        """Returns the move of a partition, or None if the partition was recreated: the old move then ends with its next
        step.
        """
        move = self._moves.get(partition.topic_partition)
        return move if move is not None and move.partition is partition else None

    def request(self, key: TopicPartition, path: str) -> ErrorCode:
        """Begins to move a replica to the directory `path`; if this broker does not have the replica yet, it will be
        created there.
        """
        directories = self._directories
        target = directories.at(path)
        if target is None:
            unreadable = path in map(str, directories.failed_at_start)
            return ErrorCode.KAFKA_STORAGE_ERROR if unreadable else ErrorCode.LOG_DIR_NOT_FOUND
        if target.offline is not None:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if target.path in directories.cordoned():
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT
        partition = self._partitions.find(key)
        current = directories.holding(key)
        if partition is None:
            directories.preferred[key] = target
            return ErrorCode.REPLICA_NOT_AVAILABLE
        if current is not None and current.offline is not None:
            return ErrorCode.KAFKA_STORAGE_ERROR
        known = self._moves.get(key)
        if known is not None and known.target is target and known.partition is partition:
            return ErrorCode.NONE
        try:
            if current is None:
                return ErrorCode.NONE if partition.prefer(target) else ErrorCode.KAFKA_STORAGE_ERROR
            if known is not None:
                self._give_up(known)
            if current is not target:
                self._begin(partition, target)
        except KafkaError as error:
            return error.code
        return ErrorCode.NONE

    def _begin(self, partition: Partition, target: LogDirectory) -> None:
        key = partition.topic_partition
        is_unchecked = (target, key) in self._unchecked
        self._moves[key] = Move(
            partition, target, None if is_unchecked else _open(partition, target)
        )
        self._wanted.set()
        events.REPLICA_MOVE_STARTED.log(log, partition=partition.name, directory=target.path)

    def _give_up(self, move: Move) -> None:
        key = move.partition.topic_partition
        if self._moves.get(key) is move:
            del self._moves[key]
        if move.copy is None:  # `_check_copies` handles the copy
            return
        source = self._directories.holding(key)
        is_alone = source is None or source.offline is not None
        if is_alone and not move.partition.deleted:
            move.copy.close(clean=False)  # the copy may be the only one left
        else:
            _drop(move.target, key, move.copy)

    async def run(self) -> None:
        """Continues the moves of a previous run, then carries out requested moves until cancelled."""
        async with trio.open_nursery() as nursery:
            for directory, begun in self._begun_before().items():
                nursery.start_soon(self._check_copies, directory, begun)
            while True:
                if not self._moves:
                    await self._wanted.wait()
                busy = False
                for move in list(self._moves.values()):
                    if self.of(move.partition) is move:  # False if the move was given up meanwhile
                        busy |= await self._step_or_give_up(move)
                if busy:
                    await yield_to_loop()
                else:
                    await trio.sleep(PAUSE_SECONDS)

    def _begun_before(self) -> dict[LogDirectory, list[Partition]]:
        """Returns the moves that a previous run left unfinished, by target; drops all other unfinished copies."""
        begun: dict[LogDirectory, list[Partition]] = {
            each_directory: [] for each_directory in self._directories.online
        }
        for directory, partitions in begun.items():
            for key in directory.futures:
                if key in self._moves and self._moves[key].target is directory:
                    continue  # this run has requested the move
                try:
                    partition = self._partitions.find(key)
                    if partition is not None and self._is_last(partition, directory):
                        continue
                    if partition is None or not self._goes_on(partition, directory):
                        directory.futures.drop(key)
                        continue
                except KafkaError as error:
                    events.REPLICA_MOVE_FAILED.log(log, partition=str(key), error=error)
                    if directory.offline is not None:
                        break
                    continue
                self._unchecked.add((directory, key))
                self._begin(partition, directory)
                partitions.append(partition)
        return begun

    def _is_last(self, partition: Partition, directory: LogDirectory) -> bool:
        """Whether the copy's source is missing, so that the copy may be the last one left."""
        key = partition.topic_partition
        return self._directories.holding(key) is None and directory.futures.is_of(
            key, partition.topic_id
        )

    def _goes_on(self, partition: Partition, directory: LogDirectory) -> bool:
        key = partition.topic_partition
        is_there = self._directories.holding(key) is directory
        is_of_another = not directory.futures.is_of(key, partition.topic_id)
        return not (is_there or is_of_another or key in self._moves)

    async def _check_copies(self, directory: LogDirectory, begun: Sequence[Partition]) -> None:
        """Checks copies one after another: one thread per directory, as in the recovery of the replicas themselves."""
        for partition in begun:
            key = partition.topic_partition
            try:
                copy = await run_blocking(_open, partition, directory)
                move = self._unchecked_move(directory, key)
                if move is not None and move.partition is partition:
                    move.copy = copy
                    continue
                _drop(directory, key, copy)
                if move is not None:  # a new topic with the same name was created meanwhile
                    move.copy = _open(move.partition, directory)
            except KafkaError as error:
                events.REPLICA_MOVE_FAILED.log(log, partition=partition.name, error=error)
                if self._unchecked_move(directory, key) is not None:
                    del self._moves[key]
            finally:
                self._unchecked.discard((directory, key))

    def _unchecked_move(self, directory: LogDirectory, key: TopicPartition) -> Move | None:
        """Returns the move that waits for the copy in `directory`, or None if the move was given up or has another
        target.
        """
        move = self._moves.get(key)
        return move if move is not None and move.target is directory else None

    async def _step_or_give_up(self, move: Move) -> bool:
        if move.copy is None:
            return False
        what = f"{move.partition.name} does not move"
        with self._directories.noting_failure(what):
            if not move.partition.deleted and move.target.offline is None:
                return await self._step(move, move.copy)
        # The move was given up, or its directories were being renamed; in the latter case the copy may be the only one
        # left.
        if self.of(move.partition) is move:
            with self._directories.noting_failure(what):
                self._give_up(move)
        return True

    async def _step(self, move: Move, copy: PartitionLog) -> bool:
        """Copies a piece, or ends the move; returns whether there is more to do immediately."""
        source = move.partition.log
        align(source, copy)
        if copy.log_end_offset < source.log_end_offset:
            if self._throttle.delay(trio.current_time()) > 0:
                return False
            piece = source.read(
                copy.log_end_offset,
                STEP_BYTES_MAX,
                upto_offset=source.log_end_offset,
                min_one=True,
            )
            if piece is not None:
                truncations = source.truncations
                try:
                    data = await run_blocking(piece.read)
                except OSError as error:
                    raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
                # Otherwise the move has ended, or the copied bytes may mix two histories of the source.
                if self._goes_from(move, source) and source.truncations == truncations:
                    _append(copy, data)
                    self._throttle.record(len(data), trio.current_time())
                return True
            # A shorter log would be taken for a log that has lost records.
            copy.skip_to(source.log_end_offset, move.partition.services.now_ms())
        if copy.flushed_offset < copy.log_end_offset:
            await _flush(copy)
            return True
        if self._goes_from(move, source):
            self._finish(move, source, copy)
        return True

    def _goes_from(self, move: Move, source: PartitionLog) -> bool:
        """Whether the move still copies from `source`."""
        partition = move.partition
        return self.of(partition) is move and not partition.deleted and partition.open_log is source

    def _finish(self, move: Move, source: PartitionLog, copy: PartitionLog) -> None:
        """Makes the copy the log of the partition; no record is appended in the meantime."""
        partition, target = move.partition, move.target
        key = partition.topic_partition
        current = self._directories.holding(key)
        assert current is not None
        start = source.log_start_offset

        def swap() -> None:
            copy.close()
            target.promote_future(key, end_offset=copy.flushed_offset, start_offset=start)
            with self._directories.noting_failure(f"{partition.name} stays in {current.path} too"):
                current.hand_over(key)
            if key in current:  # the next start renames the directory
                current.forget(key)

        del self._moves[key]
        self._partitions.reopen([partition], swap)
        self._directories.on_placed(partition.topic_id_partition, target.directory_id)
        events.REPLICA_MOVED.log(log, partition=partition.name, directory=target.path)

    def close(self) -> None:
        """Closes the copies; the next process continues the moves."""
        for move in self._moves.values():
            if move.copy is not None:
                move.copy.close(clean=False)
        self._moves.clear()


def _open(partition: Partition, target: LogDirectory) -> PartitionLog:
    """Opens the copy, creating it if needed. A copy from a previous run is checked completely, which must be done in a
    thread. Raises KafkaError.
    """
    return target.futures.open(
        partition.topic_partition, partition.topic_id, partition.settings.log
    )


def _drop(target: LogDirectory, key: TopicPartition, copy: PartitionLog) -> None:
    copy.close(clean=False)
    if target.offline is None:
        target.futures.drop(key, copy.names)


def align(source: PartitionLog, copy: PartitionLog) -> None:
    """Truncates the copy where it differs from the source, by leader epochs as a follower does (KIP-279). Raises
    KafkaError.
    """
    while copy.epochs.latest_epoch >= 0 and copy.log_end_offset > copy.log_start_offset:
        epoch, end = source.end_offset_for_epoch(copy.epochs.latest_epoch)
        if epoch < 0:
            end = source.log_start_offset
        elif epoch < copy.epochs.latest_epoch:
            end = min(end, copy.end_offset_for_epoch(epoch)[1])
        if end >= copy.log_end_offset:
            break
        copy.truncate_to(end)
    if copy.log_end_offset > source.log_end_offset:
        copy.truncate_to(source.log_end_offset)
    if copy.log_end_offset < source.log_start_offset:
        copy.truncate_fully_and_start_at(source.log_start_offset)
    if copy.log_start_offset < source.log_start_offset:
        copy.delete_records_before(source.log_start_offset)


def _append(copy: PartitionLog, data: bytes) -> None:
    try:
        copy.append_as_follower(memoryview(data))
    except RemoteProtocolError as error:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"it is damaged: {error}") from error


async def _flush(copy: PartitionLog) -> None:
    try:
        flush = copy.prepare_flush()
        try:
            await run_blocking(flush.run)
        finally:
            copy.finish_flush(flush)
    except OSError as error:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
