"""The interface between a coordinator and the runtime: a state machine without I/O, fed from the log of one partition.

A shard decides by returning records and only changes its state when they are replayed, so that another broker that
loads the log reaches the same state. Its inputs are plain calls with an `Instant`. The outcome of an input is a return
value (`Result(records, response)`, which the caller submits) and `Effects`, which the runtime takes after each input.
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
from trimaran.wire.transport.metrics.time_histogram import TimeHistogram

R = TypeVar("R")
S = TypeVar("S", bound="CoordinatorShard[Any]")
R_co = TypeVar("R_co", covariant=True)
R_contra = TypeVar("R_contra", contravariant=True)

LoadedRow = tuple[Offset, bytes, bytes | None]
"""The offset, key and value of a loaded record."""
TakeRows = Callable[[Iterable[LoadedRow]], object]
"""Applies rows in log order, in several calls. Raises RemoteProtocolError."""


class Write(Protocol[R_co]):
    """Records that a shard writes without a request; `CoordinatorShard.written` receives the outcome."""

    @property
    def records(self) -> Sequence[R_co]: ...

    @property
    def atomic(self) -> bool:
        """Whether all records must be in one batch, as in `Result`."""


@dataclass(slots=True)
class Effects(Generic[R]):
    """The effects of inputs since the runtime last took them; bounded by the members and records of one input.

    `follow_ups` names work that the coordinator (`CoordinatorSpec.follow_up`) begins as soon as everything replayed so
    far is committed, however long that takes.
    """

    # Waiting requests with their responses.
    responses: list[tuple[PendingResponse[Any], Any]] = field(default_factory=list)
    writes: list[Write[R]] = field(default_factory=list)
    follow_ups: list[str] = field(default_factory=list)


class CoordinatorShard(Protocol[R]):
    """The state of one partition. No method waits, reads a clock or fails; only a coordinator's own inputs may raise
    errors.
    """

    def replay(self, offset: Offset, record: R, producer: Producer | None = None) -> None:
        """Applies a record of the log: state only changes in this way.

        A record with a `producer` takes effect when the producer's transaction is committed, at the record's own
        offset: it does not override later records of the same key (`PendingTransactions` keeps it until then).
        """

    def complete_transaction(self, producer: Producer, is_commit: bool) -> None:
        """Ends a transaction after its marker was read; the marker's epoch may be higher than that of the records
        (KIP-890).
        """

    def finish_load(self) -> None:
        """Ends the load, after all records have been replayed. Runs in the loader's thread, so it may take long."""

    def loaded(self, at: Instant) -> None:
        """Begins to serve."""

    def deadline(self) -> float | None:
        """The latest time for the next call of `handle_timeout`, in monotonic seconds; None if none is needed."""

    def handle_timeout(self, at: Instant) -> None:
        """Does the work that is due at `at`; an early call does nothing."""

    def take(self) -> Effects[R]:
        """Returns the effects of the inputs since the last call."""

    def written(self, write: Write[R], code: ErrorCode, at: Instant) -> None:
        """Handles the outcome of a write from `take`: NONE if it is committed, otherwise the code for clients.

        With COORDINATOR_NOT_AVAILABLE it may be in the log and be committed later, without another call.
        """

    def close(self, at: Instant) -> None:
        """Ends the epoch: leaves a response for every waiting request. The shard writes nothing afterwards."""

    def unload(self) -> None:
        """Releases the state after its last use. Runs in a thread and frees values one by one, so that it never holds
        the interpreter lock for long.
        """


class RecordSerde(Protocol[R]):
    """The encoding and decoding of records."""

    def encode(self, record: R, now_ms: int) -> NewRecord: ...

    def decode(self, key: bytes, value: bytes | None) -> R | None:
        """Returns the record, or None for an unknown type, which a later version has written.

        Raises:
            RemoteProtocolError: the bytes are malformed.
        """


async def _no_follow_up(_epoch: object, name: str) -> None:
    raise AssertionError(f"no follow-up was specified: {name}")


@dataclass(frozen=True)
class CoordinatorSpec(Generic[S, R]):
    """The definition of the shards of one internal topic."""

    topic: str
    make_shard: Callable[[], S]
    serde: RecordSerde[R]
    # The maximum time for the commit of a write, and the size of the pieces in which the log is read.
    commit_timeout_ms: int = 5_000
    load_buffer_bytes: int = 5 << 20
    # Whether the topic is compacted by key, so that a shard only needs the last record of each key.
    compacted: bool = True
    # A faster way to apply the rows of a log to an empty shard than decoding and replaying each.
    taking_rows: Callable[[S], TakeRows] | None = None
    # Carries out a follow-up that a shard has named. It runs as a task of the `ShardEpoch` that it receives, and ends
    # with it.
    follow_up: Callable[[Any, str], Awaitable[None]] = _no_follow_up
    load_times: TimeHistogram = field(default_factory=TimeHistogram)
