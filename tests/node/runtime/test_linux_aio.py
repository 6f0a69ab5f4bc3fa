"""The kernel's asynchronous fdatasync, with real files. Where it is forbidden, threads sync, and these are left out."""

import os
import select

import pytest

from node.runtime.linux_aio import UNDER_WAY_MAX, Fdatasyncs


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
    first, second = syncs.submit(files), syncs.submit(files[:1])
    assert first != second
    assert sorted(completed(syncs, 4)) == sorted([(first, 0)] * 3 + [(second, 0)])
    assert syncs.completed() == []


def test_a_file_may_be_closed_meanwhile(syncs, tmp_path):
    file = os.open(tmp_path / "file", os.O_CREAT | os.O_RDWR, 0o600)
    os.write(file, b"record")
    tag = syncs.submit([file])
    os.close(file)
    assert completed(syncs, 1) == [(tag, 0)]


def test_what_cannot_be_synced_is_not_taken(syncs, files):
    reading, writing = os.pipe()
    assert syncs.submit([reading]) is None
    assert syncs.submit([1 << 20]) is None
    assert syncs.submit([files[0], reading]) is None
    [(_, error)] = completed(syncs, 1)  # of the one that was taken
    assert error == 0
    os.close(reading)
    os.close(writing)


def test_none_is_lost_where_more_are_under_way_than_are_read_at_once(syncs, files):
    tags = [syncs.submit(files[:1] * UNDER_WAY_MAX) for _ in range(2)]
    taken = [tag for tag in tags if tag is not None]
    assert taken
    found = completed(syncs, UNDER_WAY_MAX * len(taken))
    assert {tag for tag, _ in found} >= set(taken)
    assert syncs.submit(files[:1] * (UNDER_WAY_MAX + 1)) is None
    while select.select([syncs.eventfd], [], [], 0.1)[0]:
        syncs.completed()  # of a batch that was taken in part
