"""A coordinator as the runtime sees it: a state machine without I/O, fed by the log of one partition.

A shard decides by making records and changes its state only when they are replayed, so that another broker which
loads the log arrives at the same state. Its inputs are plain calls with an `Instant`. The outcome of an input is a
return value (`Result(records, response)`, which the caller submits) and `Effects`, which the runtime takes
after each.
Sources: Kafka's `CoordinatorShard`, `CoordinatorPlayback`, `CoordinatorRecordSerde`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from trimaran.broker.coordination.timers import Instant
from trimaran.log.batches.records import NewRecord
from trimaran.node.replicated.pending import PendingResponse
from trimaran.node.replicated.state_machine import Producer
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import Offset

R = TypeVar("R")
S = TypeVar("S", bound="CoordinatorShard[Any]")
R_co = TypeVar("R_co", covariant=True)
R_contra = TypeVar("R_contra", contravariant=True)

LoadedRow = tuple[Offset, bytes, bytes | None]
"""The offset, key and value of a loaded record."""
TakeRows = Callable[[Iterable[LoadedRow]], object]
"""Is given some after the other, in the order of the log. Raises RemoteProtocolError."""


class Write(Protocol[R_co]):
    """Records that a shard wants written on its own account; it hears of the outcome by `written`."""

    @property
    def records(self) -> Sequence[R_co]: ...

    @property
    def atomic(self) -> bool:
        """As in `Result`."""


@dataclass(slots=True)
class Effects(Generic[R]):
    """The outputs of inputs since the runtime last took them; bounded by one input's members and records.

    `follow_ups` name work that the coordinator (`CoordinatorSpec.follow_up`) begins as soon as all that was replayed so
    far is committed, however long that takes.
    """

    # The response of each request that waits, beside it.
    responses: list[tuple[PendingResponse[Any], Any]] = field(default_factory=list)
    writes: list[Write[R]] = field(default_factory=list)
    follow_ups: list[str] = field(default_factory=list)


class CoordinatorShard(Protocol[R]):
    """The state of one partition. No call waits, reads a clock or fails; only inputs of its own may refuse."""

    def replay(self, offset: Offset, record: R, producer: Producer | None = None) -> None:
        """Takes over a record of the log: the only way in which state changes.

        One with a `producer` counts from the commit of the producer's transaction on, at its own offset: not against
        later records of the same key (`PendingTransactions` keeps it till then).
        """

    def complete_transaction(self, producer: Producer, is_commit: bool) -> None:
        """A marker is in the log; its epoch may be above that of the records (KIP-890)."""

    def finish_load(self) -> None:
        """All is replayed. Runs in the loader's thread: the place for long work over what was loaded."""

    def loaded(self, at: Instant) -> None:
        """The shard begins to serve."""

    def deadline(self) -> float | None:
        """When `handle_timeout` wants to be called at the latest; monotonic seconds."""

    def handle_timeout(self, at: Instant) -> None:
        """Does what is due at `at`; calling it early does nothing."""

    def take(self) -> Effects[R]:
        """Returns the effects of the inputs since the last call."""

    def written(self, write: Write[R], code: ErrorCode, at: Instant) -> None:
        """Takes the outcome of a write that was taken: NONE, it is committed; else the code for clients.

        With COORDINATOR_NOT_AVAILABLE it may be in the log and be committed later, without another call.
        """

    def close(self, at: Instant) -> None:
        """The epoch is over: leaves a response for every request that waits in it. Nothing is written any more."""

    def unload(self) -> None:
        """Releases the state after its last use. Runs in a thread, and frees one value after another: so it never holds
        the interpreter lock for long.
        """


class RecordSerde(Protocol[R]):
    """Records and their bytes."""

    def encode(self, record: R, now_ms: int) -> NewRecord: ...

    def decode(self, key: bytes, value: bytes | None) -> R | None:
        """None for types not known here, which a later version has left.

        Raises:
            RemoteProtocolError: the bytes are malformed.
        """


async def _no_follow_up(_epoch: object, name: str) -> None:
    raise AssertionError(f"no follow-up was specified: {name}")


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
    # A faster way to give an empty shard the rows of its log than to decode and replay each.
    taking_rows: Callable[[S], TakeRows] | None = None
    # Does a follow-up that a shard has named: a task of the `ShardEpoch` that it gets, and ends with.
    follow_up: Callable[[Any, str], Awaitable[None]] = _no_follow_up
