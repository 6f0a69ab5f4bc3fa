"""Bugs of log directories: failures, directories that are missing at a start, and damaged metadata in them."""

from __future__ import annotations

from contextlib import AbstractContextManager, suppress
from typing import Any
from unittest import mock

from tests.simulation.here import patched_here
from tests.simulation.mutants.mutant import both
from tests.simulation.partitions.mutants.moves import LOST, any_log_is_made
from trimaran.broker.background.directory_assignments import DirectoryAssignments
from trimaran.broker.process.failed_directories import FailedDirectories
from trimaran.broker.storage.broker_storage import Storage
from trimaran.broker.storage.directories import LogDirectories
from trimaran.log.directories import directory as directory_module
from trimaran.log.directories.directory import LogDirectory
from trimaran.log.directories.offset_checkpoints import OffsetCheckpoints
from trimaran.log.directories.topic_ids import TopicIds
from trimaran.log.durability.flush import Flush
from trimaran.log.durability.health import DirectoryHealth
from trimaran.log.partitions.names import DELETE_SUFFIX, FUTURE_SUFFIX, STRAY_SUFFIX
from trimaran.quorum.metadata.image import LOST_DIRECTORY
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicIdPartition, TopicPartition

Patch = AbstractContextManager[Any]
UNTOLD = ("P25", "P24", "L1")


def _offline_directories_are_not_reported() -> Patch:
    return mock.patch.object(LogDirectories, "offline_ids", return_value=[])


def _new_directories_are_not_reported() -> Patch:
    real = DirectoryAssignments.assign

    def assign(self: DirectoryAssignments, replica: TopicIdPartition, directory_id: bytes) -> None:
        if directory_id == LOST_DIRECTORY:
            real(self, replica, directory_id)

    return mock.patch.object(DirectoryAssignments, "assign", assign)


def _failed_syncs_are_forgotten() -> Patch:
    """After a failed sync, the next one reports success."""
    real = Flush.run

    def run(self: Flush) -> None:
        try:
            real(self)
        except OSError:
            self.health.offline = None
            self.done = True

    return mock.patch.object(Flush, "run", run)


def _failures_are_not_noticed() -> Patch:
    """Replicas of a failed directory keep their epochs."""

    async def commit(self: Storage, directory: Any) -> None:
        with suppress(Exception):
            await self.commits[directory].run()

    return both(
        mock.patch.object(Storage, "commit", commit),
        mock.patch.object(FailedDirectories, "_wake", return_value=None),
        mock.patch.object(LogDirectories, "offline_ids", return_value=[]),
    )


def _damaged_topic_id_counts_as_foreign() -> Patch:
    """An unreadable `partition.metadata` is taken for a foreign one, so that the log is moved aside."""
    real = TopicIds.get

    def get(self: TopicIds, key: TopicPartition) -> bytes | None:
        try:
            return real(self, key)
        except KafkaError:
            return None

    def is_of(self: TopicIds, key: TopicPartition, topic_id: bytes) -> bool:
        return self.get(key) == topic_id

    return both(
        mock.patch.object(TopicIds, "get", get), mock.patch.object(TopicIds, "is_of", is_of)
    )


def _offsets_of_a_namesake_stay() -> Patch:
    """The checkpointed offsets of an earlier replica remain."""
    return both(
        mock.patch.object(OffsetCheckpoints, "forget", return_value=None),
        mock.patch.object(OffsetCheckpoints, "begin", return_value=None),
    )


def _strays_stay() -> Patch:
    async def drop(_self: LogDirectories, _wanted: Any) -> None:
        """Does nothing."""

    return mock.patch.object(LogDirectories, "drop_strays", drop)


def _everything_is_stray() -> Patch:
    """Strays are dropped before the metadata is known."""
    real = LogDirectories.drop_strays

    async def drop(self: LogDirectories, _wanted: Any) -> None:
        await real(self, ())

    return mock.patch.object(LogDirectories, "drop_strays", drop)


def _log_that_was_moved_aside_returns() -> Patch:
    """KAFKA-8069: names with only the prefix of a partition's name are taken for the partition."""
    real = directory_module.partition_of

    def of(name: str) -> TopicPartition | None:
        for suffix in (DELETE_SUFFIX, STRAY_SUFFIX, FUTURE_SUFFIX):
            if name.endswith(suffix):
                return real(name.split(".", maxsplit=1)[0])
        return real(name)

    return patched_here(directory_module, "partition_of", of)


def _a_failed_directory_hides_the_others() -> Patch:
    """The replica of a recreated topic is searched for in the old one's directory."""

    def holding(self: LogDirectories, key: TopicPartition) -> LogDirectory | None:
        return next((item for item in self.all if key in item), None)

    def find(self: LogDirectories, key: TopicPartition, topic_id: bytes) -> LogDirectory | None:
        found = self.holding(key)
        if found is not None and found.topic_id(key) != topic_id:
            found.put_aside(key)
            return None
        return found

    return both(
        mock.patch.object(LogDirectories, "holding", holding),
        mock.patch.object(LogDirectories, "_find", find),
        mock.patch.object(LogDirectory, "forget", return_value=None),
    )


def _a_replica_that_lies_elsewhere_is_not_claimed() -> Patch:
    """A replica in another directory than the assigned one is not reported. This matters for a leaderless partition
    whose log stays unopened.
    """
    return mock.patch.object(LogDirectories, "claim", return_value=None)


def _lost_replica_is_not_reported() -> Patch:
    """The unopenable log is not reported."""

    return mock.patch.object(LogDirectories, "refused", return_value=None)


def _disk_error_counts_as_transient() -> Patch:
    """A request fails with an error of the directory, which stays in service."""

    def fail(_self: DirectoryHealth, reason: str) -> KafkaError:
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, reason)

    return mock.patch.object(DirectoryHealth, "fail", fail)


DIRECTORIES = (
    ("missing log is created empty", any_log_is_made, LOST),
    ("a failed directory hides the others", _a_failed_directory_hides_the_others, UNTOLD),
    ("offline directories are not reported", _offline_directories_are_not_reported, UNTOLD),
    ("new directories are not reported", _new_directories_are_not_reported, UNTOLD),
    ("failed syncs are forgotten", _failed_syncs_are_forgotten, (*LOST, "L1")),
    ("failures are not noticed", _failures_are_not_noticed, (*UNTOLD, *LOST)),
    ("damaged topic id counts as foreign", _damaged_topic_id_counts_as_foreign, LOST),
    ("offsets of a namesake stay", _offsets_of_a_namesake_stay, (*LOST, *UNTOLD)),
    (
        "a replica that lies elsewhere is not claimed",
        _a_replica_that_lies_elsewhere_is_not_claimed,
        UNTOLD,
    ),
    ("lost replica is not reported", _lost_replica_is_not_reported, UNTOLD),
    (
        "disk error counts as transient",
        _disk_error_counts_as_transient,
        (*UNTOLD, *LOST),
    ),
    ("strays stay", _strays_stay, ("P14", "P22", "L1")),
    ("everything is stray", _everything_is_stray, LOST),
    ("log that was moved aside returns", _log_that_was_moved_aside_returns, (*LOST, "P22", "L1")),
)
