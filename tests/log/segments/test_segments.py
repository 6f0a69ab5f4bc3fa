"""A log's segments behave as a list: the segment of an offset, their sizes, and their remaining files."""

import os
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.log.helpers import batch_bytes, view_of
from trimaran.log.disk.files import Files
from trimaran.log.segments.segment import SEGMENT_SUFFIXES, Segment, file_name
from trimaran.log.segments.segments import OPEN_SEGMENTS_MAX, Segments, due


def made(directory, bases):
    segments = Segments(directory, [new(directory, bases[0])], Files())
    segments.active.create()
    for base in bases[1:]:
        grow(segments.active)
        segments.add(base, now_ms=0)
    return segments


def new(directory, base):
    return Segment(directory, base, Files(), size=0, created=True)


def grow(segment, value=b"v"):
    data = batch_bytes(1, base_offset=segment.next_offset, value=value)
    segment.append(memoryview(data), [view_of(data)], 0)


def logs_in(directory):
    return sorted(int(path.stem) for path in directory.glob("*.log"))


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "grow", "drop_first", "drop_last", "replace", "replace_active"]),
        st.integers(1, 3),
        st.integers(0, 4),
    ),
    max_size=10,
)


@given(STEPS)
def test_segments_equal_the_twins_after_each_step(tmp_path_factory, steps):
    directory = tmp_path_factory.mktemp("segments")
    segments, twin = made(directory, [0, 10]), [0, 10]
    for step, number, at in steps:
        match step:
            case "grow":
                for _ in range(number):
                    grow(segments.active, b"v" * at)
            case "add":
                segments.add(twin[-1] + 10 * number, now_ms=5)
                twin.append(twin[-1] + 10 * number)
                assert segments.active.opened_ms == 5
            case "drop_first" if number < len(twin):
                segments.drop_first(number)
                del twin[:number]
            case "drop_last" if len(twin) > 1:
                segments.drop_last()
                twin.pop()
            case "replace_active" if not segments.active.size:
                segments.replace_active(twin[-1] + number, now_ms=6)
                twin[-1] += number
            case "replace":
                old = segments.all[at : at + number]
                if old and segments.active not in old:
                    for kind, content in ((".log", b"c" * 7), (".index", b""), (".timeindex", b"")):
                        cleaned = directory / file_name(old[0].base_offset, f"{kind}.cleaned")
                        cleaned.write_bytes(content)
                    assert segments.replace(old, 7)
                    del twin[at + 1 : at + len(old)]
        assert segments.bases == twin == [segment.base_offset for segment in segments.all]
        assert len(segments) == len(twin)
        assert segments.active is segments.all[-1]
        assert segments.size_bytes == sum(segment.size for segment in segments.all)
        assert logs_in(directory) == twin
        for offset in (0, twin[0], twin[-1] - 1, twin[-1], twin[-1] + 100):
            first = max((n for n, base in enumerate(twin) if base <= offset), default=0)
            assert list(segments.since(offset)) == segments.all[first:]
    removed = list(segments.deleted_files)
    assert all(path.exists() and path.name.endswith(".deleted") for path in removed)
    segments.purge()
    assert not any(path.exists() for path in removed)
    assert segments.deleted_files == {}


def test_segments_that_changed_meanwhile_are_not_replaced(tmp_path):
    segments = made(tmp_path, [5, 10, 20, 30])
    before, stranger = list(segments.all), new(tmp_path, 0)
    for old in (
        before[2:],  # includes the active segment
        [before[0], before[2]],
        [stranger, before[0]],
        [before[1], stranger],
        [new(tmp_path, 10)],
    ):
        assert not segments.replace(old, 1)
        assert segments.all == before
        assert not segments.deleted_files


def test_segment_is_held_until_removed_or_replaced(tmp_path):
    segments = made(tmp_path, [5, 10, 20])
    first, second, _ = segments.all
    assert segments.holds(first)
    assert not segments.holds(new(tmp_path, 0))
    assert not segments.holds(new(tmp_path, 10))
    segments.drop_first(1)
    assert not segments.holds(first)
    assert first.removed
    assert segments.holds(second)
    assert not second.removed


def test_removed_files_go_log_first_unlinked_after_delay(tmp_path):
    segments = made(tmp_path, [0, 10])
    (tmp_path / file_name(0, ".txnindex")).write_bytes(b"")
    segments.drop_first(1)
    names = [path.name for path in segments.deleted_files]
    order = [
        ".log",
        *(segment_suffix for segment_suffix in SEGMENT_SUFFIXES if segment_suffix != ".log"),
    ]
    assert names == [file_name(0, suffix) + ".deleted" for suffix in order]
    for now_ms, left in ((1000, 4), (1099, 4), (1100, 0)):
        segments.purge(now_ms, 100)
        assert len(segments.deleted_files) == left
        assert len(list(tmp_path.glob("*.deleted"))) == left


def test_newly_seen_file_waits_whole_delay():
    deleted = {"a": None, "b": 950}
    assert due(deleted, None, 100) == ["a", "b"]
    assert due(deleted, 1050, 100) == ["b"]
    assert deleted == {"a": 1050, "b": 950}


@pytest.mark.parametrize("used_again", [0, 3])
def test_least_recently_read_old_segments_are_closed(tmp_path, used_again):
    segments = made(tmp_path, list(range(0, 10 * (OPEN_SEGMENTS_MAX + 3), 10)))
    closed = []
    for segment in segments.all:
        segment.release = lambda closed_segment=segment: closed.append(closed_segment.base_offset)
    segments._recently_read.clear()
    first = segments.all[: OPEN_SEGMENTS_MAX + 1]
    for segment in first[:-1]:
        segments.use(segment)
    segments.use(first[used_again])
    assert closed == []
    segments.use(first[-1])
    assert closed == [10 if used_again == 0 else 0]


def test_removed_segment_leaves_recently_read_list(tmp_path):
    segments = made(tmp_path, [0, 10, 20])
    segments.use(segments.all[1])
    gone = segments.all[:2]
    segments.drop_first(2)
    assert not {batch.base_offset for batch in gone} & {
        batch.base_offset for batch in segments._recently_read
    }
    segments.add(40, now_ms=0)
    segments.drop_last()
    assert segments.active not in segments._recently_read  # the segment is written to again


def test_leftovers_in_files_of_new_segment_are_emptied(tmp_path):
    (tmp_path / file_name(10, ".log")).write_bytes(b"left over")
    segments = made(tmp_path, [0, 10])
    assert (tmp_path / file_name(10, ".log")).read_bytes() == b""
    assert segments.active.size == 0


def test_absence_of_aborts_needs_all_segments_loaded(tmp_path):
    segments = made(tmp_path, [0, 10, 20])
    assert not segments.has_no_aborts(0)
    for segment in segments.all[1:]:
        assert not segment.transaction_index.exists
    assert not segments.has_no_aborts(0)
    assert segments.has_no_aborts(10)


def test_released_segment_holds_no_open_file(tmp_path):
    segments = made(tmp_path, [0, 10])
    first = segments.all[0]
    first.seal()

    def opened():
        links = []
        for number in os.listdir("/proc/self/fd"):
            with suppress(FileNotFoundError):  # another thread has closed it
                links.append(os.readlink(f"/proc/self/fd/{number}"))
        return sorted(Path(link).suffix for link in links if link.startswith(str(first.path(""))))

    assert opened() == [".index", ".log", ".timeindex"]
    first.release()
    assert opened() == []
