"""The sticky assignor: the assignments of Kafka 4.4, a table, and the properties of any assignment.

`testdata/sticky.jsonl` has random groups, and the result of Kafka's `StickyTaskAssignor`.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimaran.broker.groups.heartbeating.work import done
from trimaran.broker.groups.streams import assignor
from trimaran.broker.groups.streams.assignor import AssignedSubtopology, TaskMember, assign
from trimaran.broker.groups.streams.tasks import MemberTasks, Task, each

CASES = [
    json.loads(line)
    for line in (Path(__file__).parent / "testdata" / "sticky.jsonl").read_text().splitlines()
]


def sets(tasks):
    return {subtopology: frozenset(mine) for subtopology, mine in tasks.items()}


def member(name, process="", active=(), standby=(), offsets=()):
    """Returns a member with tasks of subtopology 0."""
    return TaskMember(
        name,
        process or name,
        {"0": frozenset(active)} if active else {},
        {"0": frozenset(standby)} if standby else {},
        {"0": dict(offsets)} if offsets else {},
    )


def tasks_of(members, count, standbys=0):
    """Returns the active and standby tasks of subtopology 0 by member."""
    found = done(assign(members, [AssignedSubtopology("0", count, standbys > 0)], standbys))
    return {
        name: (sorted(tasks.active.get("0", ())), sorted(tasks.standby.get("0", ())))
        for name, tasks in found.items()
    }


@pytest.mark.parametrize("with_offset", ["a", "b"])
def test_standby_without_offset_counts_from_zero(with_offset):
    members = [
        member(name, standby=[0], offsets={0: 1} if name == with_offset else {}) for name in "ab"
    ]
    assert tasks_of(members, 1)[with_offset] == ([0], [])


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_assignment_is_that_of_kafka(case):
    members = [
        TaskMember(
            name,
            process,
            sets(active),
            sets(standby),
            {one: {int(p): offset for p, offset in mine.items()} for one, mine in offsets.items()},
        )
        for name, process, active, standby, offsets in case["members"]
    ]
    subtopologies = [AssignedSubtopology(*one) for one in case["subtopologies"]]
    expected = {
        name: MemberTasks(sets(active), sets(standby))
        for name, (active, standby) in case["result"].items()
    }
    assert done(assign(members, subtopologies, case["standbys"])) == expected


@pytest.mark.parametrize(
    ("members", "count", "standbys", "expected"),
    [
        pytest.param([member("a")], 3, 0, {"a": ([0, 1, 2], [])}, id="alone"),
        pytest.param([member("a")], 3, 1, {"a": ([0, 1, 2], [])}, id="no second process"),
        pytest.param(
            [member("a", active=[0, 1]), member("b")],
            2,
            0,
            {"a": ([0], []), "b": ([1], [])},
            id="the new member takes one",
        ),
        pytest.param(
            [member("a", active=[1]), member("b", active=[0])],
            2,
            0,
            {"a": ([1], []), "b": ([0], [])},
            id="nothing moves",
        ),
        pytest.param(
            [member("a"), member("b", standby=[0])],
            1,
            1,
            {"a": ([], [0]), "b": ([0], [])},
            id="the standby is promoted",
        ),
        pytest.param(
            [member("a", offsets=[(0, 5)]), member("b", offsets=[(0, 6)])],
            1,
            0,
            {"a": ([], []), "b": ([0], [])},
            id="the furthest is promoted",
        ),
        pytest.param(
            [member("a", "p"), member("b", "p"), member("c", "q")],
            2,
            1,
            {"a": ([0], []), "b": ([], [1]), "c": ([1], [0])},
            id="standbys are in other processes",
        ),
        pytest.param(
            [member("a", active=range(6)), member("b"), member("c")],
            6,
            1,
            {"a": ([0, 1], [4, 5]), "b": ([2, 4], [1, 3]), "c": ([3, 5], [0, 2])},
            id="given up tasks stay as standbys within the quota",
        ),
    ],
)
def test_small_group_has_expected_assignment(members, count, standbys, expected):
    assert tasks_of(members, count, standbys) == expected


@st.composite
def groups(draw):
    counts = draw(st.lists(st.integers(1, 12), min_size=1, max_size=3))
    subtopologies = [
        AssignedSubtopology(str(one), count, draw(st.booleans()))
        for one, count in enumerate(counts)
    ]
    every = [Task(one.id, number) for one in subtopologies for number in range(one.task_count)]
    size = draw(st.integers(1, 8))
    owners = [draw(st.integers(-1, size - 1)) for _ in every]
    members = []
    for number in range(size):
        active = {}
        for task, owner in zip(every, owners, strict=True):
            if owner == number:
                active.setdefault(task.subtopology, set()).add(task.partition)
        members.append(TaskMember(f"m{number}", f"p{draw(st.integers(0, size - 1))}", sets(active)))
    return members, subtopologies, draw(st.integers(0, 3))


@given(groups())
def test_any_assignment_is_complete_and_balanced(group):
    members, subtopologies, standbys = group
    found = done(assign(members, subtopologies, standbys))
    every = [Task(one.id, number) for one in subtopologies for number in range(one.task_count)]
    active = [task for tasks in found.values() for task in each(tasks.active)]
    assert sorted(active) == sorted(every)
    process_of = {one.id: one.process_id for one in members}
    holders = {}
    for name, tasks in found.items():
        for task in (*each(tasks.active), *each(tasks.standby)):
            holders.setdefault(task, []).append(process_of[name])
    stateful = {one.id for one in subtopologies if one.is_stateful}
    processes = len(set(process_of.values()))
    for task, found_in in holders.items():
        assert len(set(found_in)) == len(found_in)  # once in each process
        wanted = 1 + (standbys if task.subtopology in stateful else 0)
        assert len(found_in) == min(wanted, processes)
    if processes == len(members):
        counts = [sum(map(len, tasks.active.values())) for tasks in found.values()]
        assert max(counts) - min(counts) <= 1


@given(groups())
def test_balanced_assignment_is_not_changed(group):
    members, subtopologies, _ = group
    first = done(assign(members, subtopologies, 0))
    again = [TaskMember(one.id, one.process_id, first[one.id].active) for one in members]
    counts = [sum(map(len, tasks.active.values())) for tasks in first.values()]
    if max(counts) - min(counts) <= 1:
        assert done(assign(again, subtopologies, 0)) == first


def test_long_assignment_is_computed_in_pieces():
    assert (pauses([member("a")], 499), pauses([member("a")], 500)) == (1, 6)


def pauses(members, count, standbys=0):
    """Returns the number of pauses for tasks of subtopology 0."""
    return len(list(assign(members, [AssignedSubtopology("0", count, standbys > 0)], standbys)))


@pytest.mark.parametrize("count", range(1, 8))
def test_pauses_come_with_each_piece_of_tasks(monkeypatch, count):
    monkeypatch.setattr(assignor, "PIECE", 3)
    pieces, half = count // 3, [count // 2, count - count // 2]
    # Tasks are listed, kept, promoted, given out, and grouped.
    assert pauses([member("a")], count) == 1 + 5 * pieces
    assert pauses([member("a", active=range(count))], count) == 1 + 3 * pieces
    ahead = member("a", offsets=[(number, 1) for number in range(count)])
    assert pauses([ahead], count) == 1 + 4 * pieces
    # Standbys are listed, kept and given out, and grouped by member.
    grouped = 2 * sum(one // 3 for one in half)
    assert pauses([member("a"), member("b")], count, 1) == 1 + 4 * pieces + 3 * pieces + grouped


@pytest.mark.parametrize("count", range(1, 8))
def test_pauses_come_with_each_piece_of_members(monkeypatch, count):
    monkeypatch.setattr(assignor, "PIECE", 3)
    assert pauses([member(str(number)) for number in range(count)], 0) == 1 + count // 3
