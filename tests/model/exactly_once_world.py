"""The world of the model of exactly-once delivery: transactions, decisions, drivers and tasks as values, and what the
operations of the core do to them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from trimaran.spark.sink.exactly_once import protocol as core

FENCED = "fenced"


class Tx(NamedTuple):
    """The state of a transactional id: `status` is that of the transaction of `epoch`."""

    epoch: int
    status: str  # none, open, committed, aborted, forgotten
    records: tuple[str, ...] = ()
    mark: tuple[int, int] | None = None  # batch and epoch, pending while it is open


class Task(NamedTuple):
    """An attempt of a task; `stage` is new, open, done, skipped or dead."""

    driver: int
    slot: int
    attempt: int
    batch: int
    begun: core.Begun
    stage: str = "new"
    epoch: int = 0

    @property
    def transactional_id(self) -> str:
        """Returns the id of its process, which a later micro-batch of the driver uses again."""
        return f"{self.driver}.{self.slot}.{self.attempt}"


class Driver(NamedTuple):
    """A driver. `phase` is begin, tasks, commit, abort, idle or ended; `told` has the results of its operations."""

    number: int
    batch: int
    phase: str = "begin"
    told: tuple[Any, ...] = ()
    partial: tuple[tuple[int, Any], ...] = ()  # results of some of the operations of an `Each`
    begun: core.Begun | None = None
    prepared: tuple[core.Prepared, ...] = ()  # reported by its tasks


class World(NamedTuple):
    """The state of brokers, checkpoint, drivers and tasks."""

    drivers: tuple[Driver, ...]
    tasks: tuple[Task, ...] = ()
    lead: int = 0
    decision: core.Decision | None = None
    transactions: tuple[tuple[str, Tx], ...] = ()
    marks: tuple[tuple[str, tuple[int, int]], ...] = ()
    data: tuple[str, ...] = ()
    checkpoint: int = -1  # the last micro-batch that Spark has recorded as committed
    timed_out: tuple[tuple[str, int], ...] = ()  # ids and epochs
    forgotten: tuple[tuple[str, int], ...] = ()  # the same

    def tx(self, name: str) -> Tx:
        return dict(self.transactions).get(name, Tx(0, "none"))

    def with_tx(self, name: str, tx: Tx) -> World:
        found = dict(self.transactions)
        found[name] = tx
        return self._replace(transactions=tuple(sorted(found.items())))

    def with_driver(self, driver: Driver) -> World:
        drivers = tuple(driver if d.number == driver.number else d for d in self.drivers)
        return self._replace(drivers=drivers)


def apply(world: World, operation: core.Operation) -> tuple[Any, World]:
    """Returns the result of an operation, and the world after it."""
    match operation:
        case core.FindOpen():
            found = tuple(
                core.Prepared(name, core.ProducerLease(0, tx.epoch))
                for name, tx in world.transactions
                if tx.status == "open"
            )
            return found, world
        case core.TakeLead(renewed):
            if renewed is not None and renewed.epoch != world.lead:
                return FENCED, world
            return core.ProducerLease(0, world.lead + 1), world._replace(lead=world.lead + 1)
        case core.ReadDecision():
            return world.decision, world
        case core.WriteDecision(lease, decision):
            if lease.epoch != world.lead:
                return FENCED, world
            return None, world._replace(decision=decision)
        case core.End(transaction, is_commit):
            return _end(world, transaction, is_commit)
        case core.IsMarked(transaction, batch):
            mark = dict(world.marks).get(transaction.transactional_id)
            return mark == (batch, transaction.lease.epoch), world
        case core.AreOpen(transactions):
            return tuple(t for t in transactions if not is_open(world, t)), world
        case core.Fence(transaction):
            tx = world.tx(transaction.transactional_id)
            if tx.epoch != transaction.lease.epoch:
                return None, world
            status = "aborted" if tx.status == "open" else tx.status
            return None, world.with_tx(transaction.transactional_id, Tx(tx.epoch + 1, status))
    raise AssertionError(operation)


def is_open(world: World, transaction: core.Prepared) -> bool:
    tx = world.tx(transaction.transactional_id)
    return tx.status == "open" and tx.epoch == transaction.lease.epoch


def _end(world: World, transaction: core.Prepared, is_commit: bool) -> tuple[Any, World]:
    name, tx = transaction.transactional_id, world.tx(transaction.transactional_id)
    if tx.status == "forgotten":
        return core.Ending.UNKNOWN, world
    if tx.epoch != transaction.lease.epoch:
        return core.Ending.OTHERWISE, world
    wanted = "committed" if is_commit else "aborted"
    if tx.status != "open":
        return core.Ending.ENDED if tx.status == wanted else core.Ending.OTHERWISE, world
    after = world.with_tx(name, Tx(tx.epoch, wanted))
    if is_commit:
        marks = dict(world.marks)
        if tx.mark is not None:
            marks[name] = tx.mark
        after = after._replace(
            data=tuple(sorted((*world.data, *tx.records))), marks=tuple(sorted(marks.items()))
        )
    return core.Ending.ENDED, after
