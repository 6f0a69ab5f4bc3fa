"""Each log is passed to the group commit of its own directory."""

from types import SimpleNamespace

import pytest

from trimaran.log.durability.group_commit import UNFLUSHED_BYTES_MAX, Durability


class Recorded:
    """A group commit that notes its calls."""

    def __init__(self):
        self.asked = []
        self.unflushed_bytes = 0

    def mark_dirty(self, log, on_flushed, written, *, is_awaited):
        self.asked.append(("mark_dirty", log, on_flushed, written, is_awaited))

    def __getattr__(self, name):
        return lambda *arguments: self.asked.append((name, *arguments))


@pytest.fixture
def commits():
    return {"a": Recorded(), "b": Recorded()}


def log_of(directory):
    return SimpleNamespace(health=directory, flushed_offset=3, log_end_offset=7)


@pytest.mark.parametrize(("fsync", "end"), [(True, 3), (False, 7)])
def test_durable_end_depends_on_fsync_setting(commits, fsync, end):
    assert Durability(commits, fsync=fsync).durable_end(log_of("a")) == end


def test_calls_go_to_directory_of_log(commits):
    durability, log = Durability(commits, fsync=True), log_of("b")
    durability.mark_dirty(log, print)
    durability.mark_dirty(log, print, 5, is_awaited=False)
    durability.flush_soon(log)
    durability.forget(log)
    assert durability.of(log) is commits["b"]
    assert commits["a"].asked == []
    assert commits["b"].asked == [
        ("mark_dirty", log, print, 0, True),
        ("mark_dirty", log, print, 5, False),
        ("flush_soon", log),
        ("forget", log),
    ]


@pytest.mark.parametrize(
    ("unflushed", "is_behind"),
    [(0, False), (1 << 20, False), ((1 << 20) + 1, True)],
)
def test_directory_lags_above_one_mebibyte(commits, unflushed, is_behind):
    assert UNFLUSHED_BYTES_MAX == 1 << 20
    commits["b"].unflushed_bytes = unflushed
    durability = Durability(commits, fsync=True)
    assert durability.is_behind(log_of("b")) == is_behind
    assert not durability.is_behind(log_of("a"))
