"""The kernel's asynchronous fdatasync, with real files. Where it is forbidden, threads sync, and these are left out."""

import os
import select

import pytest

from node.runtime.linux_aio import Fdatasyncs

UNDER_WAY = 256


@pytest.fixture(scope="module")
def syncs():
    try:
        return Fdatasyncs()
    except OSError as error:
        pytest.skip(f"this machine has no asynchronous fdatasync: {error}")


@pytest.fixture
def files(tmp_path):
    opened = [os.open(tmp_path / str(i), os.O_CREAT | os.O_RDWR, 0o600) for i in range(3)]
    for one in opened:
        os.write(one, b"record")
    yield opened
    for one in opened:
        os.close(one)


def completed(syncs, count):
    found = []
    while len(found) < count:
        assert select.select([syncs.eventfd], [], [], 10)[0], f"only {found}"
        found += syncs.completed()
    return found


def test_every_file_completes_with_the_tag_of_its_batch(syncs, files):
    (first, _), (second, _) = taken = [syncs.submit(files), syncs.submit(files[:1])]
    assert [count for _, count in taken] == [3, 1]
    assert first != second
    assert sorted(completed(syncs, 4)) == sorted([(first, 0)] * 3 + [(second, 0)])
    assert syncs.completed() == []


def test_a_file_may_be_closed_meanwhile(syncs, tmp_path):
    file = os.open(tmp_path / "file", os.O_CREAT | os.O_RDWR, 0o600)
    os.write(file, b"record")
    tag, _ = syncs.submit([file])
    os.close(file)
    assert completed(syncs, 1) == [(tag, 0)]


def test_what_cannot_be_synced_is_not_taken(syncs, files):
    reading, writing = os.pipe()
    assert syncs.submit([reading])[1] == 0
    assert syncs.submit([1 << 20])[1] == 0
    tag, taken = syncs.submit([files[0], reading, files[1]])
    assert taken == 1
    assert completed(syncs, 1) == [(tag, 0)]
    os.close(reading)
    os.close(writing)


def test_no_more_are_under_way_than_can_be_read_at_once(syncs, files):
    for _ in range(3):
        some, taken = syncs.submit(files[:1] * (UNDER_WAY - 1))
        assert taken == UNDER_WAY - 1
        assert syncs.submit(files[:2])[1] == 0
        last, taken = syncs.submit(files[:1])
        assert taken == 1
        found = completed(syncs, UNDER_WAY)
        assert sorted(found) == sorted([(some, 0)] * (UNDER_WAY - 1) + [(last, 0)])
    assert syncs.submit(files[:1] * (UNDER_WAY + 1))[1] == 0
