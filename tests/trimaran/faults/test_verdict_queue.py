"""The queue of verdicts between a reader and a writer."""

import pytest
import trio
import trio.testing

from trimaran.faults import verdict_queue
from trimaran.faults.verdict_queue import VerdictQueue
from trimaran.faults.verdicts import GoSilent, SendFrame


async def test_all_readers_continue_when_bytes_are_taken(monkeypatch):
    monkeypatch.setattr(verdict_queue, "WAITING_BYTES_MAX", 5)
    queue, done = VerdictQueue(), []
    queue.add((SendFrame(b"abc"), SendFrame(b"defg")))

    async def read(name):
        await queue.wait_room()
        done.append(name)

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            for name in ("client", "broker"):
                nursery.start_soon(read, name)
            await trio.testing.wait_all_tasks_blocked()
            assert done == []
            assert queue.take_nowait() == SendFrame(b"abc")
    assert sorted(done) == ["broker", "client"]


@pytest.mark.parametrize("late", [False, True])
async def test_end_follows_the_last_verdict(late):
    queue = VerdictQueue()
    queue.add((GoSilent(),))
    if not late:
        queue.close()
    assert await queue.take() == GoSilent()
    queue.close()
    assert await queue.take() is None
    assert queue.take_nowait() is None
