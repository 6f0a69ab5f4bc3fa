"""The broker's log directory: finds and makes partitions' logs, keeps topic ids apart, saves checkpoints.

Source: `LogManager` of Kafka. A directory that holds another topic id than the image says is a stray: it is put aside before
the new one is made, so no byte of one topic is served as another's (P14). Left out: several directories (JBOD).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

import trio

from log.config import LogConfig
from log.directory import LogDirectory
from log.partition_log import PartitionLog
from quorum.runtime.threads import run_blocking
from wire.errors import KafkaError

log = logging.getLogger(__name__)


class LogDirectories:
    """One directory for now; the interface names partitions, not places."""

    def __init__(self, directory: LogDirectory) -> None:
        self.directory = directory
        self._failed = trio.Event()

    @property
    def offline(self) -> str | None:
        return self.directory.offline

    def storage_failed(self) -> None:
        """Somebody met KAFKA_STORAGE_ERROR; if the directory is offline the broker must go."""
        if self.directory.offline is not None:
            self._failed.set()

    async def wait_offline(self) -> str:
        """Returns why the directory is offline, once it is."""
        await self._failed.wait()
        return self.directory.offline or "unknown"

    def open_log(self, topic: str, index: int, topic_id: bytes, config: LogConfig) -> PartitionLog:
        """Opens the partition's log, or makes it. Raises KafkaError KAFKA_STORAGE_ERROR."""
        directory = self.directory
        try:
            if (topic, index) in directory:
                if directory.topic_id(topic, index) == topic_id:
                    return directory.open_log(topic, index, config)
                log.warning("%s-%d belongs to another topic id: put aside", topic, index)
                directory.delete_log(topic, index)
            return directory.create_log(topic, index, topic_id, config)
        except KafkaError:
            self.storage_failed()
            raise

    def delete_log(self, topic: str, index: int, topic_id: bytes) -> None:
        """Takes the partition's directory away if it is of that topic id; the files go later (`purge`)."""
        directory = self.directory
        try:
            if (topic, index) in directory and directory.topic_id(topic, index) == topic_id:
                directory.delete_log(topic, index)
        except KafkaError as error:
            log.error("%s-%d could not be deleted: %s", topic, index, error)
            self.storage_failed()

    def drop_strays(self, wanted: Mapping[tuple[str, int], bytes]) -> list[tuple[str, int]]:
        """Puts aside every partition that is not `wanted` here under its topic id; returns them."""
        strays = [
            key
            for key in self.directory.partitions()
            if key not in wanted or self.directory.topic_id(*key) != wanted[key]
        ]
        for topic, index in strays:
            log.warning("%s-%d is not assigned to this broker: put aside", topic, index)
            self.directory.delete_log(topic, index)
        return strays

    async def purge(self) -> None:
        """Removes the files of deleted segments and partitions, in a thread."""
        try:
            await run_blocking(self.directory.purge)
        except KafkaError:
            self.storage_failed()
            raise

    async def save_checkpoints(self, high_watermarks: Mapping[tuple[str, int], int]) -> None:
        """Writes recovery points, log starts and high watermarks, in a thread."""
        collected = self.directory.collect_checkpoints(high_watermarks)
        try:
            await run_blocking(self.directory.write_checkpoints, collected)
        except KafkaError:
            self.storage_failed()
            raise
