"""Requests to a mirror for a comparison, on a clock that jumps: whether and when the response comes."""

import pytest
import trio

from trimaran.zkcompat.mirroring.resync import PATH, request_resync
from trimaran.zkcompat.tree.operations import FoundZnode


class Keeper:
    """A ZooKeeper in which the request is deleted after the given seconds."""

    def __init__(self, answered_at):
        self.answered_at = answered_at
        self.made = []
        self.began = trio.current_time()

    @property
    def left(self):
        return self.answered_at - (trio.current_time() - self.began)

    async def ensure(self, path, data):
        self.made.append((path, data))

    async def read(self, path):
        assert path == PATH == "/trimaran/resync"
        await trio.lowlevel.checkpoint()
        return FoundZnode(None) if self.left > 0 else None

    async def wait_deleted(self, path, seconds):
        assert (path, seconds) == (PATH, 0.1)
        await trio.sleep(max(0, min(self.left, seconds)))
        return self.left <= 0


@pytest.mark.parametrize(("answered_at", "is_done"), [(0, True), (1.25, True), (5.5, False)])
async def test_request_is_done_when_deleted_within_limit(autojump_clock, answered_at, is_done):
    keeper = Keeper(answered_at)
    assert await request_resync(keeper, 5.0) is is_done
    assert trio.current_time() - keeper.began == pytest.approx(min(answered_at, 5.0))
    assert keeper.made == [("/trimaran", None), (PATH, None)]
