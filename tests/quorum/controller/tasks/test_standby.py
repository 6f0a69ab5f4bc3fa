"""A standby controller keeps the index of the committed image ready."""

import itertools

import pytest
import trio
import trio.testing

from tests.quorum.metadata.build import change, partition, topic
from trimaran.quorum.controller.partitions.index import PartitionIndex
from trimaran.quorum.controller.tasks import standby as module
from trimaran.quorum.controller.tasks.standby import POLL_SECONDS, StandbyIndex
from trimaran.quorum.metadata.delta import MetadataDelta
from trimaran.quorum.metadata.image import Provenance
from trimaran.quorum.metadata.loader import MetadataLoader
from trimaran.quorum.raft.listener import CommittedBatch

PARTITIONS = 10


class Committed:
    """A loader that receives one batch after another."""

    def __init__(self):
        self.loader = MetadataLoader()
        self._offsets = itertools.count()

    def add(self, *records):
        offset = next(self._offsets)
        batch = CommittedBatch(
            base_offset=offset,
            last_offset=offset,
            epoch=1,
            appended_at_ms=0,
            size_bytes=0,
            records=records,
        )
        self.loader.apply_committed(batch)

    def add_topic(self, number):
        new = [partition(number, index, [1, 2]) for index in range(PARTITIONS)]
        self.add(topic(f"t{number}", number), *new)

    @property
    def topics(self):
        return self.loader.image.topics


@pytest.fixture
def committed():
    found = Committed()
    found.add_topic(1)
    return found


@pytest.fixture(autouse=True)
def few_partitions_a_step(monkeypatch):
    monkeypatch.setattr(module, "PARTITIONS_PER_STEP", 3)


def check(index, topics):
    assert index.topics is topics
    assert index == PartitionIndex.of(topics)


async def test_running_standby_leaves_nothing_to_prepare(committed, autojump_clock):
    standby = StandbyIndex(committed.loader)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(standby.run)
        await trio.sleep(POLL_SECONDS / 2)
        committed.add_topic(2)
        await trio.sleep(POLL_SECONDS)
        with trio.testing.assert_no_checkpoints():
            index = await standby.acquire()
        check(index, committed.topics)
        nursery.cancel_scope.cancel()


async def test_changes_during_preparation_are_included(committed):
    standby = StandbyIndex(committed.loader)
    lent = []

    async def acquire():
        lent.append(await standby.acquire())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(standby.run)
        nursery.start_soon(acquire)
        for number in (2, 3, 4):
            await trio.lowlevel.checkpoint()
            assert not lent
            committed.add_topic(number)
        with trio.fail_after(5):
            while not lent:
                await trio.lowlevel.checkpoint()
        check(lent[0], committed.topics)
        nursery.cancel_scope.cancel()


async def test_standby_pauses_while_images_change_constantly(
    committed, monkeypatch, autojump_clock
):
    ways = []
    follow = PartitionIndex.follow
    monkeypatch.setattr(
        PartitionIndex, "follow", lambda index, topics: ways.append(topics) or follow(index, topics)
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(StandbyIndex(committed.loader).run)
        await trio.sleep(POLL_SECONDS)
        for number in range(2, 50):
            await trio.lowlevel.checkpoint()
            committed.add_topic(number)
        nursery.cancel_scope.cancel()
    assert len(ways) == 1


async def test_lent_index_belongs_to_the_borrower(committed, autojump_clock):
    standby = StandbyIndex(committed.loader)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(standby.run)
        index, before = await standby.acquire(), committed.topics
        committed.add_topic(2)
        await trio.sleep(POLL_SECONDS * 2)
        check(index, before)
        nursery.cancel_scope.cancel()


def of_an_epoch(index, image):
    """Returns the index of an epoch with uncommitted writes, built in several steps."""
    delta = MetadataDelta(image)
    delta.replay(change(1, 0, leader=2))
    for number in range(PARTITIONS, PARTITIONS + 3):  # never committed
        delta.replay(partition(1, number, [3]))
    return index.apply(delta.topics, delta.apply(Provenance(99, 1, 1)).topics)


@pytest.mark.parametrize("done", [0, 2, None])
async def test_index_returns_to_committed_state_after_epoch(committed, done):
    """This holds even if the epoch ended in the middle of a change."""
    standby = StandbyIndex(committed.loader)
    index = await standby.acquire()
    for _ in itertools.islice(of_an_epoch(index, committed.loader.image), done):
        pass
    committed.add(change(1, 1, leader=2))
    standby.release(index)
    check(await standby.acquire(), committed.topics)
