"""The feed between the loader and the mirror: newest image, merged changes, a short history."""

import random
from collections import deque
from types import SimpleNamespace

import trio

from tests.zkcompat import build
from tests.zkcompat.build import CLUSTER_ID
from tests.zkcompat.model import apply_to, plan_changes, render
from tests.zkcompat.scenario import next_records
from tests.zkcompat.test_plan import SECTIONS, assert_same
from trimaran.node.runtime.latest import Latest
from trimaran.quorum.metadata.image import EMPTY
from trimaran.quorum.metadata.loader import MetadataLoader
from trimaran.quorum.metadata.records import image_to_records
from trimaran.quorum.raft.listener import CommittedBatch, LoadedSnapshot
from trimaran.zkcompat.quorum_feed import feed as feeding
from trimaran.zkcompat.quorum_feed.feed import HISTORY_MAX, SAMPLES_MAX, CommitTimes, ImageFeed
from trimaran.zkcompat.quorum_feed.observer import tell_caught_up, tell_leaders
from trimaran.zkcompat.tree.claim import QuorumLeader


def _batch(image, records, committed_ms=0):
    base = image.provenance.offset + 1
    return CommittedBatch(base, base + max(1, len(records)) - 1, 3, committed_ms, 100, records)


def test_snapshot_between_batches_is_planned_as_change():
    prng = random.Random(11)
    feed, shown, tree = ImageFeed(), EMPTY, render(EMPTY, CLUSTER_ID, SECTIONS)
    loader = MetadataLoader([feed])
    for number in range(60):
        if (
            number % 7 == 3
        ):  # the log was truncated behind us: the quorum's state, some changes later, arrives as a snapshot
            _, ahead = build.replay(feed.image, *next_records(feed.image, prng, 8))
            end = ahead.provenance.offset + 1
            loader.load_snapshot(LoadedSnapshot(end, 3, 0, list(image_to_records(ahead))))
        else:
            loader.apply_committed(_batch(feed.image, next_records(feed.image, prng, 3)))
        if prng.random() < 0.4:
            image, changes = feed.take()
            tree = apply_to(tree, plan_changes(shown, image, changes, SECTIONS))
            assert_same(tree, image)
            shown = image


def test_history_is_bounded_and_found_by_offset():
    feed = ImageFeed()
    loader = MetadataLoader([feed])
    for _ in range(HISTORY_MAX + 10):
        loader.apply_committed(_batch(feed.image, []))
    last = feed.image.provenance.offset
    assert feed.image_at(last) is feed.image
    assert feed.image_at(last - HISTORY_MAX + 1).provenance.offset == last - HISTORY_MAX + 1
    assert feed.image_at(last - HISTORY_MAX) is None


def test_few_commit_times_are_kept_for_days():
    """Even a lag of days is measured, in bounded memory."""
    times = CommitTimes()
    second, end = 500, 40 * SAMPLES_MAX
    for offset in range(end):
        times.add(offset, offset * second)
    assert len(times._offsets) <= SAMPLES_MAX
    for offset in (-1, 0, 7, end // 3, end - 200):
        late = times.first_after(offset) - (offset + 1) * second
        assert 0 <= late <= 4 * end * second / SAMPLES_MAX
    assert times.first_after(end) is None


def test_lag_is_known_beyond_the_history(monkeypatch):
    monkeypatch.setattr(feeding, "now_ms", lambda: 1000 * HISTORY_MAX)
    feed = ImageFeed()
    loader = MetadataLoader([feed])
    for number in range(2 * HISTORY_MAX):
        loader.apply_committed(_batch(feed.image, [], 500 * number))
    newest = feed.image.provenance.offset
    assert feed.lag_ms(newest) == 0
    assert feed.lag_ms(newest - 1) == 500
    assert feed.lag_ms(10) == 1000 * HISTORY_MAX - 11 * 500 - 500  # a second apart


async def test_waiters_hear_of_images_leaders_and_readiness(autojump_clock):
    feed = ImageFeed()
    loader = MetadataLoader([feed])
    heard = []

    async def listen(name, wanted):
        await feed.wait_for(wanted)
        heard.append(name)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(listen, "image", lambda f: f.image is not EMPTY)
        nursery.start_soon(listen, "leader", lambda f: f.leader == QuorumLeader(2, 5))
        nursery.start_soon(listen, "ready", lambda f: f.ready)
        await trio.testing.wait_all_tasks_blocked()
        loader.apply_committed(_batch(feed.image, []))
        await trio.testing.wait_all_tasks_blocked()
        feed.lead_by(QuorumLeader(2, 5))
        feed.lead_by(None)
        await trio.testing.wait_all_tasks_blocked()
        feed.caught_up()
    assert heard == ["image", "leader", "ready"]
    assert feed.leader == QuorumLeader(2, 5)


def test_lag_is_age_of_oldest_missing_batch(monkeypatch):
    feed = ImageFeed()
    loader = MetadataLoader([feed])
    assert feed.silent_seconds() == float("inf")
    monkeypatch.setattr(feeding, "now_ms", lambda: 9000)
    ends = []
    for committed_ms in (1000, 2000, 5000):
        loader.apply_committed(_batch(feed.image, [build.broker(1)], committed_ms))
        ends.append(feed.image.provenance.offset)
    assert [feed.lag_ms(end) for end in (-1, *ends)] == [8000, 7000, 4000, 0]
    monkeypatch.setattr(feeding, "now_ms", lambda: 10_500)
    assert feed.silent_seconds() == 1.5
    monkeypatch.setattr(feeding, "now_ms", lambda: 500)  # the clock was set back
    assert (feed.silent_seconds(), feed.lag_ms(-1)) == (0, 0)


def test_newest_image_up_to_offset_is_kept():
    feed = ImageFeed()
    loader = MetadataLoader([feed])
    loader.apply_committed(_batch(feed.image, []))
    first = feed.image
    feed.kept_until = first.provenance.offset + 1
    loader.apply_committed(_batch(feed.image, []))
    second = feed.image
    loader.apply_committed(_batch(feed.image, []))
    assert feed.kept is second
    assert feed.image is not second


def test_touched_names_are_returned_once():
    feed = ImageFeed()
    loader = MetadataLoader([feed])
    loader.apply_committed(_batch(feed.image, [build.broker(1)]))
    image, changes = feed.take()
    assert image is feed.image
    (brokers,) = [section for section in SECTIONS if section.label == "Broker"]
    assert list(changes.names(brokers, EMPTY, image)) == ["1"]
    assert list(feed.take()[1].names(brokers, image, image)) == []


def test_sparse_commit_times_are_kept_exactly():
    times = CommitTimes()
    for offset, committed_ms in enumerate((0, 999, 1000, 1999, 2000)):
        times.add(offset, committed_ms)
    assert [times.first_after(offset) for offset in range(-1, 5)] == [
        *(0, 1000, 1000, 2000, 2000, None)
    ]


def test_commit_times_are_thinned_after_an_hour():
    times = CommitTimes()
    for offset in range(3600):
        times.add(offset, 1000 * offset)
    assert (len(times._offsets), times._apart_ms) == (3600, 1000)
    times.add(3600, 3_600_000)
    assert times._offsets == list(range(0, 3601, 2))
    assert times._times_ms == list(range(0, 3_600_001, 2000))
    times.add(3601, 3_601_999)
    assert times._offsets[-1] == 3600
    times.add(3602, 3_602_000)
    assert (times._offsets[-1], times._times_ms[-1]) == (3602, 3_602_000)


def test_image_at_offset_ends_with_its_batch():
    feed = ImageFeed()
    loader = MetadataLoader([feed])
    images = []
    for _ in range(257):
        loader.apply_committed(_batch(feed.image, [build.broker(1), build.broker(2)]))
        images.append(feed.image)
    offsets = [image.provenance.offset for image in images]
    assert [feed.image_at(offset) for offset in offsets[-3:]] == images[-3:]
    assert feed.image_at(offsets[-1] - 1) is None
    assert feed.image_at(offsets[1]) is images[1]
    assert feed.image_at(offsets[0]) is None  # 256 are kept


def feed_of(*times_ms, kept=2):
    """Returns a feed with a batch at each time, and a history of the last two, and its offsets."""
    feed = ImageFeed(history=deque(maxlen=kept))
    loader = MetadataLoader([feed])
    offsets = []
    for committed_ms in times_ms:
        loader.apply_committed(_batch(feed.image, [], committed_ms))
        offsets.append(feed.image.provenance.offset)
    return feed, offsets


def test_lag_beyond_history_uses_oldest_known_time(monkeypatch):
    """Times are kept a second apart; the history may be more precise, or may be the only source."""
    monkeypatch.setattr(feeding, "now_ms", lambda: 9000)
    for times_ms, lags in (
        ((1000, 1200, 1400), [8000, 7800, 7600, 0]),
        ((1000, 1200, 2000), [8000, 7800, 7000, 0]),
        ((1000, 2000, 3000, 4000), [8000, 7000, 6000, 5000, 0]),
    ):
        feed, offsets = feed_of(*times_ms)
        assert [feed.lag_ms(end) for end in (-1, *offsets)] == lags


def test_commit_at_time_zero_counts(monkeypatch):
    monkeypatch.setattr(feeding, "now_ms", lambda: 0)
    feed, _ = feed_of(0)
    monkeypatch.setattr(feeding, "now_ms", lambda: 1)
    assert feed.silent_seconds() == 0.001


async def test_feed_learns_leader_and_readiness_from_node(autojump_clock):
    waited = []

    class Node:
        leader = Latest(SimpleNamespace(leader_id=None, epoch=3))

        async def wait_caught_up(self):
            await trio.sleep(5)
            waited.append(feed.ready)

    feed, node = ImageFeed(), Node()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(tell_leaders, node, feed)
        nursery.start_soon(tell_caught_up, node, feed)
        await trio.sleep(4)
        assert (feed.leader, feed.ready) == (None, False)
        node.leader.set(SimpleNamespace(leader_id=0, epoch=4))
        await trio.sleep(2)
        assert (feed.leader, feed.ready) == (QuorumLeader(0, 4), True)
        nursery.cancel_scope.cancel()
    assert waited == [False]
