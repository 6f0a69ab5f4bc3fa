"""The model of exactly-once delivery as a test: complete searches within small bounds, and planted bugs."""

from unittest import mock

import pytest

from tests.model.exactly_once import Bounds, Violated, search
from trimaran.spark.sink.exactly_once import protocol as core

ONE_BATCH = Bounds(batches=1, drivers=2, timeouts=1, slots=(1,))
TWO_BATCHES = Bounds(batches=2, drivers=2, timeouts=0, slots=(1,))
# The second driver has two tasks, so that a part of its decision can be lost.
TWO_TASKS = Bounds(batches=1, drivers=2, timeouts=1, slots=(1, 2))
# The coordinator may forget what was decided, with its mark, before the next driver comes.
FORGOTTEN = Bounds(batches=1, drivers=2, timeouts=0, forgets=1, slots=(1,))


@pytest.mark.slow(seconds=15)
@pytest.mark.parametrize("bounds", [ONE_BATCH, TWO_BATCHES, TWO_TASKS])
def test_each_record_is_written_once_in_every_run(bounds):
    count = search(bounds)
    assert count.worlds > 10_000
    assert count.fenced
    assert count.repeated


def test_forgotten_transactions_end_as_lost_never_repeated():
    count = search(FORGOTTEN)
    assert count.worlds > 1_000
    assert count.lost


def finds_open_late(lost_batch_accepted=None):
    lease = yield core.TakeLead()
    decision = yield core.ReadDecision()
    while decision is not None and not decision.is_finished:
        finished = yield from core._finish(decision, lost_batch_accepted)
        yield core.WriteDecision(lease, finished)
        decision = yield core.ReadDecision()
    for transaction in (yield core.FindOpen()):
        yield core.Fence(transaction)
    return core.Begun(lease, decision)


def finishes_nothing(lost_batch_accepted=None):
    lease = yield core.TakeLead()
    decision = yield core.ReadDecision()
    return core.Begun(lease, decision)


def aborts_all_that_is_open(lost_batch_accepted=None):
    for transaction in (yield core.FindOpen()):
        yield core.Fence(transaction)
    return (yield from begin(lost_batch_accepted))


def aborts_what_is_decided(lease, query, batch, transactions):
    for transaction in transactions:
        yield core.End(transaction, is_commit=False)


def decides_without_a_lease(lease, query, batch, transactions):
    newest = yield core.TakeLead()
    yield from commit(newest, query, batch, transactions)


def ends_before_it_decides(lease, query, batch, transactions):
    for transaction in transactions:
        yield core.End(transaction, is_commit=True)
    yield core.WriteDecision(lease, core.Decision(query, batch, (), is_finished=True))


def finishes_beside_the_ends(lease, query, batch, transactions):
    decision = core.Decision(query, batch, tuple(transactions), is_finished=True)
    ends = (core.End(transaction, is_commit=True) for transaction in transactions)
    yield core.Each((core.WriteDecision(lease, decision), *ends))


def decides_beside_the_ends(lease, query, batch, transactions):
    decision = core.Decision(query, batch, tuple(transactions), is_finished=False)
    ends = (core.End(transaction, is_commit=True) for transaction in transactions)
    yield core.Each((core.WriteDecision(lease, decision), *ends))
    yield core.WriteDecision(lease, decision._replace(is_finished=True))


def takes_a_loss_for_done(decision, lost_batch_accepted):
    for transaction in decision.transactions:
        yield core.End(transaction, is_commit=True)
    return decision._replace(is_finished=True)


def repeats_after_a_commit(decision, lost_batch_accepted):
    for transaction in decision.transactions:
        yield core.End(transaction, is_commit=True)
    return core.Decision(decision.query, decision.batch - 1, (), is_finished=True)


def repeats_what_is_forgotten(decision, lost_batch_accepted):
    steps, told = finish(decision, lost_batch_accepted), None
    try:
        while True:
            endings = yield steps.send(told)
            told = endings and tuple(
                core.Ending.OTHERWISE if ending is core.Ending.UNKNOWN else ending
                for ending in endings
            )
    except StopIteration as stop:
        return stop.value


def always_writes(begun, query, batch, *, adopts):
    return core.Treatment.WRITE


begin, commit, finish = core.begin, core.commit, core._finish
# Each bug with the bounds in which the fewest worlds are visited until it is found.
BUGS = [
    ("begin", finds_open_late, TWO_TASKS),
    ("begin", finishes_nothing, TWO_BATCHES),
    ("begin", aborts_all_that_is_open, TWO_TASKS),
    ("abort", aborts_what_is_decided, TWO_TASKS),
    ("commit", decides_without_a_lease, TWO_BATCHES),
    ("commit", ends_before_it_decides, ONE_BATCH),
    ("commit", finishes_beside_the_ends, ONE_BATCH),
    ("commit", decides_beside_the_ends, ONE_BATCH),
    ("_finish", takes_a_loss_for_done, ONE_BATCH),
    ("_finish", repeats_after_a_commit, TWO_BATCHES),
    ("_finish", repeats_what_is_forgotten, FORGOTTEN),
    ("verdict", always_writes, TWO_BATCHES),
]


@pytest.mark.parametrize(
    ("name", "bug", "bounds"), BUGS, ids=lambda value: getattr(value, "__name__", None)
)
def test_planted_bug_is_found(name, bug, bounds):
    with mock.patch.object(core, name, bug), pytest.raises(Violated) as found:
        search(bounds)
    assert found.value.trail
