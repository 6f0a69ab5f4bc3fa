"""One epoch of a replicated state machine: decide, append, replay immediately, respond after the commit.

The active controller and the coordinators of groups and transactions are built on it. An operation has four parts:

1. The decision. It reads the state without changing it, and returns a `Result`: records, and the response that is valid
   once they are committed. A refusal is an exception (KafkaError) without any record.
2. The append. The records are appended to the log by this epoch's leader. Long work (deciding, encoding) is done in
   `Steps`; the append itself is one call, so that the log has either the whole result or no part of it.
3. The replay. The records are replayed into the state immediately, each with its offset. The state does not change in
   any other way. It runs ahead of the commit, and the next operation decides on it without waiting.
4. The response, a `PendingResponse`. It may be sent when all records replayed by then are committed. A result without
   records also waits, because it may depend on state that is not committed yet.

Order: operations in steps go through a queue (`submit`), one after the other. A state machine with decisions that are
single calls, such as a coordinator, needs no queue (`respond`).

Failures: an append that raises leaves state and log unchanged, and the operation fails with its error. A replay that
raises means that log and state have diverged: `parted` is called, which ends the epoch, and the next epoch starts from
the log.

End of the epoch: pending responses fail with the code of `Progress.ended`. Their records may survive or not, because
the next leader may have them. Records are never undone: to revert, the state is discarded and loaded from the log
again.

Standby: a replica that does not lead replays committed records with the same function. The controller's loader replays
each batch as it arrives, so that its image is ready; a coordinator's shard replays the last record of each key when its
broker becomes the leader. Snapshots belong to the log.

Transactions (only coordinators): records with a `producer` are written in its transaction, and replayed with it; the
state keeps them apart (`PendingTransactions`) until a marker arrives (`replay_marker`).

Sources: Kafka's `CoordinatorRuntime`, `CoordinatorShard`, `CoordinatorPlayback` (coordinator-common) and
`QuorumController`. etcd's raft also responds after the commit, but applies only then, so that each decision there waits
for the one before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from trimaran.node.replicated.operations import OperationQueue
from trimaran.node.replicated.pending import PendingResponse, Progress
from trimaran.node.runtime.errors import NotLeaderError
from trimaran.node.runtime.steps import Steps, at_once
from trimaran.wire.identity import Offset, ProducerEpoch, ProducerId

R = TypeVar("R")
T = TypeVar("T")

# Records replayed in one step: 0.5 ms of work.
RECORDS_PER_STEP = 25


class Producer(NamedTuple):
    """A transactional producer with an open transaction, to which records belong."""

    id: ProducerId
    epoch: ProducerEpoch


class Result(NamedTuple, Generic[R, T]):
    """The result of a decision: `records` to write, then `response` to send.

    `atomic`: the records are written in one batch; otherwise they may be split into several, in order. `producer`: they
    are written in its transaction. `is_awaited`: False if no client waits for the commit.
    """

    records: Sequence[R]
    response: T
    atomic: bool = True
    producer: Producer | None = None
    is_awaited: bool = True


class ReplicatedStateMachine(Generic[R]):
    """One epoch's write path into one log; closed with the epoch (see `open_epoch`).

    Args:
        append: writes the records of a result to the log as the leader and returns the offset of the last one; if it
            works in steps, only the last step writes. Raises NotLeaderError, or an error that leaves log and state
            unchanged.
        replay: the only function that changes the state, `(offset, record, producer)`; it never validates and never
            fails.
        progress: the replayed and the committed offset.
        parted: called when a replay has raised; ends the epoch.
    """

    def __init__(
        self,
        append: Callable[[Result[R, Any]], Offset | Steps[Offset]],
        replay: Callable[[Offset, R, Producer | None], object],
        progress: Progress,
        parted: Callable[[], object],
    ) -> None:
        self._append = append
        self._replay = replay
        self.progress = progress
        self._parted = parted
        self.operations = OperationQueue(progress)

    def write(self, result: Result[R, T]) -> Steps[T]:
        """Appends and replays the records of a decision in steps, and returns the response. No other operation may
        decide or write before the last step.

        Raises:
            KafkaError: `Progress.ended`, or an error of `append`; nothing was written.
        """
        progress = self.progress
        if progress.committed.closed:
            raise progress.ended_error()
        records = result.records
        if records:
            try:
                last_offset = self._append(result)
                if not isinstance(last_offset, int):
                    last_offset = yield from last_offset
            except NotLeaderError as error:
                raise progress.ended_error() from error
            offset = last_offset - len(records) + 1
            assert offset >= progress.end_offset, (offset, progress.end_offset)
            for start in range(0, len(records), RECORDS_PER_STEP):
                piece = records[start : start + RECORDS_PER_STEP]
                try:
                    for record in piece:
                        self._replay(offset, record, result.producer)
                        offset += 1
                except Exception:
                    self._parted()
                    raise
                yield len(piece)
            progress.end_offset = last_offset + 1
        return result.response

    def respond(self, result: Result[R, T]) -> PendingResponse[T]:
        """Appends and replays the records immediately; returns the response, which waits for the commit."""
        if result.records:
            at_once(self.write(result))
        elif self.progress.committed.closed:
            raise self.progress.ended_error()
        pending: PendingResponse[T] = PendingResponse(self.progress)
        pending.complete(result.response)
        return pending

    def replay_marker(self, end_offset: Offset, replay: Callable[[], object]) -> None:
        """Replays the end of a transaction; its marker is in the log below `end_offset`."""
        try:
            replay()
        except Exception:
            self._parted()
            raise
        self.progress.end_offset = end_offset
