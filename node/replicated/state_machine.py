"""Decide by generating records, change state only by replaying them, answer when they are committed.

The controller's runtime (in Kafka: `QuorumController`'s write operations); coordinators have
`trimaran.broker.coordination`, which shares `Result`. A decision is a plain function that reads state and returns
`Result(records, response)`; the runtime appends the records, replays them at once into the state (which so runs ahead
of the commit), and defers the response until their last offset is committed. Left out: what is replayed on a standby,
and snapshots; both belong to the state machine, whose `replay` is the same function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from trimaran.node.runtime.errors import NotLeaderError
from trimaran.node.runtime.steps import Steps
from trimaran.node.runtime.watermark import Watermark

R = TypeVar("R")
T = TypeVar("T")


class Result(NamedTuple, Generic[R, T]):
    """What a decision wants: `records` written, then `response` given.

    `atomic`: the records go into one batch, all or none; else they may be cut into several, in order.
    """

    records: Sequence[R]
    response: T
    atomic: bool = True


@dataclass(frozen=True, slots=True)
class Deferred(Generic[T]):
    """A response that may leave once everything below `end_offset` is committed."""

    response: T
    end_offset: int
    committed: Watermark

    def ready(self) -> bool:
        return self.committed.reached(self.end_offset)

    async def wait(self) -> T:
        """Returns the response when it may leave.

        Raises:
            NotLeaderError: leadership ended first; whether the records survive is unknown.
        """
        await self.committed.wait_reached(self.end_offset)
        return self.response


class ReplicatedState(Generic[R]):
    """One epoch's write path into one log; closed with the epoch (see `open_epoch`).

    Args:
        append: writes records to the log as the leader, `atomic` as in `Result`; returns the offset of the last one. In
            steps, of which only the last one writes; raises NotLeaderError, or anything else that leaves log and state
            as they were.
        replay: the only mutator, `(offset, record)`; never validates and never fails.
        committed: the epoch's watermark; `.offset` is the end (exclusive) of what is committed.
        next_offset: the end of the log when the epoch began.
    """

    def __init__(
        self,
        append: Callable[[Sequence[R], bool], Steps[int]],
        replay: Callable[[int, R], object],
        committed: Watermark,
        next_offset: int,
    ) -> None:
        self._append = append
        self._replay = replay
        self._committed = committed
        self._end_offset = next_offset

    @property
    def end_offset(self) -> int:
        """The end (exclusive) of what has been replayed; at or above what is committed."""
        return self._end_offset

    def write(self, result: Result[R, T]) -> Steps[Deferred[T]]:
        """Appends and replays what was just decided, in steps. Nobody may decide on the state, nor write, before the
        last one: from the append on, state and log agree only then.

        A result without records was decided on state that may not be committed yet, so it waits for that.

        Raises:
            NotLeaderError: the epoch has ended; nothing was written.
        """
        if self._committed.closed:
            raise NotLeaderError
        if result.records:
            last_offset = yield from self._append(result.records, result.atomic)
            base_offset = last_offset - len(result.records) + 1
            assert base_offset >= self._end_offset, (base_offset, self._end_offset)
            for offset, record in enumerate(result.records, base_offset):
                self._replay_one(offset, record)
                yield 1
            self._end_offset = last_offset + 1
        return Deferred(result.response, self._end_offset, self._committed)

    def _replay_one(self, offset: int, record: R) -> None:
        try:
            self._replay(offset, record)
        except Exception:
            # State and log have parted: nothing decided on this state may be answered any more.
            self.close()
            raise

    def close(self) -> None:
        """Fails every deferred response with NotLeaderError."""
        self._committed.close()
