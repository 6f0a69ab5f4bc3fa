"""The broker's log directories: the directory of each replica, and the choice for new replicas (KIP-112, KIP-858).

Source: `LogManager` of Kafka. If a partition's directory has a topic id other
than the image's, it is renamed before a new one is created, so that no data of one topic is served as data of another
topic (P14). A directory that fails is handled in `broker/process/failed_directories.py`.
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
from trimaran.node.runtime.pacing import Paced, run_paced
from trimaran.node.runtime.threads import run_blocking
from trimaran.quorum.metadata.image import LOST_DIRECTORY, MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import (
    NO_BROKER_EPOCH,
    BrokerEpoch,
    Offset,
    TopicIdPartition,
    TopicPartition,
)

log = logging.getLogger(__name__)

# Receives the id of a replica's current directory, which the controller does not know yet.
OnPlaced = Callable[[TopicIdPartition, bytes], None]


class LogDirectories:
    """The log directories of this broker. `all` could be opened at startup; `failed_at_start` has the errors of the
    remaining ones.

    `preferred` has the operator's directories for replicas that do not exist yet; `on_placed` is called for replicas
    outside of the image's directory; `cordoned` returns the paths that take no new replicas.
    """

    def __init__(
        self,
        directories: Sequence[LogDirectory],
        *,
        metadata: LogDirectory | None = None,
        failed_at_start: Mapping[Path, str] | None = None,
    ) -> None:
        """`metadata` has the metadata log: one of `directories`, or a separate directory."""
        self.all = list(directories)
        self.metadata = metadata or self.all[0]
        self._assignable = {each_directory.directory_id for each_directory in self.all}
        self._assignable |= {UNASSIGNED_DIRECTORY, MIGRATING_DIRECTORY}
        self.failed_at_start = dict(failed_at_start or {})
        # The operator's directory by replica; at most one entry for each partition of an image.
        self.preferred: dict[TopicPartition, LogDirectory] = {}
        self.on_placed: OnPlaced = lambda *_: None
        self.cordoned: Callable[[], Collection[Path]] = tuple
        self._out_of_service = OutOfService()
        # Replicas whose logs are being checked by threads, and the subset that is deleted as soon as the check ends.
        self._checks: dict[TopicPartition, trio.Event] = {}
        self._deleted_in_check: dict[TopicPartition, LogDirectory] = {}

    # -- state

    @property
    def online(self) -> list[LogDirectory]:
        return [directory for directory in self.all if directory.offline is None]

    @property
    def offline(self) -> str | None:
        """The reason why the broker cannot continue, or None: the directory of the metadata log is offline, or all
        directories are.
        """
        if self.metadata.offline is not None:
            return f"{self.metadata.path}: {self.metadata.offline}"
        if not self.online:
            return "; ".join(f"{directory.path}: {directory.offline}" for directory in self.all)
        return None

    @property
    def previous_broker_epoch(self) -> BrokerEpoch:
        """The broker epoch of the previous run if every directory ended it cleanly and no acknowledged record is
        missing (KIP-966). Otherwise -1.
        """
        if self.failed_at_start:
            return NO_BROKER_EPOCH
        first, *others = {directory.previous_broker_epoch for directory in self.all}
        return NO_BROKER_EPOCH if first is None or others else first

    def online_ids(self) -> list[bytes]:
        return [directory.directory_id for directory in self.online]

    def offline_ids(self) -> list[bytes]:
        """Returns the ids of the directories that failed since startup; every heartbeat reports them."""
        return [directory.directory_id for directory in self.all if directory.offline is not None]

    def cordoned_ids(self) -> list[bytes]:
        cordoned = self.cordoned()
        return [directory.directory_id for directory in self.all if directory.path in cordoned]

    # -- finding

    def holding(self, key: TopicPartition) -> LogDirectory | None:
        """Returns the directory of the replica, even if it is offline now; None if the replica has no directory yet."""
        offline = None
        for directory in self.all:  # called for every partition at startup
            if key in directory:
                if directory.offline is None:
                    return directory
                offline = offline or directory
        return offline

    def is_untouched(
        self, key: TopicPartition, topic_id: bytes, assigned: bytes, standing: Standing
    ) -> bool:
        """Returns whether the replica has no log and a new one may be created, so that it has no records yet."""
        return not any(key in directory for directory in self.online) and (
            self._why_not_made(key, topic_id, assigned, standing) is None
        )

    def knows_nothing_of(self, key: TopicPartition) -> bool:
        """Returns whether all directories are in service and never had the replica, which is then untouched. Fast,
        because it is called for every partition of a fetch.
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
        """Returns the directory in which the replica is or will be created; None if that may be an offline
        directory.
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
        """Sets the directory of a replica that does not exist yet, also for later starts; False if it may exist."""
        if self._why_not_made(key, topic_id, assigned, standing) is not None:
            return False
        self.preferred[key] = target
        self.on_placed(TopicIdPartition(topic_id, key.partition), target.directory_id)
        return True

    def at(self, path: str) -> LogDirectory | None:
        """Returns the directory with the configured path `path`."""
        return next((directory for directory in self.all if str(directory.path) == path), None)

    def high_watermark(self, key: TopicPartition) -> Offset:
        """Returns the checkpointed high watermark of the replica, or 0."""
        directory = self.holding(key)
        return Offset(0) if directory is None else directory.high_watermark(key)

    def open_log(
        self,
        key: TopicPartition,
        topic_id: bytes,
        config: LogConfig,
        assigned: bytes = UNASSIGNED_DIRECTORY,
        standing: Standing = Standing.HELD,
    ) -> PartitionLog:
        """Opens the partition's log, or creates it: in the directory `assigned`, or in the one with the fewest
        replicas.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR if the disk failed, or the replica may be in another directory
                (`why_not_made`).
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
        """Returns the directory of the replica; puts aside directories with its name and another topic id. Raises
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
        """Returns whether `open_log` would repair the log after a crash, which may take long: then use `check_log`."""
        found = self.holding(key)
        return found is not None and found.must_check(key)

    async def check_log(self, key: TopicPartition, topic_id: bytes, config: LogConfig) -> None:
        """Checks a log in a thread. Waits for a running check, which may be for a deleted topic of this name. Raises
        KafkaError as `open_log` does.
        """
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
        """Handles a log that could not be opened or created, because its directory failed or the replica is damaged or
        missing. In the latter two cases the controller is notified, and removes the replica from ISR and leadership. It
        is not notified of a missing last replica, which may never have had a log: a later start could not distinguish
        it from a lost one.
        """
        found = self.holding(key)
        if found is not None and found.offline is not None:
            return
        if found is None and assigned not in (*self.online_ids(), *NOWHERE_YET):
            return  # the controller knows that the directory is missing
        self._out_of_service.note(key, error.message, None if found is None else found.path)
        if found is None:
            self._out_of_service.note_before(key, assigned)
        if found is not None or standing is not Standing.LAST:
            self.on_placed(TopicIdPartition(topic_id, key.partition), LOST_DIRECTORY)

    def take_out(self, key: TopicPartition, topic_id: bytes, reason: str) -> None:
        """Takes a damaged log out of service; it is no longer used. Blocks briefly."""
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
        """Reports the directory of a replica that this broker does not lead, if `assigned` is no longer a directory of
        this broker (the disk was replaced, or the replica moved). Its log may remain closed; without the report it
        could never lead again, nor join the ISR of a partition without records (KIP-858).

        A missing replica starts empty if there is a leader to follow, or no other replica may have its records. If it
        was reported as lost and is now the last one, its earlier directory is reported again.
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
        """Returns whether a replica whose directory is unknown to this process may still be in a directory."""
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
        preferred = self.preferred.pop(key, None)  # the preference is newer than the assignment
        if preferred in online:
            return preferred
        wanted = next(
            (directory for directory in online if directory.directory_id == assigned), None
        )
        if wanted is not None:
            return wanted
        # All directories may have been cordoned since the controller chose this broker.
        cordoned = self.cordoned()
        open_ones = [directory for directory in online if directory.path not in cordoned]
        return min(open_ones or online, key=lambda one: one.replicas)

    # -- removal

    def delete_log(self, key: TopicPartition, topic_id: bytes) -> None:
        """Renames the partition's directory for deletion if it has that topic id; `purge` removes the files later.

        While a thread checks the log, the directory must keep its name; it is renamed after the check. In an offline
        directory the name remains but is ignored: when the directory is online again, topic ids determine which one is
        valid.
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
        """Renames a directory for deletion after its check; blocks while a check is running."""
        directory = self._deleted_in_check.pop(key, None)
        if directory is not None:
            with self.noting_failure(f"{key} is not deleted"):
                directory.delete_log(key)
            # In an online directory the name remains known: otherwise the log of a new topic with this name would begin
            # with its records (P14).
            if key in directory and directory.offline is not None:
                directory.forget(key)

    async def drop_strays(self, wanted: Container[TopicPartition]) -> None:
        """Puts aside every partition that is not in `wanted`, a few at a time; `wanted` is read again for each.

        Only names are compared: topic ids are checked when a log is opened, so that startup opens no logs. A log with a
        damaged topic id may belong to any topic, and stays.
        """
        for directory in self.online:
            with self.noting_failure(f"strays in {directory.path}"):
                async for key in Paced(directory.partitions()):
                    if key in directory and key not in wanted:
                        with self.noting_failure(f"{key}, which is not assigned, stays"):
                            directory.topic_id(key)
                            directory.put_aside(key)
                            events.REPLICA_NOT_ASSIGNED.log(log, topic=key[0], index=key[1])
                        self._out_of_service.forget(key)
                for key in directory.futures:
                    if key not in wanted:
                        directory.futures.drop(key)

    @contextmanager
    def noting_failure(self, what: str) -> Iterator[None]:
        """Logs a disk error and continues; a directory that went offline is handled by `watch_directories`."""
        try:
            yield
        except KafkaError as error:
            events.LOG_DIRECTORY_FAILED.log(log, what=what, error=error)

    # -- maintenance

    async def purge(self, delay_ms: int | None = None) -> None:
        """Removes the files of deleted segments and partitions, in a thread; see `LogDirectory.purge`."""
        for directory in self.online:
            await run_blocking(directory.purge, delay_ms)

    async def save_checkpoints(self, high_watermarks: Mapping[TopicPartition, Offset]) -> None:
        """Writes recovery points, log starts and high watermarks, in a thread."""
        for directory in self.online:
            held = _held(directory, high_watermarks, alone=len(self.all) == 1)
            collected = await run_paced(directory.collecting(held))
            await run_blocking(directory.write_checkpoints, collected)

    async def lower_recovery_points(self, points: Mapping[TopicPartition, Offset]) -> None:
        """Lowers recovery points in a thread, so that truncating the replicas' logs then writes no checkpoint."""
        for directory in self.online:
            held = {key: offset for key, offset in points.items() if key in directory}
            lowered = directory.offsets.begin_lowering(held)
            if lowered is None:
                continue
            with suppress(KafkaError):  # truncating the log raises the error again
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
        """Closes all directories (see `LogDirectory.close`); only writes checkpoints for `but`, which is closed by its
        owner. Blocks.
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
    """Returns the offsets of the replicas in `directory`; of all replicas if it is the only directory."""
    return (
        offsets if alone else {key: offset for key, offset in offsets.items() if key in directory}
    )
