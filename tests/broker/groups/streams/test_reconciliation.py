"""The steps of a member: those that Kafka 4.4's `CurrentAssignmentBuilder` takes, and a member in an unknown state.

`testdata/steps.jsonl` has members with their targets, the processes that hold tasks, and the member after Kafka's step.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trimaran.broker.groups.streams.member import StreamsMember, StreamsMemberState
from trimaran.broker.groups.streams.reconciliation import check_state, reconcile
from trimaran.broker.groups.streams.tasks import AssignedTasks, MemberTasks
from trimaran.wire.errors import ErrorCode, KafkaError

STEPS = [
    json.loads(line)
    for line in (Path(__file__).parent / "testdata" / "steps.jsonl").read_text().splitlines()
]


class Holders:
    """The processes that hold tasks, as a `StreamsGroup` knows them."""

    def __init__(self, step):
        self._step = step

    def active_process(self, task):
        return self._step["active"].get("{}_{}".format(*task))

    def standby_processes(self, task):
        return frozenset(self._step["standby"].get("{}_{}".format(*task), ()))

    def warmup_processes(self, task):
        return frozenset(self._step["warmup"].get("{}_{}".format(*task), ()))

    def active_partitions(self, subtopology):
        return self._partitions(subtopology, self._step["active"])

    def held_partitions(self, subtopology):
        roles = (self._step["active"], self._step["standby"], self._step["warmup"])
        return self._partitions(subtopology, (task for role in roles for task in role))

    def _partitions(self, subtopology, held):
        named = [task.rpartition("_") for task in held]
        return {int(partition) for name, _, partition in named if name == subtopology}


def sets(tasks):
    return {subtopology: frozenset(mine) for subtopology, mine in tasks.items()}


def assigned(tasks):
    active, standby, warmup = tasks
    with_epochs = {
        subtopology: {int(partition): epoch for partition, epoch in mine.items()}
        for subtopology, mine in active.items()
    }
    return AssignedTasks(with_epochs, sets(standby), sets(warmup))


@pytest.mark.parametrize("step", STEPS, ids=range(len(STEPS)))
def test_step_is_that_of_kafka(step):
    member = StreamsMember(
        "m",
        process_id="p",
        epoch=step["epoch"],
        previous_epoch=step["epoch"] - 1,
        state=StreamsMemberState(step["state"]),
        assigned=assigned(step["assigned"]),
        revoking=assigned(step["revoking"]),
    )
    owned = None if step["owned"] is None else MemberTasks(*map(sets, step["owned"]))
    target = MemberTasks(*map(sets, step["target"]))
    moved = reconcile(member, step["target_epoch"], target, Holders(step), owned)
    state, epoch, previous, kept, revoking = step["result"]
    assert (moved.state, moved.epoch, moved.previous_epoch) == (state, epoch, previous)
    assert moved.assigned == assigned(kept)
    assert moved.revoking == assigned(revoking)


def test_each_state_is_among_the_steps():
    before = {(step["state"], step["result"][0]) for step in STEPS}
    stable, unrevoked, unreleased = 1, 2, 3
    assert before == {
        (state, later)
        for state in (stable, unrevoked, unreleased)
        for later in (stable, unrevoked, unreleased)
    }


@pytest.mark.parametrize("reported", [None, MemberTasks(active={"0": frozenset({1})})])
def test_member_in_unknown_state_must_own_nothing(reported):
    member = StreamsMember("m", state=StreamsMemberState.UNKNOWN)
    with pytest.raises(KafkaError) as raised:
        check_state(member, reported)
    assert raised.value.code is ErrorCode.FENCED_MEMBER_EPOCH
    check_state(member, MemberTasks())
    moved = reconcile(member, 5, MemberTasks(), Holders({"active": {}}), MemberTasks())
    assert (moved.state, moved.epoch) == (StreamsMemberState.STABLE, 5)
