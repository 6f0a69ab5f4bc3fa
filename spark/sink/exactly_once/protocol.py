"""The protocol of exactly-once delivery, without I/O: the operations of a query's driver and tasks, and their order.

`docs/spark_exactly_once.md` explains it with its cases. Each function is a generator: it yields an operation, and its
shell sends the result, or throws `Fenced`. `tests/model/exactly_once.py` visits all their interleavings
and crashes.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from trimaran.wire.identity import ProducerEpoch, ProducerId


class Fenced(Exception):
    """A newer driver of this query has taken over."""


class Lost(Exception):
    """Transactions were aborted after they had been decided; `transactions` are their ids."""

    def __init__(self, batch: int, transactions: Sequence[str], committed: int) -> None:
        super().__init__(batch, tuple(transactions), committed)
        self.batch = batch
        self.transactions = tuple(transactions)
        self.committed = committed


class Undecided(Exception):
    """A micro-batch is not decided, because transactions of its tasks are not open any more."""

    def __init__(self, batch: int, transactions: Sequence[str]) -> None:
        super().__init__(batch, tuple(transactions))
        self.batch = batch
        self.transactions = tuple(transactions)


class Mismatch(Exception):
    """The checkpoint and the decisions of a query contradict each other; the message gives the reason."""


class ProducerLease(NamedTuple):
    """A producer id and its epoch: the right to write under a transactional id until the next lease is taken."""

    producer_id: ProducerId
    epoch: ProducerEpoch


class Prepared(NamedTuple):
    """The transaction of a task: all its records are acknowledged, and it is open."""

    transactional_id: str
    lease: ProducerLease


class Decision(NamedTuple):
    """The decision that micro-batch `batch` of `query` consists of these transactions. Once it is finished, all of them
    are committed.
    """

    query: str
    batch: int
    transactions: tuple[Prepared, ...]
    is_finished: bool


class Begun(NamedTuple):
    """The driver's message to the tasks of a micro-batch: its lease, and the last decision, which is finished."""

    lease: ProducerLease
    decision: Decision | None


# --- operations of the driver


@dataclass(frozen=True, slots=True)
class FindOpen:
    """Returns the transactions of this query's tasks that are open, as `Prepared`."""


@dataclass(frozen=True, slots=True)
class TakeLead:
    """Returns a new lease of the driver's own transactional id, and fences all earlier ones. It waits until a decision
    that was being written is either committed or aborted. If `renewed` is given and is not the newest lease, the shell
    throws `Fenced`.
    """

    renewed: ProducerLease | None = None


@dataclass(frozen=True, slots=True)
class ReadDecision:
    """Returns the last decision; None if there is none."""


@dataclass(frozen=True, slots=True)
class WriteDecision:
    """Writes a decision durably, in a transaction of the driver. The shell throws `Fenced` if `lease` is not the newest
    one.
    """

    lease: ProducerLease
    decision: Decision


@dataclass(frozen=True, slots=True)
class End:
    """Commits or aborts a transaction by its lease. Returns an `Ending`."""

    transaction: Prepared
    is_commit: bool


class Ending(Enum):
    """The known state of a transaction after an attempt to end it."""

    ENDED = "ended"  # as requested, now or earlier
    OTHERWISE = "otherwise"  # its lease can no longer end it as requested, but may have done so
    UNKNOWN = "unknown"  # the coordinator has forgotten the transactional id


@dataclass(frozen=True, slots=True)
class IsMarked:
    """Returns whether the mark of a transaction, an offset that was written within it, is committed."""

    transaction: Prepared
    batch: int


@dataclass(frozen=True, slots=True)
class AreOpen:
    """Returns those of the transactions that are no longer open."""

    transactions: tuple[Prepared, ...]


@dataclass(frozen=True, slots=True)
class Fence:
    """Aborts a transaction if it is still that of this lease, by taking the next lease of its transactional id."""

    transaction: Prepared


@dataclass(frozen=True, slots=True)
class Each:
    """Carries out operations about different transactions in any order, several at a time. Returns their results, in
    the order of `operations`. A driver that dies meanwhile may have carried out any of them.
    """

    operations: tuple[TransactionOperation, ...]


TransactionOperation = End | IsMarked | Fence
Operation = FindOpen | TakeLead | ReadDecision | WriteDecision | AreOpen | Each
Steps = Generator[Operation, Any, Any]


def begin(lost_batch_accepted: int | None = None) -> Steps:
    """Begins a micro-batch on the driver, before its tasks: takes the lead, finishes the last decision, and aborts
    transactions that were left open. Returns `Begun`.

    Raises:
        Lost: some transactions of the last decision are committed, and others were aborted; unless
            `lost_batch_accepted` is that micro-batch.
    """
    while True:
        # Transactions that are open now belong to earlier drivers: tasks of this driver begin only after it has the
        # lead.
        left = yield FindOpen()
        lease = yield TakeLead()
        decision = yield ReadDecision()
        if decision is None or decision.is_finished:
            break
        finished = yield from _finish(decision, lost_batch_accepted)
        yield WriteDecision(lease, finished)
    yield Each(tuple(map(Fence, left)))
    return Begun(lease, decision)


class Treatment(Enum):
    """The action of a task on its rows."""

    WRITE = "write"
    SKIP = "skip"


def verdict(begun: Begun, query: str, batch: int, *, adopts: bool) -> Treatment:
    """Returns whether a task writes or skips its rows of a micro-batch. Raises Mismatch."""
    last = begun.decision
    if last is None or last.query != query:
        if batch and not adopts:
            known = "nothing" if last is None else f"query {last.query}"
            raise Mismatch(
                f"micro-batch {batch} is the first of query {query} here, and {known} is known of earlier ones"
            )
        return Treatment.WRITE
    if batch == last.batch:
        return Treatment.SKIP
    if batch < last.batch:
        raise Mismatch(
            f"micro-batch {batch} is repeated, but {last.batch} is written already: the checkpoint is an old copy, or "
            "another driver of this query is running"
        )
    if batch > last.batch + 1 and not adopts:
        raise Mismatch(
            f"micro-batch {batch} follows {last.batch}: those between were written without exactly_once, or elsewhere"
        )
    return Treatment.WRITE


def commit(lease: ProducerLease, query: str, batch: int, transactions: Sequence[Prepared]) -> Steps:
    """Ends a micro-batch on the driver: decides it, and commits its transactions.

    Raises:
        Fenced: another driver leads. Nothing was decided, or the decision was committed although its response was lost,
            and the other driver completes it.
        Undecided: a transaction timed out before the decision; nothing was decided.
        Lost: transactions timed out between the decision and their commit.
    """
    prepared = tuple(sorted(transactions))
    if gone := (yield AreOpen(prepared)):
        raise Undecided(batch, [t.transactional_id for t in gone])
    decision = Decision(query, batch, prepared, is_finished=not prepared)
    yield WriteDecision(lease, decision)
    if prepared:
        finished = yield from _finish(decision, None)
        yield WriteDecision(lease, finished)
        if finished.batch != batch:
            raise Undecided(batch, [t.transactional_id for t in prepared])


def abort(lease: ProducerLease, query: str, batch: int, transactions: Sequence[Prepared]) -> Steps:
    """Aborts the transactions of a micro-batch that failed, unless it is decided: Spark also calls this if the commit
    failed halfway. A fenced driver leaves the transactions to the newer driver.
    """
    try:
        yield TakeLead(renewed=lease)
    except Fenced:
        return
    last = yield ReadDecision()
    if last is not None and (last.query, last.batch) == (query, batch):
        return  # the next start finishes it
    yield Each(tuple(End(transaction, is_commit=False) for transaction in transactions))


def _finish(decision: Decision, lost_batch_accepted: int | None) -> Steps:
    """Commits the transactions of a decision. Returns the decision to write next: the same one, finished; or, if no
    transaction is committed or can still be committed, a finished decision of the previous micro-batch, so that this
    one is repeated.
    """
    decided = decision.transactions
    endings = yield Each(tuple(End(transaction, is_commit=True) for transaction in decided))
    doubtful = [
        (transaction, ending)
        for transaction, ending in zip(decided, endings, strict=True)
        if ending is not Ending.ENDED
    ]
    marked = yield Each(tuple(IsMarked(transaction, decision.batch) for transaction, _ in doubtful))
    unmarked = [found for found, is_marked in zip(doubtful, marked, strict=True) if not is_marked]
    lost = [transaction.transactional_id for transaction, _ in unmarked]
    is_certain = all(ending is Ending.OTHERWISE for _, ending in unmarked)
    committed = len(decided) - len(lost)
    if lost and not committed and is_certain:
        return Decision(decision.query, decision.batch - 1, (), is_finished=True)
    if lost and decision.batch != lost_batch_accepted:
        raise Lost(decision.batch, lost, committed)
    return decision._replace(is_finished=True)
