"""The writer of a connection: each call of `flush` and of a response that calls back, in exact order."""

from __future__ import annotations

import logging
from collections import deque
from types import SimpleNamespace

import pytest
import trio

from trimaran.wire.buffers.outgoing import Outgoing
from trimaran.wire.transport.connection.core import ConnectionCore, Service
from trimaran.wire.transport.connection.failed_logins import DelayedFailure
from trimaran.wire.transport.connection.limits import ConnectionLimits
from trimaran.wire.transport.connection.writer import Writer
from trimaran.wire.transport.dispatch.registry import Registry
from trimaran.wire.transport.dispatch.running import RunningRequest
from trimaran.wire.transport.endpoint.send_queue import NOTHING
from trimaran.wire.transport.metrics.limited_log import LimitedLog
from trimaran.wire.transport.requests.calls import ConnectionInfo

KNOWN = Outgoing()


class Pending(RunningRequest):
    """A response that is not ready yet; `proceed_now` may raise `error`."""

    def __init__(self, *, calls_back=True, is_ready=True, error=None):
        self.held = 70
        self._calls_back, self._is_ready, self._error = calls_back, is_ready, error
        self.notes = None

    def calls_back(self, call):
        self.call = call
        return self._calls_back

    def ready(self):
        return self._is_ready

    def proceed_now(self):
        self.notes.append("proceed")
        if self._error is not None:
            raise self._error


class Rig:
    """A writer whose endpoint sends `sends` bytes at once; `notes` has the calls in order."""

    def __init__(self, *owed, unsent=0, sends=1000, owed_bytes=0, responses=0, has_room=True):
        self.notes = []
        self.sends, self.makes, self.room = sends, 0, has_room
        for response in owed:
            if isinstance(response, Pending):
                response.notes = self.notes
        memory = SimpleNamespace(responses=SimpleNamespace(is_full=False))
        self.core = SimpleNamespace(
            unsent=SimpleNamespace(size=unsent),
            owed=deque(owed) if owed else NOTHING,
            owed_bytes=owed_bytes,
            share=SimpleNamespace(responses=responses),
            info=SimpleNamespace(memory=memory),
            count_responses=lambda: self.notes.append("count"),
            proceeded=self._proceeded,
        )
        endpoint = SimpleNamespace(send_nowait=self._send)
        self.deferred = []
        turn = SimpleNamespace(
            slice_end=SimpleNamespace(then=self.deferred.append),
            end=lambda: self.notes.append("end of slice"),
            has_room=lambda: self.room,
        )
        self.writer = Writer(endpoint, self.core, turn)
        for name in ("_wanted", "progress"):
            note = name.strip("_")
            event = SimpleNamespace(set=lambda note=note: self.notes.append(note))
            setattr(self.writer, name, event)

    def _send(self, queue):
        assert queue is self.core.unsent
        self.notes.append("send")
        queue.size -= min(queue.size, self.sends)

    def _proceeded(self, pending, held):
        assert held == 70
        self.notes.append("proceeded")
        self.core.owed.remove(pending)
        self.core.unsent.size += self.makes

    def flush(self):
        self.writer.flush()
        notes, self.notes[:] = list(self.notes), []
        return notes

    def answer(self):
        """Lets the first response call back."""
        self.writer._respond()
        return self.notes


# -- flush


@pytest.mark.parametrize(
    ("owed", "given", "expected"),
    [
        ([], {}, []),
        ([], {"unsent": 5}, ["send"]),
        ([], {"unsent": 5, "sends": 4}, ["send", "wanted", "count"]),
        ([], {"owed_bytes": 1}, ["count"]),
        ([], {"responses": 1}, ["count"]),
        ([Pending()], {}, []),
        ([Pending()], {"unsent": 5}, ["send"]),
        ([Pending()], {"unsent": 5, "sends": 4}, ["send", "wanted", "count"]),
        ([Pending(calls_back=False)], {}, ["wanted"]),
        ([Pending(calls_back=False)], {"unsent": 5}, ["send", "wanted"]),
        ([KNOWN, Pending()], {"owed_bytes": 9}, ["wanted", "count"]),
        ([Pending(), Pending(calls_back=False)], {}, []),
    ],
)
def test_flush_sends_and_wakes_only_if_needed(owed, given, expected):
    rig = Rig(*owed, **given)
    assert rig.flush() == [*expected, "end of slice"]


@pytest.mark.parametrize("owed", [[], [Pending(calls_back=False)]])
def test_awake_writer_is_not_woken_again(owed):
    rig = Rig(*owed, unsent=5, sends=4)
    rig.writer._is_awake = True
    assert rig.flush() == ["send", "count", "end of slice"]


def test_flush_leaves_bytes_to_sending_writer():
    rig = Rig(unsent=5)
    rig.writer._is_awake = rig.writer._sends = True
    assert rig.flush() == ["count", "end of slice"]
    assert rig.core.unsent.size == 5


def test_response_calls_back_at_the_end_of_slice():
    pending = Pending()
    rig = Rig(pending)
    rig.flush()
    pending.call()
    assert rig.deferred == [rig.writer._respond]
    assert rig.notes == []


# -- a response that has called back


@pytest.mark.parametrize(
    ("makes", "sends", "expected"),
    [
        (0, 1000, ["proceed", "proceeded", "progress"]),
        (5, 1000, ["proceed", "proceeded", "send", "progress"]),
        (5, 4, ["proceed", "proceeded", "send", "count", "progress", "wanted"]),
    ],
)
def test_ready_response_is_sent_at_once(makes, sends, expected):
    rig = Rig(Pending(), sends=sends)
    rig.makes = makes
    assert rig.answer() == expected
    assert (rig.core.owed is NOTHING) == ("wanted" not in expected)


def test_following_response_wakes_the_writer():
    rig = Rig(Pending(), Pending())
    assert rig.answer() == ["proceed", "proceeded", "progress", "wanted"]
    assert len(rig.core.owed) == 1


def test_memory_of_sent_response_is_counted():
    rig = Rig(Pending(), responses=1)
    assert rig.answer() == ["proceed", "proceeded", "count", "progress"]


def test_ended_reader_wakes_the_writer():
    rig = Rig(Pending())
    rig.writer.end()
    assert rig.answer() == ["wanted", "proceed", "proceeded", "progress", "wanted"]


def test_error_of_response_is_raised_by_writer():
    error = ValueError("a bug")
    rig = Rig(Pending(error=error))
    assert rig.answer() == ["proceed", "progress", "wanted"]
    assert rig.writer._failure is error


def awake(rig):
    rig.writer._is_awake = True


def full(rig):
    rig.core.info.memory.responses.is_full = True


def unsent(rig):
    rig.core.unsent.size = 1


def without_room(rig):
    rig.room = False


@pytest.mark.parametrize("change", [awake, full, unsent, without_room])
def test_writer_sends_what_cannot_leave_at_once(change):
    rig = Rig(Pending())
    change(rig)
    assert rig.answer() == ["wanted"]


@pytest.mark.parametrize("owed", [[], [KNOWN], [Pending(is_ready=False)]])
def test_writer_wakes_without_a_ready_response(owed):
    assert Rig(*owed).answer() == ["wanted"]


@pytest.mark.parametrize("answer", [None, Outgoing()])
async def test_failed_login_is_answered_after_its_seconds(autojump_clock, answer):
    limits, log = ConnectionLimits(), LimitedLog(logging.getLogger("test"))
    service = Service(Registry(()), None, limits, trio.current_time, log)
    core = ConnectionCore(ConnectionInfo(1, "A", ("10.0.0.1", 1), ("10.0.0.2", 2)), service)
    core.owe(DelayedFailure(answer, 2.5))
    turn = SimpleNamespace(slice_end=SimpleNamespace(then=print))
    (failure,) = core.owed
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Writer(SimpleNamespace(), core, turn)._drive_pending)
        await trio.sleep(2.4)
        assert (failure.is_known, len(core.owed), core.unsent.size) == (False, 1, 0)
    assert trio.current_time() == 2.5
    assert not core.owed
    assert core.unsent.size == (0 if answer is None else 4)
