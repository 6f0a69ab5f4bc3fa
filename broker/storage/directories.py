"""The broker's log directories: the one of each replica, the choice for new ones, and the failure of one (KIP-112,
KIP-858).

Source: `LogManager` and `ReplicaManager.handleLogDirFailure` of Kafka. A directory of a partition that holds another
topic id than the image says is put aside before the new one is made, so no byte of one topic is served as another's
(P14). One directory failing takes its replicas offline and the broker goes on, unless it is the one with the metadata
log, or the last.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import trio

from trimaran.broker import events
from trimaran.broker.storage.new_replicas import NOWHERE_YET, Standing, why_not_made
from trimaran.broker.storage.out_of_service import OutOfService
from trimaran.log.config import LogConfig
from trimaran.log.directories.directory import LogDirectory
from trimaran.log.partitions.partition_log import PartitionLog
from trimaran.node.runtime.threads import run_blocking
from trimaran.node.runtime.turns import with_checkpoints
from trimaran.quorum.metadata.image import LOST_DIRECTORY, MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import (
    NO_BROKER_EPOCH,
    BrokerEpoch,
    Offset,
    TopicIdPartition,
    TopicPartition,
)
from trimaran.wire.transport.scheduling.events import AutoResetEvent, yield_to_loop

log = logging.getLogger(__name__)

# Logs whose offsets are noted for a checkpoint between two turns: 5 ms of work.
NOTED_PER_TURN = 5_000
# Microseconds, of a look for strays: at a name, for taking one away, and between two checkpoints.
LOOK, RENAME, WORK_PER_TURN = 2, 120, 5_000

# The id of the directory in which a replica is now, which the controller does not know yet.
OnPlaced = Callable[[TopicIdPartition, bytes], None]


class LogDirectories:
    """`all` are those that could be opened at the start, `failed_at_start` the others with the reason.

    `preferred` is where an operator wants a replica that does not exist yet; `on_placed` hears of replicas that are not
    where the image says; `cordoned` gives the paths of those that take no new replicas.
    """

    def __init__(
        self,
        directories: Sequence[LogDirectory],
        *,
        metadata: LogDirectory | None = None,
        failed_at_start: Mapping[Path, str] | None = None,
    ) -> None:
        """`metadata` holds the metadata log: one of `directories`, or a directory of its own."""
        self.all = list(directories)
        self.metadata = metadata or self.all[0]
        self._assignable = {each_directory.directory_id for each_directory in self.all}
        self._assignable |= {UNASSIGNED_DIRECTORY, MIGRATING_DIRECTORY}
        self.failed_at_start = dict(failed_at_start or {})
        self.preferred: dict[
            TopicPartition, LogDirectory
        ] = {}  # at most one for each partition of an image
        self.on_placed: OnPlaced = lambda *_: None
        self.cordoned: Callable[[], Collection[Path]] = tuple
        self._known_failed: set[bytes] = set()
        self._out_of_service = OutOfService()
        # Replicas whose logs threads check, and those of them to be deleted as soon as that is done.
        self._checks: dict[TopicPartition, trio.Event] = {}
        self._deleted_in_check: dict[TopicPartition, LogDirectory] = {}
        self._news = AutoResetEvent()
        self._loop: trio.lowlevel.TrioToken | None = None  # that of `wait_failed`
        for directory in [*self.all, self.metadata]:
            directory.health.watch(self._on_failure)

    # -- standing

    @property
    def online(self) -> list[LogDirectory]:
        return [directory for directory in self.all if directory.offline is None]

    @property
    def offline(self) -> str | None:
        """Why the broker cannot go on: the metadata log's directory is gone, or all are."""
        if self.metadata.offline is not None:
            return f"{self.metadata.path}: {self.metadata.offline}"
        if not self.online:
            return "; ".join(f"{directory.path}: {directory.offline}" for directory in self.all)
        return None

    @property
    def previous_broker_epoch(self) -> BrokerEpoch:
        """That of the last life, if that ended cleanly in every directory: then nothing that was acknowledged is
        missing (KIP-966). Else -1.
        """
        if self.failed_at_start:
            return NO_BROKER_EPOCH
        first, *others = {directory.previous_broker_epoch for directory in self.all}
        return NO_BROKER_EPOCH if first is None or others else first

    def online_ids(self) -> list[bytes]:
        return [directory.directory_id for directory in self.online]

    def offline_ids(self) -> list[bytes]:
        """The ids of those that failed since the start: every heartbeat reports them."""
        return [directory.directory_id for directory in self.all if directory.offline is not None]

    def cordoned_ids(self) -> list[bytes]:
        cordoned = self.cordoned()
        return [directory.directory_id for directory in self.all if directory.path in cordoned]

    async def wait_failed(self) -> list[LogDirectory]:
        """Waits until directories go offline, and returns those that did since the last call. One task calls this."""
        self._loop = trio.lowlevel.current_trio_token()
        while True:
            failed = [
                directory
                for directory in dict.fromkeys([*self.all, self.metadata])
                if directory.offline is not None
                and directory.directory_id not in self._known_failed
            ]
            self._known_failed.update(directory.directory_id for directory in failed)
            if failed:
                return failed
            await self._news.wait()

    def _on_failure(self) -> None:
        """Wakes `wait_failed` from whichever thread met the failure."""
        if self._loop is not None:
            with suppress(trio.RunFinishedError):
                self._loop.run_sync_soon(self._news.set, idempotent=True)

    # -- finding

    def holding(self, key: TopicPartition) -> LogDirectory | None:
        """The directory of the replica, also if it is offline now; None when it has no directory yet."""
        offline = None
        for directory in self.all:  # asked for every partition at a start
            if key in directory:
                if directory.offline is None:
                    return directory
                offline = offline or directory
        return offline

    def is_untouched(
        self, key: TopicPartition, topic_id: bytes, assigned: bytes, standing: Standing
    ) -> bool:
        """The replica has no log, and one may be made: there is nothing in it yet."""
        return not any(key in directory for directory in self.online) and (
            self._why_not_made(key, topic_id, assigned, standing) is None
        )

    def knows_nothing_of(self, key: TopicPartition) -> bool:
        """All directories are in service, and none has or had the replica: then it is untouched. Quick, as it is called
        for every partition of a fetch.
        """
        if self.failed_at_start:
            return False
        for directory in self.all:
            if key in directory or key in directory.futures or key in directory.aside:
                return False
            if directory.health.offline is not None or directory.high_watermark(key):
                return False
        return True

    def where(self, key: TopicPartition, assigned: bytes) -> LogDirectory | None:
        """The directory in which the replica is or will be made, as far as that is known; None: it may be in a
        directory that is offline.
        """
        found = self.holding(key) or self.preferred.get(key)
        online = self.online
        if found is not None or not online:
            return found
        wanted = next(
            (directory for directory in online if directory.directory_id == assigned), None
        )
        some_are_offline = len(online) < len(self.all) or bool(self.failed_at_start)
        if wanted is None and some_are_offline and assigned != UNASSIGNED_DIRECTORY:
            return None
        return wanted or online[0]

    def prefer(
        self,
        key: TopicPartition,
        topic_id: bytes,
        assigned: bytes,
        standing: Standing,
        target: LogDirectory,
    ) -> bool:
        """Has a replica that does not exist yet made in `target`, after a restart too; False: it may exist already."""
        if self._why_not_made(key, topic_id, assigned, standing) is not None:
            return False
        self.preferred[key] = target
        self.on_placed(TopicIdPartition(topic_id, key.partition), target.directory_id)
        return True

    def at(self, path: str) -> LogDirectory | None:
        """The directory that the configuration calls `path`."""
        return next((directory for directory in self.all if str(directory.path) == path), None)

    def high_watermark(self, key: TopicPartition) -> int:
        """As checkpointed last, 0 if it was not."""
        directory = self.holding(key)
        return 0 if directory is None else directory.high_watermark(key)

    def open_log(
        self,
        key: TopicPartition,
        topic_id: bytes,
        config: LogConfig,
        assigned: bytes = UNASSIGNED_DIRECTORY,
        standing: Standing = Standing.HELD,
    ) -> PartitionLog:
        """Opens the partition's log, or makes it: in the directory that is `assigned`, or where the fewest replicas
        are.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR, the disk failed, or the replica may be somewhere else (`why_not_made`).
        """
        try:
            self._finish_deletion(key)
            found = self._find(key, topic_id)
            if found is not None:
                opened = found.open_log(key, config)
            else:
                found = self._place(key, topic_id, assigned, standing)
                opened = found.create_log(key, topic_id, config)
        except KafkaError as error:
            self.refused(key, topic_id, error, assigned, standing)
            raise
        if assigned != found.directory_id and (
            assigned != MIGRATING_DIRECTORY or len(self.all) > 1
        ):
            self.on_placed(TopicIdPartition(topic_id, key.partition), found.directory_id)
        return opened

    def _find(self, key: TopicPartition, topic_id: bytes) -> LogDirectory | None:
        """The directory with the replica of that topic id; what another topic left under its name is put aside. Raises
        KafkaError.
        """
        found = None
        for directory in [directory for directory in self.online if key in directory]:
            if directory.is_of(key, topic_id):
                found = found or directory
            else:
                events.REPLICA_OF_DELETED_TOPIC.log(log, topic=key[0], index=key[1])
                directory.put_aside(key)
        return found

    def must_check(self, key: TopicPartition) -> bool:
        """Whether `open_log` would check what a crash left, which may take long: `check_log` does it in a thread."""
        found = self.holding(key)
        return found is not None and found.must_check(key)

    async def check_log(self, key: TopicPartition, topic_id: bytes, config: LogConfig) -> None:
        """One at a time: one under way may be of a deleted topic of this name. Raises KafkaError as `open_log`."""
        while (checked := self._checks.get(key)) is not None:
            await checked.wait()
        found = self.holding(key)
        if found is None:
            return
        self._checks[key] = trio.Event()
        try:
            if not found.is_of(key, topic_id):
                return
            await run_blocking(found.check_log, key, config)
        except KafkaError as error:
            if key not in self._deleted_in_check:
                self.refused(key, topic_id, error)
            raise
        finally:
            self._checks.pop(key).set()
            self._finish_deletion(key)

    def refused(
        self,
        key: TopicPartition,
        topic_id: bytes,
        error: KafkaError,
        assigned: bytes = UNASSIGNED_DIRECTORY,
        standing: Standing = Standing.HELD,
    ) -> None:
        """A log could not be opened or made: its directory failed, or the replica is damaged or missing. The controller
        hears of the latter two, and takes it out of ISR and leadership. It does not hear of a missing replica that is
        the last: that may never have had a log, which no later start could tell from a lost one.
        """
        found = self.holding(key)
        if found is not None and found.offline is not None:
            return
        if found is None and assigned not in (*self.online_ids(), *NOWHERE_YET):
            return  # the controller knows that the directory is not there
        self._out_of_service.note(key, error.message, None if found is None else found.path)
        if found is None:
            self._out_of_service.note_before(key, assigned)
        if found is not None or standing is not Standing.LAST:
            self.on_placed(TopicIdPartition(topic_id, key.partition), LOST_DIRECTORY)

    def take_out(self, key: TopicPartition, topic_id: bytes, reason: str) -> None:
        """Takes out a log that was found damaged; it is no longer used. Blocks shortly."""
        found = self.holding(key)
        assert found is not None
        with self.noting_failure(f"{key} is damaged"):
            found.take_out(key, reason)
        self.refused(key, topic_id, KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, reason))

    def claim(
        self,
        key: TopicPartition,
        topic_id: bytes,
        assigned: bytes,
        standing: Standing = Standing.HELD,
        *,
        may_begin_anew: bool,
    ) -> None:
        """For a replica that is not led here, with a log that may stay closed: reports its directory if `assigned` is
        no directory here any more, as when its disk was replaced or it was moved; else it could never lead again, nor
        join the ISR of a partition without records (KIP-858).

        One that is not here starts empty if there is a leader to follow, or no other replica may have its records. For
        one that was reported as lost and is the last by now, the controller gets its earlier directory again.
        """
        is_last = assigned == LOST_DIRECTORY and standing is Standing.LAST
        if is_last and (before := self._out_of_service.take_back(key)) is not None:
            self.on_placed(TopicIdPartition(topic_id, key.partition), before)
        if assigned in self._assignable or key in self._out_of_service:
            return
        found = self.holding(key)
        try:
            if found is None:
                if may_begin_anew and not self._may_be_elsewhere(key, topic_id, standing):
                    self.on_placed(TopicIdPartition(topic_id, key.partition), UNASSIGNED_DIRECTORY)
            elif found.offline is None and found.is_of(key, topic_id):
                self.on_placed(TopicIdPartition(topic_id, key.partition), found.directory_id)
        except KafkaError as error:
            self.refused(key, topic_id, error)

    def _may_be_elsewhere(self, key: TopicPartition, topic_id: bytes, standing: Standing) -> bool:
        """Whether a replica that the controller has in no directory of this process may yet be somewhere."""
        if self.failed_at_start or len(self.online) < len(self.all):
            return True
        return self._why_not_made(key, topic_id, UNASSIGNED_DIRECTORY, standing) is not None

    def _why_not_made(
        self, key: TopicPartition, topic_id: bytes, assigned: bytes, standing: Standing
    ) -> str | None:
        return why_not_made(self.all, self.failed_at_start, key, topic_id, assigned, standing)

    def _place(
        self, key: TopicPartition, topic_id: bytes, assigned: bytes, standing: Standing
    ) -> LogDirectory:
        reason = self._why_not_made(key, topic_id, assigned, standing)
        online = self.online
        if reason is not None or not online:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR, reason or "all log directories are offline"
            )
        preferred = self.preferred.pop(key, None)  # newer than what is assigned
        if preferred in online:
            return preferred
        wanted = next(
            (directory for directory in online if directory.directory_id == assigned), None
        )
        if wanted is not None:
            return wanted
        cordoned = self.cordoned()  # all may be since the controller has chosen this broker
        open_ones = [directory for directory in online if directory.path not in cordoned]
        return min(open_ones or online, key=lambda one: one.replicas)

    # -- taking away

    def delete_log(self, key: TopicPartition, topic_id: bytes) -> None:
        """Takes the partition's directory away if it is of that topic id; the files go later (`purge`).

        While a thread checks the log, the directory has to keep its name: then that is done after the check. In a
        directory that is offline the name stays and counts for nothing: topic ids decide when it is back.
        """
        self.preferred.pop(key, None)
        self._out_of_service.forget(key)
        for directory in self.all:
            if directory.offline is None:
                with self.noting_failure(f"a copy of {key} is not deleted"):
                    directory.futures.drop_left(key, topic_id)
            elif key in directory:
                directory.forget(key)
        found = self.holding(key)
        with self.noting_failure(f"{key} is not deleted"):
            if found is not None and found.is_of(key, topic_id):
                self._deleted_in_check[key] = found
                if key not in self._checks:
                    self._finish_deletion(key)

    def _finish_deletion(self, key: TopicPartition) -> None:
        """Blocks until the check ends, if one is under way."""
        directory = self._deleted_in_check.pop(key, None)
        if directory is not None:
            with self.noting_failure(f"{key} is not deleted"):
                directory.delete_log(key)
            if key in directory:  # the disk has failed
                directory.forget(key)

    async def drop_strays(self, wanted: Container[TopicPartition]) -> None:
        """Puts aside every partition that is not `wanted` here, some at a time: `wanted` is read again for each.

        Only names are compared: topic ids are checked when a log is opened, so a start opens nothing. A log with a
        damaged topic id may belong to any topic, and stays.
        """
        for directory in self.online:
            with self.noting_failure(f"strays in {directory.path}"):
                work = 0
                for key in directory.partitions():
                    work += LOOK
                    if key in directory and key not in wanted:
                        with self.noting_failure(f"{key}, which is not assigned, stays"):
                            directory.topic_id(key)
                            directory.put_aside(key)
                            events.REPLICA_NOT_ASSIGNED.log(log, topic=key[0], index=key[1])
                        self._out_of_service.forget(key)
                        work += RENAME
                    if work >= WORK_PER_TURN:
                        work = 0
                        await yield_to_loop()
                for key in directory.futures:
                    if key not in wanted:
                        directory.futures.drop(key)

    @contextmanager
    def noting_failure(self, what: str) -> Iterator[None]:
        """Logs an error of a disk and goes on: `wait_failed` finds a directory that is offline by now."""
        try:
            yield
        except KafkaError as error:
            events.LOG_DIRECTORY_FAILED.log(log, what=what, error=error)

    # -- upkeep

    async def purge(self, delay_ms: int | None = None) -> None:
        """Removes the files of deleted segments and partitions, in a thread; see `LogDirectory.purge`."""
        for directory in self.online:
            await run_blocking(directory.purge, delay_ms)

    async def save_checkpoints(self, high_watermarks: Mapping[TopicPartition, Offset]) -> None:
        """Writes recovery points, log starts and high watermarks, in a thread."""
        for directory in self.online:
            held = _held(directory, high_watermarks, alone=len(self.all) == 1)
            collected = await with_checkpoints(directory.collecting(held), NOTED_PER_TURN)
            await run_blocking(directory.write_checkpoints, collected)

    async def lower_recovery_points(self, points: Mapping[TopicPartition, Offset]) -> None:
        """Notes what replicas will count as flushed, in a thread: truncating their logs then writes no checkpoint."""
        for directory in self.online:
            held = {key: offset for key, offset in points.items() if key in directory}
            lowered = directory.offsets.begin_lowering(held)
            if lowered is None:
                continue
            with suppress(KafkaError):  # cutting the log meets it again
                while not await run_blocking(directory.offsets.write, lowered):
                    lowered = directory.offsets.collect_lowered()
                directory.offsets.end_lowering(held)

    def close(
        self,
        *,
        broker_epoch: BrokerEpoch | None,
        high_watermarks: Mapping[TopicPartition, Offset],
        but: LogDirectory | None = None,
    ) -> None:
        """Closes all directories, see `LogDirectory.close`; for the one that is closed elsewhere (`but`) checkpoints
        are written. Blocks.
        """
        for directory in dict.fromkeys([*self.all, self.metadata]):
            held = _held(directory, high_watermarks, alone=len(self.all) == 1)
            try:
                if directory is not but:
                    directory.close(broker_epoch=broker_epoch, high_watermarks=held)
                elif broker_epoch is not None:
                    directory.save_checkpoints(held)
            except KafkaError as error:
                events.LOG_DIRECTORY_NOT_CLOSED.log(log, directory=directory.path, error=error)


def _held(
    directory: LogDirectory, offsets: Mapping[TopicPartition, Offset], *, alone: bool
) -> Mapping[TopicPartition, Offset]:
    """The offsets of the replicas in `directory`; with one directory those of replicas without a file yet too."""
    return (
        offsets if alone else {key: offset for key, offset in offsets.items() if key in directory}
    )
