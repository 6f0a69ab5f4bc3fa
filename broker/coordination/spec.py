"""What sort of coordinator a runtime is of."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from trimaran.broker.coordination.shard import CoordinatorShard, RecordSerde, TakeRows

S = TypeVar("S", bound=CoordinatorShard[Any])
R = TypeVar("R")


@dataclass(frozen=True)
class CoordinatorSpec(Generic[S, R]):
    """The shards of one internal topic."""

    topic: str
    make_shard: Callable[[], S]
    serde: RecordSerde[R]
    # How long a write may wait for its commit, and how much of the log is read at a time.
    commit_timeout_ms: int = 5_000
    load_buffer_bytes: int = 5 << 20
    # Whether the topic is compacted by key, so that the last record of each is all that a shard needs.
    compacted: bool = True
    # What gives an empty shard the rows of its log more cheaply than by decoding and replaying each.
    taking_rows: Callable[[S], TakeRows] | None = None
    # Called when an append has met KAFKA_STORAGE_ERROR.
    storage_failed: Callable[[], object] = lambda: None
    # Does what a shard has named as its follow-up: a task of the `ShardEpoch`, which it is given, and ends with.
    follow_up: Callable[[Any, str], Awaitable[None]] | None = None
