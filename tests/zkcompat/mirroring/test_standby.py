"""When a standby mirror takes over: on a virtual clock, over znodes that others write."""

from types import SimpleNamespace

import pytest
import trio

from tests.zkcompat import build
from trimaran.quorum.metadata.image import EMPTY
from trimaran.zkcompat.mirroring.standby import POLL_SECONDS, Standby
from trimaran.zkcompat.quorum_feed.feed import ImageFeed
from trimaran.zkcompat.tree.operations import FoundZnode
from trimaran.zkcompat.znodes.controller import ControllerZnode
from trimaran.zkcompat.znodes.migration import Migration

TIMEOUT_MS = 18_000  # a third of it is six seconds


class Keeper:
    """`controller` is the session that holds the claim, or None; `written` are offsets by second."""

    def __init__(self, controller, written=((0, 0),), ours=(), gone_at=float("inf")):
        self.controller, self.written, self.ours, self.gone_at = controller, written, ours, gone_at
        self.config = SimpleNamespace(session_timeout_ms=TIMEOUT_MS)
        self.reads = 0

    def was_ours(self, owner):
        return owner in self.ours

    async def read(self, path):
        await trio.lowlevel.checkpoint()
        now = trio.current_time() - self.began
        if path == ControllerZnode.PATH:
            self.reads += 1
            is_there = self.controller is not None and now < self.gone_at
            return FoundZnode(b"{}", owner=self.controller) if is_there else None
        assert path == Migration.PATH
        done = [offset for second, offset in self.written if second <= now]
        if not done:
            return None
        state = Migration(offset=done[-1])
        return FoundZnode(state.encode(), version=len(done))

    async def wait_deleted(self, path, seconds):
        assert path == ControllerZnode.PATH
        left = self.gone_at - (trio.current_time() - self.began)
        await trio.sleep(min(seconds, max(0, left)))
        return left <= seconds


async def waited(keeper, *, offset=5):
    """Returns the time on standby, or None if it lasted for the whole test."""
    feed = ImageFeed()
    _, feed.image = build.replay(EMPTY, *(build.broker(1),) * (offset + 1))
    assert feed.image.provenance.offset == offset
    told = []
    status = SimpleNamespace(tell=told.append)
    keeper.began = trio.current_time()
    with trio.move_on_after(100):
        await Standby(feed, keeper, status).wait()
        return trio.current_time() - keeper.began, told
    return None, told


@pytest.mark.parametrize(("controller", "ours"), [(None, ()), (0, ()), (7, (7,))])
async def test_claim_of_no_session_is_not_awaited(autojump_clock, controller, ours):
    """The claim belongs to no session, or to a former one of ours."""
    seconds, told = await waited(Keeper(controller, ours=ours))
    assert (seconds, told) == (0, [])


async def test_silent_mirror_with_pending_writes_is_overtaken(autojump_clock):
    seconds, told = await waited(Keeper(7))
    assert 6 < seconds <= 6 + POLL_SECONDS
    assert set(told) == {"standby"}


async def test_mirror_that_never_wrote_is_overtaken(autojump_clock):
    seconds, _ = await waited(Keeper(7, written=()))
    assert 6 < seconds <= 6 + POLL_SECONDS


async def test_writing_mirror_is_not_overtaken(autojump_clock):
    written = [(second, 1) for second in range(0, 200, 3)]
    assert (await waited(Keeper(7, written)))[0] is None


async def test_patience_counts_from_mirrors_last_write(autojump_clock):
    seconds, _ = await waited(Keeper(7, [(0, 1), (3, 2), (9, 3)]))
    assert 9 + 6 - POLL_SECONDS < seconds <= 9 + 6 + 2 * POLL_SECONDS


@pytest.mark.parametrize("offset", [5, 6])
async def test_mirror_without_pending_writes_may_be_silent(autojump_clock, offset):
    assert (await waited(Keeper(7, [(0, offset)])))[0] is None


async def test_vanished_claim_is_taken_over_at_once(autojump_clock):
    seconds, _ = await waited(Keeper(7, [(0, 5)], gone_at=10.25))
    assert seconds == 10.25


async def test_poll_of_claim_follows_patience(autojump_clock):
    """The standby polls every quarter of its patience, and at least every two seconds."""
    keeper = Keeper(7)
    seconds, _ = await waited(keeper)
    assert keeper.reads == pytest.approx(seconds / 1.5, abs=2)


@pytest.mark.parametrize(("timeout_ms", "poll"), [(18_000, 1.5), (24_000, 2.0), (60_000, 2.0)])
async def test_poll_of_claim_is_two_seconds_at_most(autojump_clock, timeout_ms, poll):
    keeper, polls = Keeper(7, [(0, 5)]), []
    keeper.config.session_timeout_ms = timeout_ms
    wait_deleted = keeper.wait_deleted

    async def noting(path, seconds):
        polls.append(seconds)
        return await wait_deleted(path, seconds)

    keeper.wait_deleted = noting
    await waited(keeper)
    assert set(polls) == {poll}
