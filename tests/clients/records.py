"""Common parts of the clients of the matrix: records, places, and the interface of every adapter."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

ANSWER_SECONDS = 30.0
POLL_SECONDS = 0.1
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


class Unsupported(Exception):
    """The client does not support the operation."""


class Sent(NamedTuple):
    """A record to produce."""

    partition: int
    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int = 0  # 0 for the client's clock


class Seen(NamedTuple):
    """A record as a consumer received it."""

    partition: int
    offset: int
    value: bytes | None
    key: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int


class Place(NamedTuple):
    """The place of an acknowledged record; offset -1 without acknowledgement."""

    partition: int
    offset: int


class Outcome(NamedTuple):
    """A transaction: its content, its end, and the offset that its group commits in it."""

    values: list[bytes]
    is_committed: bool
    offset: int


class Member(Protocol):
    """A member of a consumer group that commits only on request."""

    def poll(self) -> list[Seen]: ...
    def assignment(self) -> set[int]: ...
    def commit(self) -> None: ...
    def leave(self) -> None: ...


class Client(Protocol):
    """An adapter. Every call waits for its response, for at most `ANSWER_SECONDS`."""

    name: str
    produces_null_headers: bool

    def produce(
        self, topic: str, records: list[Sent], *, acks="all", codec="none", idempotent=False
    ) -> list[Place]: ...
    def read(self, topic: str, start: dict[int, int], count: int) -> list[Seen]:
        """Returns `count` records from the offsets `start` by partition, read with `assign`."""
        ...

    def member(self, group: str, topic: str) -> AbstractContextManager[Member]: ...
    def transact(
        self, transactional_id: str, topic: str, outcomes: list[Outcome], group: str
    ) -> None:
        """Runs the transactions in order: a record for each value to partition 0, and the group's offset there."""
        ...

    def read_committed(self, topic: str, start: dict[int, int], count: int) -> list[Seen]: ...
    def committed(self, group: str, topic: str, partitions: int) -> list[int]: ...
    def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int | None:
        """Returns the first offset with at least that timestamp; None if there is none."""
        ...

    def ends(self, topic: str, partition: int) -> tuple[int, int]: ...
    def create_topic(self, topic: str, partitions: int, configs: dict[str, str]) -> None: ...
    def topics(self) -> set[str]: ...
    def replicas(self, topic: str) -> dict[int, list[int]]: ...
    def config(self, topic: str, key: str) -> str: ...
    def alter_config(self, topic: str, key: str, value: str) -> None: ...
    def create_partitions(self, topic: str, count: int) -> None: ...
    def delete_topic(self, topic: str) -> None: ...
    def close(self) -> None: ...
