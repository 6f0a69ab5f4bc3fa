"""The health of a log directory, which is usable or offline: one object shared by everything inside it.

See `broker/process/failed_directories.py` for all that follows from a failure.

A `guard` surrounds the calls on files. An append, a read and the start of a flush call `fail` directly, because a guard
would cost too much.

Source: Kafka's `LogDirFailureChannel`; stricter after an error (KAFKA-10778): once an append or fsync has failed,
no file in the directory is written again, and no fsync is retried (its pages may be lost).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from errno import EIO

from trimaran.log.disk.files import is_of_name, printable
from trimaran.wire.errors import ErrorCode, KafkaError


class StorageFailure(Exception):
    """A log directory failed and is offline. Operations are never retried: after a failed fsync the page cache is not
    reliable.
    """


class DirectoryHealth:
    """The health of a directory. `offline` is None, or the reason of the first failure, which only `fail` sets and
    which never changes.
    """

    __slots__ = ("_watchers", "offline")

    def __init__(self) -> None:
        self.offline: str | None = None
        self._watchers: list[Callable[[], object]] = []

    def watch(self, on_failure: Callable[[], object]) -> None:
        """Registers `on_failure`, which is called once, when the directory goes offline, in the thread that detects the
        failure.
        """
        self._watchers.append(on_failure)

    def fail(self, reason: str) -> KafkaError:
        """Takes the directory offline; returns the error to raise."""
        if self.offline is None:
            self.offline = reason
            for on_failure in self._watchers:
                on_failure()
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, reason)

    def check(self) -> None:
        if self.offline is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, self.offline)

    @contextmanager
    def guard_raw(self, what: str) -> Iterator[None]:
        """Guards as `guard` does, for flushes: raises only OSError."""
        if self.offline is not None:
            raise OSError(EIO, self.offline)
        try:
            yield
        except OSError as error:
            self.fail(f"{what}: {error}")
            raise

    @contextmanager
    def guard(self, what: str) -> Iterator[None]:
        """Guards storage calls: refuses them if the directory is offline; an OSError takes it offline."""
        self.check()
        try:
            yield
        except OSError as error:
            raise self.fail(f"{what}: {error}") from error

    @contextmanager
    def guard_names(self, what: str) -> Iterator[None]:
        """Guards as `guard` does, for paths at which there may be any kind of file: an error of one path is raised as
        KAFKA_STORAGE_ERROR, and the directory stays in service.
        """
        self.check()
        try:
            yield
        except OSError as error:
            reason = printable(f"{what}: {error}")
            if is_of_name(error):
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, reason) from error
            raise self.fail(reason) from error
