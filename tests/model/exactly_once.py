"""A model of exactly-once delivery: every interleaving of drivers, tasks and time-outs around the protocol's core.

Drivers may die after each operation, or continue as zombies while newer ones run; tasks may die, begin late or end
late. The coordinator, the topic of decisions and Spark's checkpoint are values of a `World`. `search` visits all worlds
within the bounds, breadth first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from tests.model.exactly_once_world import FENCED, Driver, Task, Tx, World, apply, is_open
from trimaran.spark.sink.exactly_once import protocol as core

QUERY = "query"


class Bounds(NamedTuple):
    """The number of micro-batches, drivers, time-outs, ids that the coordinator forgets, and attempts of a task of a
    driver.
    """

    batches: int = 2
    drivers: int = 2
    timeouts: int = 1
    forgets: int = 0
    attempts: int = 1
    slots: tuple[int, ...] = (
        2,
        1,
    )  # tasks of a micro-batch, by driver: each driver divides it differently


class Violated(AssertionError):
    """Raised if a rule is broken; `trail` has the actions that led to the violation."""

    def __init__(self, rule: str, trail: list[str]) -> None:
        super().__init__("\n".join([rule, *trail]))
        self.rule = rule
        self.trail = trail


@dataclass
class Count:
    """The result of a search."""

    worlds: int = 0
    lost: int = 0
    repeated: int = 0
    fenced: int = 0


def search(bounds: Bounds, worlds_max: int = 10**9) -> Count:
    """Visits every world within the bounds. Raises Violated, with a shortest trail."""
    count = Count()
    first = World((Driver(0, 0),))
    parents: dict[World, tuple[World, str] | None] = {first: None}
    level = [first]
    while level:
        following: list[World] = []
        for world in level:
            count.worlds += 1
            assert count.worlds < worlds_max, "the bounds allow more worlds than expected"
            label = ""
            try:
                for label, reached in _actions(world, bounds, count):
                    after = _without_past_tasks(reached)
                    if after not in parents:
                        parents[after] = (world, label)
                        _check(after, bounds)
                        following.append(after)
            except _Broken as broken:
                raise Violated(str(broken), [*_trail(parents, world), label]) from None
        level = following
    return count


def _without_past_tasks(world: World) -> World:
    """Omits tasks that have ended and that their driver no longer waits for: they would only multiply the worlds."""
    waiting = [driver.number for driver in world.drivers if driver.phase == "tasks"]
    kept = tuple(t for t in world.tasks if t.stage in {"new", "open"} or t.driver in waiting)
    return world if len(kept) == len(world.tasks) else world._replace(tasks=kept)


class _Broken(Exception):
    """Raised if the world after an action breaks a rule."""


def _trail(parents: dict[World, tuple[World, str] | None], world: World) -> list[str]:
    steps = []
    while (found := parents[world]) is not None:
        world, label = found
        steps.append(label)
    return steps[::-1]


def _check(world: World, bounds: Bounds) -> None:
    if len(set(world.data)) != len(world.data):
        raise _Broken("a record is written twice")
    lost = world.checkpoint >= 0 and [
        record
        for batch in range(world.checkpoint + 1)
        for record in _records(batch)
        if record not in world.data
    ]
    if lost:
        raise _Broken("Spark has recorded a micro-batch whose records are not all written")
    decision = world.decision
    if decision is not None and decision.is_finished:
        for name, lease in decision.transactions:
            tx = world.tx(name)
            if tx.epoch == lease.epoch and tx.status == "open":
                raise _Broken("a finished decision has an open transaction")
    del bounds


def _slots_of(driver: int, bounds: Bounds) -> int:
    """Returns the number of tasks into which a driver divides a micro-batch."""
    return bounds.slots[driver % len(bounds.slots)]


def _records(batch: int, slot: int = 0, slots: int = 1) -> tuple[str, ...]:
    """Returns the records of a task: both of a micro-batch, or one."""
    return tuple(f"{batch}.{number}" for number in range(2) if number % slots == slot)


# --- actions


def _actions(world: World, bounds: Bounds, count: Count) -> Iterator[tuple[str, World]]:
    for driver in world.drivers:
        if driver.phase != "ended":
            yield from _driver_actions(world, driver, bounds, count)
    for task in world.tasks:
        yield from _task_actions(world, task, bounds)
    if len(world.timed_out) < bounds.timeouts:
        for name, tx in world.transactions:
            if tx.status == "open":
                yield f"time-out of {name}", _timed_out(world, name, tx)
    if len(world.forgotten) < bounds.forgets:
        for name, tx in world.transactions:
            if tx.status in {"committed", "aborted"}:
                yield f"{name} is forgotten", _forgotten(world, name, tx)
    if len(world.drivers) < bounds.drivers and world.checkpoint < bounds.batches - 1:
        number = len(world.drivers)
        fresh = Driver(number, world.checkpoint + 1)
        # The older driver is dead, or continues without noticing the new one.
        dead = tuple(
            driver._replace(phase="ended", told=(), partial=(), begun=None, prepared=())
            for driver in world.drivers
        )
        yield f"driver {number} starts, the older is dead", world._replace(drivers=(*dead, fresh))
        yield (
            f"driver {number} starts beside the older",
            world._replace(drivers=(*world.drivers, fresh)),
        )


def _timed_out(world: World, name: str, tx: Tx) -> World:
    after = world.with_tx(name, Tx(tx.epoch + 1, "aborted"))
    return after._replace(timed_out=tuple(sorted((*world.timed_out, (name, tx.epoch)))))


def _forgotten(world: World, name: str, tx: Tx) -> World:
    """The id has expired, and so has the group of its mark."""
    after = world.with_tx(name, Tx(tx.epoch, "forgotten"))
    marks = tuple(mark for mark in world.marks if mark[0] != name)
    return after._replace(marks=marks, forgotten=(*world.forgotten, (name, tx.epoch)))


def _driver_actions(
    world: World, driver: Driver, bounds: Bounds, count: Count
) -> Iterator[tuple[str, World]]:
    name = f"driver {driver.number}"
    if driver.phase == "tasks":
        yield from _with_tasks(world, driver, bounds)
        return
    if driver.phase == "idle":
        if driver.batch < bounds.batches - 1:
            following = driver._replace(
                batch=driver.batch + 1, phase="begin", told=(), begun=None, prepared=()
            )
            yield f"{name} begins {following.batch}", world.with_driver(following)
        return
    if driver.phase == "commit":
        # Spark calls abort, although the core may have decided already.
        failed = driver._replace(phase="abort", told=(), partial=())
        yield f"{name}: its commit fails", world.with_driver(failed)
    steps = _steps_of(driver)
    try:
        operation = _resumed(steps, driver.told)
        while operation == core.Each(()):
            driver = driver._replace(told=(*driver.told, ()))
            operation = steps.send(())
        if isinstance(operation, core.Each):
            yield from _each(world, driver, operation.operations)
            return
        told, after = apply(world, operation)
        moved = after.with_driver(driver._replace(told=(*driver.told, told)))
        yield f"{name} {driver.phase} {driver.batch}: {operation} -> {told}", moved
    except StopIteration as stop:
        yield from _returned(world, driver, bounds, stop.value)
    except core.Lost as lost:
        count.lost += 1
        _check_lost(world, lost)
        yield f"{name}: {lost!r}", world.with_driver(_ended(driver))
    except core.Undecided:
        count.repeated += 1
        yield (
            f"{name}: not decided",
            world.with_driver(driver._replace(phase="abort", told=(), partial=())),
        )
    except core.Fenced:
        count.fenced += 1
        phase = "abort" if driver.phase == "commit" else "ended"
        yield (
            f"{name} is fenced",
            world.with_driver(driver._replace(phase=phase, told=(), partial=())),
        )


def _each(
    world: World, driver: Driver, operations: tuple[core.Operation, ...]
) -> Iterator[tuple[str, World]]:
    """Yields one world for each of the remaining operations, carried out next."""
    name = f"driver {driver.number}"
    for index, operation in enumerate(operations):
        if index in dict(driver.partial):
            continue
        told, after = apply(world, operation)
        partial = tuple(sorted((*driver.partial, (index, told)), key=lambda pair: pair[0]))
        if len(partial) == len(operations):
            results = tuple(result for _, result in partial)
            moved = driver._replace(told=(*driver.told, results), partial=())
        else:
            moved = driver._replace(partial=partial)
        yield (
            f"{name} {driver.phase} {driver.batch}: {operation} -> {told}",
            after.with_driver(moved),
        )


def _check_lost(world: World, lost: core.Lost) -> None:
    """Checks that only a time-out or a forgotten id causes a loss, and that the error names what may be lost."""
    assert world.decision is not None
    decided = {t.transactional_id: t.lease.epoch for t in world.decision.transactions}
    if not {(name, decided.get(name)) for name in lost.transactions} <= {
        *world.timed_out,
        *world.forgotten,
    }:
        raise _Broken("a transaction is lost that no time-out aborted, and that is not forgotten")


def _ended(driver: Driver) -> Driver:
    return driver._replace(phase="ended", told=(), partial=(), begun=None, prepared=())


def _returned(
    world: World, driver: Driver, bounds: Bounds, value: Any
) -> Iterator[tuple[str, World]]:
    """Yields the worlds in which the driver continues with the value that the core's function returned."""
    name = f"driver {driver.number}"
    if driver.phase == "begin":
        _check_nothing_left(world, driver)
        slots = range(_slots_of(driver.number, bounds))
        tasks = tuple(Task(driver.number, slot, 0, driver.batch, value) for slot in slots)
        running = driver._replace(phase="tasks", told=(), begun=value)
        yield (
            f"{name} starts tasks",
            world.with_driver(running)._replace(tasks=(*world.tasks, *tasks)),
        )
    elif driver.phase == "commit":
        after = world.with_driver(driver._replace(phase="idle", told=(), begun=None, prepared=()))
        checkpoint = max(world.checkpoint, driver.batch)
        yield f"{name}: Spark records {driver.batch}", after._replace(checkpoint=checkpoint)
    else:
        yield f"{name} gives up", world.with_driver(_ended(driver))


def _check_nothing_left(world: World, driver: Driver) -> None:
    """Checks that the transactions that were open before this driver's start are closed once it has begun."""
    listed = [
        told
        for told in driver.told
        if type(told) is tuple and all(isinstance(found, core.Prepared) for found in told)
    ]
    for transaction in listed[-1] if listed else ():
        if is_open(world, transaction):
            raise _Broken("a transaction of an earlier attempt is left open")


def _with_tasks(world: World, driver: Driver, bounds: Bounds) -> Iterator[tuple[str, World]]:
    name = f"driver {driver.number}"
    own = [t for t in world.tasks if (t.driver, t.batch) == (driver.number, driver.batch)]
    slots = range(_slots_of(driver.number, bounds))
    done = [
        next((t for t in own if t.slot == slot and t.stage in {"done", "skipped"}), None)
        for slot in slots
    ]
    if all(done):
        if done[0].stage == "skipped":
            idle = world.with_driver(driver._replace(phase="idle", begun=None, prepared=()))
            yield (
                f"{name} skips {driver.batch}",
                idle._replace(checkpoint=max(world.checkpoint, driver.batch)),
            )
        else:
            yield f"{name} commits", _ending(world, driver, "commit")
    for slot in slots:
        attempts = [t for t in own if t.slot == slot]
        if done[slot] is None and len(attempts) < bounds.attempts:
            again = Task(driver.number, slot, len(attempts), driver.batch, driver.begun)
            yield f"{name} repeats task {slot}", world._replace(tasks=(*world.tasks, again))
        if done[slot] is None and len(attempts) == bounds.attempts:
            yield f"{name} fails", _ending(world, driver, "abort")


def _task_actions(world: World, task: Task, bounds: Bounds) -> Iterator[tuple[str, World]]:
    name, tx = task.transactional_id, world.tx(task.transactional_id)
    if task.stage == "new":
        try:
            decided = core.verdict(task.begun, QUERY, task.batch, adopts=False)
        except core.Mismatch:
            is_alone = all(d.phase == "ended" or d.number == task.driver for d in world.drivers)
            if is_alone and task.batch > world.checkpoint:
                raise _Broken("the only driver does not agree with the decisions") from None
            yield f"task {name} refuses", _with_task(world, task, task._replace(stage="dead"))
            return
        if decided is core.Treatment.SKIP:
            yield f"task {name} skips", _with_task(world, task, task._replace(stage="skipped"))
            return
        slots = _slots_of(task.driver, bounds)
        lease = Tx(tx.epoch + 1, "open", _records(task.batch, task.slot, slots))
        began = task._replace(stage="open", epoch=lease.epoch)
        yield (
            f"task {name} writes {lease.records}",
            _with_task(world, task, began).with_tx(name, lease),
        )
    elif task.stage == "open":
        if tx.epoch != task.epoch:
            yield f"task {name} is fenced", _with_task(world, task, task._replace(stage="dead"))
            return
        marked = tx._replace(mark=(task.batch, task.epoch))
        done = task._replace(stage="done")
        yield f"task {name} is done", _with_task(world, task, done).with_tx(name, marked)


def _with_task(world: World, task: Task, after: Task) -> World:
    tasks = list(world.tasks)
    tasks[tasks.index(task)] = after
    return world._replace(tasks=tuple(tasks))


# --- the core's operations


def _steps_of(driver: Driver) -> core.Steps:
    if driver.phase == "begin":
        return core.begin()
    assert driver.begun is not None
    function: Callable[..., core.Steps] = core.commit if driver.phase == "commit" else core.abort
    return function(driver.begun.lease, QUERY, driver.batch, driver.prepared)


def _ending(world: World, driver: Driver, phase: str) -> World:
    return world.with_driver(driver._replace(phase=phase, prepared=_prepared(world, driver)))


def _prepared(world: World, driver: Driver) -> tuple[core.Prepared, ...]:
    """Returns the reports of the tasks: for each slot that of the first finished attempt."""
    found = {}
    for task in world.tasks:
        if (task.driver, task.batch, task.stage) == (driver.number, driver.batch, "done"):
            lease = core.ProducerLease(0, task.epoch)
            found.setdefault(task.slot, core.Prepared(task.transactional_id, lease))
    return tuple(found.values())


def _resumed(steps: core.Steps, told: tuple[Any, ...]) -> core.Operation:
    """Returns the next operation of a generator that gets these results."""
    operation = next(steps)
    for result in told:
        operation = steps.throw(core.Fenced()) if result == FENCED else steps.send(result)
    return operation
