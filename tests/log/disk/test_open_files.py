"""The limit of open descriptors: files are closed in between without any effect on operations."""

import os
import resource
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.descriptors import by_itself, end_after_free
from tests.log.helpers import append, fill, open_log, read_all
from trimaran.log.disk.files import Files
from trimaran.log.disk.named_file import NamedFile
from trimaran.log.disk.open_files import OpenFiles, open_files_max


@pytest.mark.parametrize(
    ("descriptors", "expected"),
    [
        *((0, 32), (100, 32), (288, 32), (289, 33), (1023, 767), (1024, 768), (1028, 771)),
        *((20_000, 15_000), (159_996, 119_997), (160_000, 120_000), (160_004, 120_000)),
    ],
)
def test_file_limit_leaves_room_for_sockets(monkeypatch, descriptors, expected):
    assert open_files_max(descriptors) == expected
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (descriptors, 10**9))
    bound = OpenFiles()
    assert bound.limit == expected
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (7, 7))
    assert bound.limit == expected


@pytest.mark.parametrize("count", [1, 10])
def test_files_in_use_stay_open(tmp_path, count):
    files = Files(OpenFiles(limit=count))
    named = [NamedFile(tmp_path / str(i), files) for i in range(30)]
    for file in named:
        file.get(create=True)
        named[0].get()
    assert sum(file.is_open for file in named) == count
    assert named[0].is_open or count == 1


@given(uses=st.lists(st.integers(0, 9), max_size=60), limit=st.integers(1, 6))
def test_number_of_open_files_is_limited(tmp_path_factory, uses, limit):
    folder = tmp_path_factory.mktemp("open")
    files = Files(OpenFiles(limit=limit))
    named = [NamedFile(folder / str(i), files) for i in range(10)]
    for use in uses:
        file = named[use].get(create=True)
        assert file.path == folder / str(use)
        assert named[use].is_open, "the one that was asked for is not closed for itself"
        assert sum(file.is_open for file in named) <= limit


def test_logs_of_many_partitions_work_with_few_descriptors(tmp_path):
    files = Files(OpenFiles(limit=7))
    logs = [open_log(tmp_path / f"t-{i}", files=files) for i in range(20)]
    before = len(os.listdir("/proc/self/fd"))
    for turn in range(5):
        for log in logs:
            fill(log, 3 + turn)
    assert len(os.listdir("/proc/self/fd")) <= before + 7
    batches = [read_all(log) for log in logs]
    assert all(batches[0] == batch for batch in batches)
    for log in logs:
        log.truncate_to(20)
        append(log, 2)
        log.flush()
        log.close()
    again = [open_log(tmp_path / f"t-{i}", clean=True, files=files) for i in range(20)]
    assert {log.log_end_offset for log in again} == {logs[0].log_end_offset}
    assert all(read_all(log) == read_all(again[0]) for log in again)


def test_slice_survives_closing_of_its_file(tmp_path):
    files = Files(OpenFiles(limit=3))
    log = fill(open_log(tmp_path / "t-0", files=files), 5)
    piece = log.read(0, 10_000, upto_offset=log.log_end_offset, min_one=True)
    wanted = piece.read()
    for i in range(1, 5):
        fill(open_log(tmp_path / f"t-{i}", files=files), 5)
    assert not log._segments.active._log_file.is_open
    for path in (tmp_path / "t-0").iterdir():
        path.unlink()
    assert piece.read() == wanted


@contextmanager
def few_descriptors(count):
    """Limits this process to `count` more descriptors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (end_after_free(count), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@by_itself
def test_descriptor_shortage_closes_files_and_keeps_disk_online(tmp_path):
    """Connections use the remaining descriptors. The disk has not failed, so the directory stays online."""
    files = Files(OpenFiles(limit=1000))
    logs = [open_log(tmp_path / f"t-{i}", files=files) for i in range(20)]
    with few_descriptors(12):
        for _ in range(3):
            for log in logs:
                fill(log, 3)
                log.flush()
    batches = [read_all(log) for log in logs]
    assert all(batches[0] == batch for batch in batches)


@by_itself
def test_shortage_without_closable_files_is_reported(tmp_path):
    path = tmp_path / "file"
    path.touch()
    with few_descriptors(0), pytest.raises(OSError, match="Too many open files"):
        Files(OpenFiles(limit=1000)).open(path)
