"""Notifications that are deleted or stay, by age and number: a tenure over a dictionary replaces ZooKeeper."""

from types import SimpleNamespace

import pytest
import trio

from trimaran.zkcompat.comparing.quarantine import Quarantine
from trimaran.zkcompat.mirroring import sweeper as sweeping
from trimaran.zkcompat.mirroring.sweeper import LIFETIME_MS, Sweeper
from trimaran.zkcompat.mirroring.tenure import StepRefusedError
from trimaran.zkcompat.sections.notes import NOTE_ROOTS
from trimaran.zkcompat.tree.operations import FoundZnode
from trimaran.zkcompat.zookeeper.errors import PathRefusedError

NOW = 10 * LIFETIME_MS
OLD, BORDER, YOUNG = NOW - LIFETIME_MS - 1, NOW - LIFETIME_MS, NOW


class Tree:
    """Notifications by name; `locked` ones cannot be deleted, `refused` ones cannot be read; in the roots of `shut`
    neither is possible.
    """

    def __init__(self, notes, locked=(), busy=(), refused=(), shut=False):
        self.notes = dict(notes)
        self.locked, self.busy, self.refused, self.shut = locked, busy, refused, shut
        self.reads = []
        self.transactions = []
        self.keeper = self

    async def children(self, root):
        if self.shut:
            raise PathRefusedError(root, "NoAuth")
        return list(self.notes)

    async def read_many(self, paths):
        self.reads.append(len(paths))
        found = {}
        for path in paths:
            name = path.rpartition("/")[2]
            refusal = "NoAuth" if name in self.refused else ""
            found[path] = FoundZnode(b"", created_ms=self.notes[name], refusal=refusal)
        return found

    async def transact(self, steps):
        names = [step.path.rpartition("/")[2] for step in steps]
        self.transactions.append(names)
        for index, (step, name) in enumerate(zip(steps, names, strict=True)):
            if name in self.locked:
                raise StepRefusedError(index, step, "NoAuth")
            if name in self.busy or name not in self.notes:
                raise StepRefusedError(index, step, "NotEmpty")
        for name in names:
            del self.notes[name]


@pytest.fixture
def sweep(monkeypatch):
    monkeypatch.setattr(sweeping, "now_ms", lambda: NOW)

    async def run(notes, **options):
        tree = Tree(notes, **options)
        quarantine = Quarantine(lambda: 0.0)
        await Sweeper(tree, quarantine).sweep("/root")
        return SimpleNamespace(
            left=sorted(tree.notes),
            reads=tree.reads,
            transactions=tree.transactions,
            held=[(entry.path, entry.action) for entry in quarantine],
        )

    return run


def note(number):
    return f"change_{number:010d}"


async def test_notes_older_than_fifteen_minutes_are_deleted(sweep):
    assert LIFETIME_MS == 900_000
    found = await sweep({note(1): OLD, note(2): BORDER, note(3): YOUNG})
    assert found.left == [note(2), note(3)]
    assert found.transactions == [[note(1)]]
    assert (await sweep({note(1): BORDER})).transactions == []
    assert (await sweep({})).reads == []


async def test_notes_after_young_one_are_not_read(sweep, monkeypatch):
    monkeypatch.setattr(sweeping, "IN_TRANSACTION", 2)
    ages = [OLD, OLD, OLD, YOUNG, OLD, OLD]
    found = await sweep({note(number): age for number, age in enumerate(ages)})
    assert found.reads == [2, 2]
    assert found.left == [note(3), note(4), note(5)]
    assert found.transactions == [[note(0), note(1)], [note(2)]]


async def test_young_first_note_ends_the_sweep(sweep, monkeypatch):
    monkeypatch.setattr(sweeping, "IN_TRANSACTION", 1)
    found = await sweep({note(0): YOUNG, note(1): OLD})
    assert found.left == [note(0), note(1)]


async def test_all_roots_are_swept_twice_a_minute(autojump_clock):
    sweeper, swept = Sweeper(Tree({}), Quarantine(lambda: 0.0)), []
    began = trio.current_time()

    async def children(root):
        swept.append((trio.current_time() - began, root))
        return []

    sweeper.tenure.children = children
    with trio.move_on_after(65):
        await sweeper.run()
    assert swept == [(at, root) for at in (0, 30, 60) for root in NOTE_ROOTS]


async def test_notes_are_ordered_by_number_alone(sweep, monkeypatch):
    monkeypatch.setattr(sweeping, "IN_TRANSACTION", 1)
    found = await sweep({"z_0000000001": OLD, "a_0000000002": YOUNG, "b_0000000003": OLD})
    assert found.left == ["a_0000000002", "b_0000000003"]


async def test_young_note_without_number_does_not_end_sweep(sweep, monkeypatch):
    monkeypatch.setattr(sweeping, "IN_TRANSACTION", 1)
    found = await sweep({"strange": YOUNG, note(1): OLD})
    assert found.left == ["strange"]


async def test_notes_beyond_limit_are_deleted_in_groups(sweep):
    found = await sweep({note(number): YOUNG for number in range(10_201)})
    assert found.left[0] == note(400)
    assert [len(names) for names in found.transactions] == [200, 200]
    assert found.reads == [200] * 3


async def test_oldest_notes_beyond_limit_are_deleted_early(sweep, monkeypatch):
    monkeypatch.setattr(sweeping, "IN_TRANSACTION", 2)
    monkeypatch.setattr(sweeping, "NOTES_MAX", 3)
    found = await sweep({note(number): YOUNG for number in range(6)})
    assert found.left == [note(4), note(5)]
    assert (await sweep({note(number): YOUNG for number in range(3)})).left == list(
        map(note, range(3))
    )


async def test_unreadable_note_is_neither_old_nor_young(sweep, monkeypatch):
    monkeypatch.setattr(sweeping, "IN_TRANSACTION", 1)
    found = await sweep({note(1): OLD, note(2): YOUNG, note(3): OLD}, refused=[note(1), note(2)])
    assert found.left == [note(1), note(2)]


async def test_undeletable_note_does_not_keep_others(sweep):
    found = await sweep({note(number): OLD for number in range(4)}, busy=[note(1)])
    assert found.left == [note(1)]
    assert len(found.transactions) == 2
    assert found.held == []


async def test_missing_permission_quarantines_the_root(sweep):
    found = await sweep({note(number): OLD for number in range(3)}, locked=[note(1)])
    assert found.left == [note(0), note(1), note(2)]
    assert (len(found.transactions), found.held) == (1, [("/root", "children")])
    found = await sweep({note(1): OLD}, shut=True)
    assert (found.reads, found.held) == ([], [("/root", "read")])
