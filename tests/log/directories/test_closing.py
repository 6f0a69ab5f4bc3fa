"""A clean shutdown: the time that checks may take, and the order in which logs become durable and are closed."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from trimaran.log.directories import closing
from trimaran.log.directories.closing import check_all, close_logs

DIRECTORY = Path("d")


@pytest.mark.parametrize(
    ("checked_at", "expected"),
    [([0, 4, 8.0], ["a", "b", "c"]), ([0, 8.0, 8.1], ["a", "b"]), ([8.1, 9, 9], [])],
)
def test_checks_end_after_eight_seconds(monkeypatch, caplog, checked_at, expected):
    times = iter([100, *(100 + time for time in checked_at)])
    monkeypatch.setattr(closing, "monotonic", lambda: next(times))
    checked = []
    is_complete = check_all(["a", "b", "c"], checked.append, DIRECTORY)
    assert (checked, is_complete) == (expected, len(expected) == 3)
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == (not is_complete)
    assert all(f"{3 - len(expected)}" in line and "d" in line for line in told)


class Rig:
    """Records the calls for logs of the given names; those in upper case were written."""

    def __init__(self, names):
        self.calls = []
        self.logs = [
            SimpleNamespace(
                must_close=name.isupper(),
                close_unsynced=lambda name=name: self.calls.append(f"close {name} unsynced"),
                note_synced=lambda name=name: self.calls.append(f"{name} is synced"),
                close=lambda clean, name=name: self.calls.append(f"close {name}, clean: {clean}"),
            )
            for name in names
        ]

    def sync_volume(self, path):
        self.calls.append(f"sync {path}")

    @contextmanager
    def guard(self, doing):
        self.calls.append(doing)
        yield

    def close(self, *, clean):
        close_logs(self.logs, DIRECTORY, self, self, clean=clean)
        return self.calls


@pytest.mark.parametrize("clean", [False, True])
def test_few_logs_are_closed_one_by_one(clean):
    rig = Rig(["A", "b", "C"])
    assert rig.close(clean=clean) == [f"close {name}, clean: {clean}" for name in "AbC"]


@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("written", [99, 100, 101])
def test_many_written_logs_are_synced_together(written, clean):
    names = ["b", *["A"] * written, "c"]
    closed = [f"close {name}, clean: {clean}" for name in names]
    together = [
        *["close A unsynced"] * written,
        "sync of d",
        "sync d",
        *["A is synced"] * written,
    ]
    expected = together + closed if clean and written >= 100 else closed
    assert Rig(names).close(clean=clean) == expected
