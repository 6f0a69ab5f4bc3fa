"""An index behaves as a list of entries, in whichever order it is appended, truncated, written and reopened."""

import errno
import os
from itertools import count

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.checks import check_each
from tests.log.faulty_files import FaultyFiles
from trimaran.log.disk.files import Files
from trimaran.log.segments.index import (
    PENDING_BYTES_MAX,
    IndexDamaged,
    OffsetIndex,
    TimeIndex,
    ascends,
    open_index,
)

MANY = PENDING_BYTES_MAX // OffsetIndex.layout.size


class Twin:
    """`shown` is the content of the index, `file` that of its file: None if it does not exist."""

    def __init__(self, layout):
        self.layout = layout
        self.shown = []
        self.file = None
        self.written = 0
        self.write_behind = False

    def append(self, entry):
        self.shown.append(entry)
        pending = len(self.shown) - self.written
        if pending * self.layout.size >= PENDING_BYTES_MAX and not self.write_behind:
            self.write()

    def write(self):
        self.file, self.written = list(self.shown), len(self.shown)

    def keep(self, entries):
        if entries < self.written:
            del self.shown[entries:]
            self.write()
        else:
            del self.shown[entries:]

    def set_aside(self, entries):
        if entries < self.written == len(self.shown):
            del self.shown[entries:]
            self.written = entries

    def clear(self):
        self.shown, self.written = [], 0

    def reopen(self):
        self.shown, self.written = list(self.file), len(self.file)
        self.write_behind = False


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.sampled_from([1, 3, MANY - 1, MANY])),
        st.tuples(st.sampled_from(["keep", "set_aside"]), st.integers(0, 70)),
        st.tuples(
            st.sampled_from(["write", "clear", "release", "reopen", "behind"]), st.just(None)
        ),
    ),
    max_size=12,
)


def check_equal(index, twin, path):
    assert index.entries == len(twin.shown)
    assert index.last == (twin.shown[-1] if twin.shown else None)
    assert [index.entry(slot) for slot in range(index.entries)] == twin.shown
    for key in {0, 1, *(entry[0] + more for entry in twin.shown[::5] for more in (-1, 0, 1))}:
        below = [entry for entry in twin.shown if entry[0] <= key]
        assert index.floor(key) == (below[-1] if below else None)
    stored = (
        None if twin.file is None else b"".join(twin.layout.pack(*entry) for entry in twin.file)
    )
    assert (path.read_bytes() if path.exists() else None) == stored


WITH_PENDING = [("append", 3), ("write", None), ("append", 3)]


@pytest.mark.parametrize("kind", [OffsetIndex, TimeIndex])
@given(steps=STEPS)
@example(steps=[*WITH_PENDING, ("keep", 4), ("append", 1), ("write", None)])
@example(steps=[*WITH_PENDING, ("set_aside", 1), ("append", 1), ("write", None)])
@example(steps=[*WITH_PENDING, ("write", None), ("set_aside", 9), ("append", 1), ("write", None)])
@example(steps=[*WITH_PENDING, ("write", None), ("set_aside", 2), ("append", 1), ("write", None)])
@example(steps=[("behind", None), ("append", MANY), ("append", 3), ("write", None)])
def test_index_matches_twin_list_after_each_step(tmp_path_factory, kind, steps):
    path = tmp_path_factory.getbasetemp() / "model.index"
    path.unlink(missing_ok=True)
    index, twin, numbers = kind(path, Files(), created=True), Twin(kind.layout), count(1)
    for step, argument in steps:
        match step:
            case "append":
                for _ in range(argument):
                    entry = (10 * (number := next(numbers)), 100 * number)
                    index.append(*entry)
                    twin.append(entry)
            case "keep":
                index.keep(argument)
                twin.keep(argument)
            case "set_aside":
                index.set_aside(argument)
                twin.set_aside(argument)
            case "write":
                index.write_pending()
                twin.write()
            case "clear":
                index.clear()
                twin.clear()
            case "release":
                index.release()
            case "behind":
                index.write_behind = twin.write_behind = True
            case "reopen" if twin.file is not None:
                index.release()
                index = kind(path, Files(), created=False)
                twin.reopen()
        check_equal(index, twin, path)
    index.release()


def test_new_index_ignores_leftover_of_its_name(tmp_path):
    path = tmp_path / "index"
    path.write_bytes(OffsetIndex.layout.pack(5, 50) * 3)
    index = OffsetIndex(path, Files(), created=True)
    assert index.entries == 0
    index.append(1, 10)
    index.write_pending()
    assert path.read_bytes() == OffsetIndex.layout.pack(1, 10)


def test_file_with_partial_entry_ends_before_it(tmp_path):
    path = tmp_path / "index"
    path.write_bytes(OffsetIndex.layout.pack(1, 10) + OffsetIndex.layout.pack(2, 20)[:7])
    assert OffsetIndex(path, Files(), created=False).entries == 1


@pytest.mark.parametrize("kind", [OffsetIndex, TimeIndex])
@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([], True),
        ([(0, 0)], True),
        ([(-1, 0)], False),
        ([(0, -1)], False),
        ([(0, 0), (1, 1)], True),
        ([(0, 0), (0, 1)], False),
        ([(0, 0), (1, 0)], False),
        ([(1, 1), (0, 2)], False),
        ([(0, 0), (2, 2), (1, 3), (4, 4)], False),
    ],
)
def test_entries_ascend_strictly_from_no_less_than_zero(kind, entries, expected):
    data = b"".join(kind.layout.pack(*entry) for entry in entries)
    assert ascends(data, kind.layout) is expected


def test_unreadable_index_is_not_taken_for_damage(tmp_path):
    path = tmp_path / "index"
    path.write_bytes(b"")
    files = FaultyFiles()
    files.fail_at("open", error=errno.EIO)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        open_index(path, files, lambda: files.open(path, write=False))
    assert path.exists()


def test_foreign_file_as_index_is_damage_kept_beside(tmp_path):
    path = tmp_path / "index"
    path.mkdir()
    with pytest.raises(IndexDamaged):
        _ = OffsetIndex(path, Files(), created=False).entries
    assert [path.name for path in tmp_path.iterdir()] == ["index.damaged"]


FIRST_CALLS = [
    (lambda index: index.entries, 3),
    (lambda index: index.last, (3, 30)),
    (lambda index: index.floor(2), (2, 20)),
    (lambda index: index.ceiling(3), 2),
    (lambda index: index.ceiling_entry(3), (3, 30)),
    (lambda index: (index.keep(2), index.last)[1], (2, 20)),
    (lambda index: (index.set_aside(1), index.last)[1], (1, 10)),
    (lambda index: (index.append(4, 40), index.entries)[1], 4),
]


@pytest.mark.parametrize("kind", [OffsetIndex, TimeIndex])
def test_any_first_query_reads_the_index_file(tmp_path, kind):
    path = tmp_path / "index"

    def is_so(row):
        ask, expected = row
        path.write_bytes(b"".join(kind.layout.pack(number, 10 * number) for number in (1, 2, 3)))
        assert ask(kind(path, Files(), created=False)) == expected

    check_each(FIRST_CALLS, is_so)
