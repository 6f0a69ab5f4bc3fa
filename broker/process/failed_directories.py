"""The failure of a log directory, as handled by its broker.

1. A file operation raises OSError: `DirectoryHealth` takes the directory offline, which refuses all later calls, and
   wakes the task of this file (`log/durability/health.py`).
2. `watch_directories` ends the epochs of the directory's replicas, so that waiting requests get a retriable error, and
   sends a heartbeat that names the directory. It ends the broker if no usable directory is left.
   The heartbeat is `Lifecycle._heartbeat` (`broker/process/lifecycle.py`).
3. The controller's `heartbeat` (`quorum/controller/handlers/broker_heartbeat.py`) takes the replicas out of ISR and
   leadership, and elects other leaders: `changes_of_offline_directories` and `changes_without` of
   `quorum/controller/partitions/broker_changes.py`.

A directory that cannot be opened at startup is not registered, see `LogDirectories.failed_at_start`.
Source: `ReplicaManager.handleLogDirFailure` of Kafka, KIP-112, KIP-858.
"""

from __future__ import annotations

import logging
from contextlib import suppress

import trio

from trimaran.broker import events
from trimaran.broker.process.composition import Parts
from trimaran.broker.storage.directories import LogDirectories
from trimaran.log.directories.directory import LogDirectory
from trimaran.log.durability.health import StorageFailure
from trimaran.wire.transport.scheduling.events import AutoResetEvent

log = logging.getLogger(__name__)


async def watch_directories(parts: Parts) -> None:
    """Handles failed directories: takes their replicas offline, and reports them to the controller. Raises
    StorageFailure if the broker cannot continue: the directory of the metadata log or the last usable directory failed.

    If the controller has a replica in another directory, the failed directory is reported as its directory (Kafka
    reports the replica as lost). The replica then comes back with the directory, even if a crash prevented its log from
    becoming durable.
    """
    directories, data = parts.storage.directories, parts.families.data
    failures = FailedDirectories(directories)
    while True:
        for failed in await failures.wait():
            events.LOG_DIRECTORY_OFFLINE.log(log, directory=failed.path, error=failed.offline)
            if directories.offline is not None:
                raise StorageFailure(f"{failed.path} is offline: {failed.offline}")
            lost = [
                partition
                for partition in data.partitions
                if directories.holding(partition.topic_partition) is failed
            ]
            for partition in lost:
                if partition.state.directory_of(parts.config.broker_id) != failed.directory_id:
                    data.assignments.assign(partition.topic_id_partition, failed.directory_id)
            data.partitions.reopen(lost)
            parts.lifecycle.report()


class FailedDirectories:
    """The directories that fail while the broker runs."""

    def __init__(self, directories: LogDirectories) -> None:
        self._watched = list(dict.fromkeys([*directories.all, directories.metadata]))
        self._known: set[bytes] = set()
        self._news = AutoResetEvent()
        self._loop: trio.lowlevel.TrioToken | None = None  # the event loop in which `wait` runs
        for directory in self._watched:
            directory.health.watch(self._wake)

    async def wait(self) -> list[LogDirectory]:
        """Waits until directories go offline, and returns the directories that have gone offline since the last call.
        One task calls this.
        """
        self._loop = trio.lowlevel.current_trio_token()
        while True:
            failed = [
                directory
                for directory in self._watched
                if directory.offline is not None and directory.directory_id not in self._known
            ]
            self._known.update(directory.directory_id for directory in failed)
            if failed:
                return failed
            await self._news.wait()

    def _wake(self) -> None:
        """Wakes `wait`; called by the thread that detected the failure."""
        if self._loop is not None:
            with suppress(trio.RunFinishedError):
                self._loop.run_sync_soon(self._news.set, idempotent=True)
