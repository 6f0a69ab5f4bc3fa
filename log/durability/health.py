"""Whether a log directory may still be used: one object shared by everything inside it.

A `guard` surrounds the calls on files. An append, a read and the start of a flush call `fail` themselves: a guard costs
too much there.

Source: Kafka's `LogDirFailureChannel`; stricter after an error (KAFKA-10778): once an append or fsync failed,
nothing in the directory is written again, and no fsync is retried (its pages may be gone).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from errno import EIO

from trimaran.log.disk.files import is_of_name, printable
from trimaran.wire.errors import ErrorCode, KafkaError


class StorageFailure(Exception):
    """A log directory failed and is offline. Never retried: after a failed fsync the page cache says nothing."""


class DirectoryHealth:
    """`offline` is None or the reason of the first failure, which only `fail` sets, and which stays."""

    __slots__ = ("_watchers", "offline")

    def __init__(self) -> None:
        self.offline: str | None = None
        self._watchers: list[Callable[[], object]] = []

    def watch(self, on_failure: Callable[[], object]) -> None:
        """Has `on_failure` called once, when the directory goes offline, in the thread that meets the failure."""
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
        """As `guard`, for flushes: raises OSError only."""
        if self.offline is not None:
            raise OSError(EIO, self.offline)
        try:
            yield
        except OSError as error:
            self.fail(f"{what}: {error}")
            raise

    @contextmanager
    def guard(self, what: str) -> Iterator[None]:
        """Surrounds storage calls: refuses them when offline, and an OSError takes the directory offline."""
        self.check()
        try:
            yield
        except OSError as error:
            raise self.fail(f"{what}: {error}") from error

    @contextmanager
    def guard_names(self, what: str) -> Iterator[None]:
        """As `guard`, for names at which anything may lie: an error of a name is raised as KAFKA_STORAGE_ERROR, and the
        directory stays in service.
        """
        self.check()
        try:
            yield
        except OSError as error:
            reason = printable(f"{what}: {error}")
            if is_of_name(error):
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, reason) from error
            raise self.fail(reason) from error
