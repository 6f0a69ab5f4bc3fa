"""Work that begins when a slice of requests ends, and the requests that have arrived by then."""

import os
import select

import pytest
import trio

from tests.wire.transport.support import (
    Toy,
    heartbeat,
    heartbeat_frame,
    open_raw,
    open_server,
    settled,
)
from trimaran.wire.messages.heartbeat import HeartbeatRequest
from trimaran.wire.transport.requests.access import open_to_all
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.loop_time import LoopTime
from trimaran.wire.transport.scheduling.loop_turns import loop_turns
from trimaran.wire.transport.scheduling.slice_end import slice_end
from trimaran.wire.transport.scheduling.turn import Turn, TurnQueue

LONG = 60.0


async def test_work_outside_of_slices_runs_at_once():
    done = []
    slice_end().then(lambda: done.append(1))
    assert done == [1]
    slice_end().then_for_all(lambda: done.append(2))
    assert done == [1, 2]
    assert not slice_end().is_shared


async def test_work_within_slice_runs_once_at_end():
    turn, done = Turn(TurnQueue(loop_turns()), LoopTime()), []
    await turn.begin()
    for number in range(3):
        slice_end().then_for_all(lambda number=number: done.append(number))
    assert done == []
    assert slice_end().is_shared
    slice_end().then(lambda: done.append(3))
    assert slice_end().is_shared
    turn.end()
    assert done == [0, 1, 2, 3]
    assert not slice_end().is_shared
    await turn.begin()
    turn.end()
    assert done == [0, 1, 2, 3]


async def test_function_at_slice_end_may_schedule_another():
    turn, done = Turn(TurnQueue(loop_turns()), LoopTime()), []
    await turn.begin()
    slice_end().then(lambda: slice_end().then(lambda: done.append(1)))
    turn.end()
    assert done == [1]


class Sharing(Toy):
    """Heartbeats wait for the end of their slice. During the first one the client sends another, which has arrived when
    the handler returns.
    """

    def __init__(self):
        super().__init__()
        self.client = self.server = None
        self.handled_by_then = []

    def begin(self):
        if len(self.begun) == 1:
            os.write(self.client.stream.socket.fileno(), heartbeat_frame("second", 2))
            (connection,) = self.server.connections.values()
            assert select.select([connection._endpoint._socket], [], [], 5)[0]
        self.then(lambda: self.handled_by_then.append(len(self.begun)))

    def then(self, work):
        slice_end().then_for_all(work)


class Following(Sharing):
    """The work at the end of these slices is not shared."""

    def then(self, work):
        slice_end().then(work)


@handles(HeartbeatRequest, versions="0-4", access=open_to_all("a test"))
def sharing(request, toy, call):
    answer = yield from heartbeat(request, toy, call)
    toy.begin()
    return answer


@pytest.mark.parametrize(
    ("kind", "seconds", "handled_by_then"),
    [
        pytest.param(Sharing, LONG, [2, 2], id="in time"),
        pytest.param(Sharing, 0.0, [1, 2], id="when the slice is over"),
        pytest.param(Following, LONG, [1, 2], id="where nothing is shared"),
    ],
)
async def test_later_arrivals_join_the_slice(kind, seconds, handled_by_then, monkeypatch):
    """This does not hold if other connections wait for their turn, or no work is shared."""
    monkeypatch.setattr("trimaran.wire.transport.scheduling.turn.ALONE_SECONDS", seconds)
    toy = kind()
    async with open_server(sharing, context=toy) as toy.server, open_raw(toy.server) as toy.client:
        await toy.client.send(heartbeat_frame("first", 1))
        assert (await toy.client.heartbeat())[0] == 1
        assert (await toy.client.heartbeat())[0] == 2
    assert toy.handled_by_then == handled_by_then


async def test_end_meanwhile_is_found_by_next_receiver(monkeypatch):
    monkeypatch.setattr("trimaran.wire.transport.scheduling.turn.ALONE_SECONDS", LONG)

    class Ending(Sharing):
        def begin(self):
            self.client.reset()
            self.then(lambda: self.handled_by_then.append(len(self.begun)))

    toy = Ending()
    async with open_server(sharing, context=toy) as toy.server, open_raw(toy.server) as toy.client:
        await toy.client.send(heartbeat_frame("first", 1))
        while toy.server.connections or not toy.begun:
            await trio.lowlevel.checkpoint()
        await settled()
    assert toy.handled_by_then == [1]
