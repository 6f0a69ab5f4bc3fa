"""Refused znodes are held back with all that depend on them, and are retried as often as is cheap."""

import pytest

from tests.checks import check_each
from trimaran.zkcompat.comparing import quarantine as held_back
from trimaran.zkcompat.comparing.quarantine import (
    ENTRIES_MAX,
    RETRY_SECONDS_MIN,
    WAITING_MAX,
    HeldBack,
    Quarantine,
)
from trimaran.zkcompat.tree.operations import OperationKind, TreeOperation


def operation(kind, path, **members):
    return TreeOperation(kind, path, "Name", "sentence", **members)


def test_refusals_are_retried_as_often_as_cheap():
    now = 0.0
    quarantine = Quarantine(lambda: now)
    wanted = operation(OperationKind.SET, "/a/b")
    waits = []
    for cpu_seconds in (0.001, 0.01, 0.05, 0.3, 5.0, 0.002, 0.0):
        quarantine.refused(wanted, "NoAuth")
        quarantine.tried(cpu_seconds)
        assert quarantine.holds(wanted)
        waits.append(quarantine.next_due() - now)
        assert quarantine.take_due() == []
        now = quarantine.next_due()
        assert [entry.path for entry in quarantine.take_due()] == ["/a/b"]
        assert not quarantine.holds(wanted)
    assert waits == pytest.approx([1, 1, 5, 30, 60, 1, 1])
    quarantine.settled(["/a/b"])
    assert len(quarantine) == 0
    assert quarantine.next_due() == float("inf")


def test_all_refused_operations_are_retried_together():
    """Otherwise thousands of them, each at its own time, would be thousands of retries a second."""
    now = 0.0
    quarantine = Quarantine(lambda: now)
    for number in range(100):
        quarantine.add(f"/a/{number}", "set", "NoAuth")
        now += 0.009
    now = quarantine.next_due()
    assert now == 1.0
    assert len(quarantine.take_due()) == 100
    assert quarantine.take_due() == []


def test_permission_to_create_is_that_of_parent():
    quarantine = Quarantine(lambda: 0.0)
    quarantine.refused(operation(OperationKind.CREATE, "/a/b"), "NoAuth")
    assert quarantine.holds(operation(OperationKind.CREATE, "/a/c"))
    assert quarantine.holds(operation(OperationKind.DELETE, "/a/c"))
    assert not quarantine.holds(operation(OperationKind.SET, "/a/c"))
    assert not quarantine.holds(operation(OperationKind.CREATE, "/b/c"))
    quarantine.succeeded([operation(OperationKind.CREATE, "/a/d")])
    assert len(quarantine) == 0


def test_dependents_of_omitted_operations_are_omitted():
    held = HeldBack()
    held.add(operation(OperationKind.CREATE, "/t/a"))
    held.add(operation(OperationKind.DELETE, "/t/b/partitions/0"))
    assert held.touches(operation(OperationKind.CREATE, "/t/a/partitions/0"))
    assert held.touches(operation(OperationKind.SET, "/t/a"))
    assert held.touches(operation(OperationKind.DELETE, "/t/b"))
    assert not held.touches(operation(OperationKind.DELETE, "/t/c"))
    assert not held.touches(operation(OperationKind.SET, "/t/b"))


def test_notes_name_no_omitted_entities():
    held = HeldBack()
    held.add(operation(OperationKind.SET, "/config/topics/a"))
    prefix = "/config/changes/config_change_"
    assert held.touches(
        operation(OperationKind.CREATE, prefix, sequential=True, about="/config/topics/a")
    )
    assert not held.touches(
        operation(OperationKind.CREATE, prefix, sequential=True, about="/config/topics/b")
    )
    assert not held.touches(operation(OperationKind.SET, "/config/topics/b"))


SET, CREATE, DELETE = OperationKind.SET, OperationKind.CREATE, OperationKind.DELETE
NOTE = {"sequential": True}
# The refused operation and the reason; its entry; operations that it holds back, and operations that it does not.
REFUSED = [
    (
        operation(SET, "/a/b"),
        "NoAuth",
        ("/a/b", "set"),
        [operation(SET, "/a/b")],
        [operation(DELETE, "/a/b"), operation(CREATE, "/a/b"), operation(SET, "/a")],
    ),
    (
        operation(CREATE, "/a/b"),
        "NoAuth",
        ("/a", "children"),
        [operation(CREATE, "/a/b"), operation(CREATE, "/a/c"), operation(DELETE, "/a/c")],
        [operation(SET, "/a/b"), operation(CREATE, "/b"), operation(CREATE, "/a/b/c")],
    ),
    (
        operation(DELETE, "/a/b"),
        "NoAuth",
        ("/a", "children"),
        [operation(DELETE, "/a/b"), operation(CREATE, "/a/n_", **NOTE)],
        [operation(SET, "/a"), operation(DELETE, "/a")],
    ),
    (
        operation(CREATE, "/a/b"),
        "too large",
        ("/a/b", "create"),
        [operation(CREATE, "/a/b")],
        [operation(CREATE, "/a/c"), operation(DELETE, "/a/b"), operation(CREATE, "/a/b/c")],
    ),
    (
        operation(DELETE, "/a/b"),
        "NotEmpty",
        ("/a/b", "delete"),
        [operation(DELETE, "/a/b")],
        [operation(DELETE, "/a/c"), operation(CREATE, "/a/b")],
    ),
    (
        operation(CREATE, "/a/n_", **NOTE),
        "NoNode",
        ("/a", "create"),
        [operation(CREATE, "/a/n_", **NOTE), operation(CREATE, "/a")],
        [operation(CREATE, "/a/b"), operation(CREATE, "/b/n_", **NOTE)],
    ),
    (
        operation(CREATE, "/a"),
        "NoAuth",
        ("/", "children"),
        [operation(CREATE, "/b"), operation(DELETE, "/a")],
        [operation(CREATE, "/a/b")],
    ),
]


def test_refusal_holds_back_operations_with_same_fate():
    def is_so(row):
        refused, reason, entry, held, free = row
        quarantine = Quarantine(lambda: 0.0)
        found = quarantine.refused(refused, reason)
        assert (found.path, found.action, found.reason) == (*entry, reason)
        assert list(quarantine) == [found]
        assert all(map(quarantine.holds, held))
        assert not any(map(quarantine.holds, free))
        assert quarantine.is_shut(found.path) is (found.action == "create")
        (due,) = taken_later(quarantine)
        assert due is found
        assert not any(map(quarantine.holds, held))
        assert not quarantine.is_shut(found.path)

    check_each(REFUSED, is_so)


def taken_later(quarantine):
    quarantine.now = lambda: RETRY_SECONDS_MIN
    return quarantine.take_due()


def test_nothing_is_held_back_without_refusals():
    quarantine = Quarantine(lambda: 0.0)
    assert not quarantine.holds(operation(SET, "/a"))
    assert not quarantine.is_shut("/a")
    assert quarantine.next_due() == float("inf")
    assert quarantine.take_due() == []
    quarantine.settled(["/a"])
    quarantine.succeeded([operation(SET, "/a")])
    quarantine.tried(1.0)
    assert quarantine.next_due() == float("inf")


def test_attempts_are_counted_once_per_retry():
    now = 0.0
    quarantine = Quarantine(lambda: now)
    first = quarantine.add("/a", "set", "NoAuth")
    assert quarantine.add("/a", "set", "NoAuth") is first
    assert first.attempts == 1
    assert quarantine.add("/a", "read", "NoAuth").attempts == 2
    now = 1.0
    quarantine.take_due()
    again = quarantine.add("/a", "read", "NoAuth")
    assert (again.attempts, again.retries) == (3, False)
    assert len(quarantine) == 1


SUCCEEDED = [
    (operation(SET, "/a/b"), {"/a", "/x"}),
    (operation(CREATE, "/a/c"), {"/a/b", "/x"}),
    (operation(DELETE, "/a/c"), {"/a/b", "/x"}),
    (operation(CREATE, "/x/y"), {"/a", "/a/b", "/x"}),
    (operation(SET, "/a/c"), {"/a", "/a/b", "/x"}),
    (operation(SET, "/x"), {"/a", "/a/b"}),
]


def test_success_ends_a_refusal():
    def is_so(row):
        one, left = row
        quarantine = Quarantine(lambda: 0.0)
        quarantine.add("/a", "children", "NoAuth")
        quarantine.add("/a/b", "set", "NoAuth")
        quarantine.add("/x", "set", "NoAuth")
        quarantine.succeeded([one])
        assert {entry.path for entry in quarantine} == left

    check_each(SUCCEEDED, is_so)


def test_retried_path_without_new_refusal_is_settled():
    now = 0.0
    quarantine = Quarantine(lambda: now)
    for path in ("/a", "/b", "/c"):
        quarantine.add(path, "set", "NoAuth")
    quarantine.settled(["/a"])
    assert len(quarantine) == 3  # nothing was retried yet
    now = 1.0
    quarantine.take_due()
    quarantine.add("/b", "set", "NoAuth")
    quarantine.settled(["/a", "/b", "/none"])
    assert {entry.path for entry in quarantine} == {"/b", "/c"}


def test_paths_waiting_for_parent_are_bounded_without_notes():
    quarantine = Quarantine(lambda: 0.0)
    entry = quarantine.refused(operation(CREATE, "/a/0"), "NoAuth")
    assert quarantine.holds(operation(CREATE, "/a/n_", **NOTE))
    assert entry.waiting == {"/a/0"}
    for number in range(WAITING_MAX + 5):
        assert quarantine.holds(operation(CREATE, f"/a/{number}"))
    assert entry.waiting == {f"/a/{number}" for number in range(WAITING_MAX)}


def test_refusals_are_bounded_and_known_ones_stay(monkeypatch):
    assert ENTRIES_MAX == 10_000
    monkeypatch.setattr(held_back, "ENTRIES_MAX", 2)
    quarantine = Quarantine(lambda: 0.0)
    for path in ("/a", "/b", "/c"):
        assert quarantine.add(path, "set", "NoAuth").path == path
    assert [entry.path for entry in quarantine] == ["/a", "/b"]
    quarantine.add("/b", "read", "NoAuth")
    assert [entry.action for entry in quarantine] == ["set", "read"]


@pytest.mark.parametrize(
    ("action", "told"),
    [
        ("create", "be created"),
        ("set", "be written"),
        ("delete", "be deleted"),
        ("children", "have its children created or deleted"),
        ("read", "be read"),
    ],
)
def test_refusal_names_the_forbidden_operation(action, told):
    entry = Quarantine(lambda: 0.0).add("/a/b", action, "NoAuth")
    assert entry.sentence() == f"/a/b may not {told} (NoAuth)"


TOUCHED = [
    ([operation(CREATE, "/t/a")], operation(CREATE, "/t/a/b/c"), True),
    ([operation(CREATE, "/t/a")], operation(DELETE, "/t/a"), True),
    ([operation(CREATE, "/t/a")], operation(CREATE, "/t/ab"), False),
    ([operation(CREATE, "/t/a")], operation(CREATE, "/t"), False),
    ([operation(CREATE, "/t/n_", **NOTE)], operation(CREATE, "/t/n_/x"), False),
    ([operation(DELETE, "/t/a/b")], operation(DELETE, "/t"), True),
    ([operation(DELETE, "/t/a/b")], operation(DELETE, "/t/a/b/c"), False),
    ([operation(DELETE, "/t/a/b")], operation(CREATE, "/t/a"), False),
    ([operation(SET, "/t/a")], operation(SET, "/t/a/b"), False),
    ([operation(SET, "/t/a")], operation(CREATE, "/n_", **NOTE, about="/t/a"), True),
    ([operation(DELETE, "/t/a")], operation(CREATE, "/n_", **NOTE, about="/t/a"), True),
    ([operation(SET, "/t/a")], operation(CREATE, "/n_", **NOTE, about="/t"), False),
    ([], operation(SET, "/t"), False),
]


def test_pass_omits_operations_that_need_omitted_ones():
    def is_so(row):
        left_out, one, expected = row
        held = HeldBack()
        for each in left_out:
            held.add(each)
        assert held.touches(one) is expected, row

    check_each(TOUCHED, is_so)
