"""Pending responses: decided by a rule or an operation, and sent when the state of the decision is committed."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from tests.broker.calls import carried_out
from trimaran.node.replicated.pending import PendingResponse, Progress, settled
from trimaran.node.runtime.watermark import Watermark
from trimaran.wire.errors import ErrorCode, KafkaError

E = ErrorCode


async def outcome(pending):
    """Returns the response or the error code, and after how many seconds."""
    began = trio.current_time()
    try:
        found = await pending.wait()
    except KafkaError as error:
        found = error.code
    return found, trio.current_time() - began


def committed(watermark, *, end_offset=5, seconds=10.0):
    progress = Progress(
        watermark,
        end_offset,
        ended=E.NOT_COORDINATOR,
        commit_seconds=seconds,
        late=E.COORDINATOR_NOT_AVAILABLE,
    )
    pending = PendingResponse(progress)
    pending.complete("told")
    return pending


async def test_committed_response_is_sent_after_epoch_end(autojump_clock):
    watermark = Watermark(5)
    pending = committed(watermark)
    watermark.close()
    assert (pending.ready(), pending.response) == (True, "told")
    assert await outcome(pending) == ("told", 0)


async def test_response_waits_for_all_its_commits(autojump_clock, nursery):
    watermark = Watermark(3)
    pending = committed(watermark)
    assert not pending.ready()

    async def commit():
        for offset in (4, 5):
            await trio.sleep(2)
            watermark.advance(offset)

    nursery.start_soon(commit)
    assert await outcome(pending) == ("told", 4)


async def test_response_calls_back_at_its_commit(autojump_clock):
    watermark, called = Watermark(3), []
    waiting = committed(watermark).when_ready(lambda: called.append("committed"))
    watermark.advance(4)
    assert not called
    watermark.advance(5)
    assert (called, waiting.call) == (["committed"], None)


async def test_response_calls_back_when_commit_is_late(autojump_clock):
    pending, called = committed(Watermark(3)), trio.Event()
    pending.when_ready(called.set)
    await called.wait()
    assert trio.current_time() == pytest.approx(10)
    assert await outcome(pending) == (E.COORDINATOR_NOT_AVAILABLE, 0)


def test_undecided_response_does_not_call_back():
    progress = Progress(Watermark(4), 4, ended=E.NOT_CONTROLLER)
    assert PendingResponse(progress).when_ready(print) is None


async def test_response_waits_for_records_replayed_before_it(autojump_clock):
    progress = Progress(Watermark(4), 4, ended=E.NOT_CONTROLLER)
    early, late = PendingResponse(progress), PendingResponse(progress)
    early.complete("early")
    progress.end_offset = 5
    late.complete("late")
    progress.end_offset = 6
    assert (early.ready(), late.ready()) == (True, False)
    progress.committed.advance(5)
    assert late.ready()


async def test_late_commit_is_refused_in_time(autojump_clock):
    assert await outcome(committed(Watermark(4))) == (E.COORDINATOR_NOT_AVAILABLE, 10)


async def test_commit_without_timeout_is_awaited_forever(autojump_clock):
    pending = committed(Watermark(4), seconds=float("inf"))
    with trio.move_on_after(1_000_000) as scope:
        await pending.wait()
    assert scope.cancelled_caught


async def test_epoch_end_before_commit_refuses_response(autojump_clock, nursery):
    watermark = Watermark(4)

    async def end():
        await trio.sleep(3)
        watermark.close()

    nursery.start_soon(end)
    assert await outcome(committed(watermark)) == (E.NOT_COORDINATOR, 3)
    assert await outcome(committed(watermark)) == (E.NOT_COORDINATOR, 0)


class Late(Watermark):
    """A change in the same turn as the timeout."""

    def __init__(self, change):
        super().__init__(4)
        self.change = change

    async def wait_reached(self, offset, deadline):
        await trio.sleep_until(deadline)
        self.change(self)
        await super().wait_reached(offset, deadline)


async def test_change_at_the_deadline_counts(autojump_clock):
    reached, ended = Late(lambda late: late.advance(5)), Late(lambda late: late.close())
    assert await outcome(committed(reached)) == ("told", 10)
    assert await outcome(committed(ended)) == (E.NOT_COORDINATOR, 10)


async def test_rule_completes_a_response_once(autojump_clock, nursery):
    pending = PendingResponse()
    assert not pending.ready()
    told = []

    async def wait():
        told.append(await pending.wait())

    for _ in range(2):
        nursery.start_soon(wait)
    await trio.testing.wait_all_tasks_blocked()
    assert told == []
    pending.complete("first")
    pending.complete("second")
    pending.fail(ValueError("late"))
    await trio.testing.wait_all_tasks_blocked()
    assert told == ["first", "first"]
    assert (pending.ready(), pending.response) == (True, "first")
    assert await outcome(pending) == ("first", 0)


async def test_error_is_raised_without_waiting_for_a_commit(autojump_clock):
    pending = PendingResponse(Progress(Watermark(4), 5, ended=E.NOT_CONTROLLER))
    pending.fail(KafkaError(E.INVALID_REQUEST))
    pending.complete("too late")
    assert pending.ready()
    assert await outcome(pending) == (E.INVALID_REQUEST, 0)


async def test_waiting_task_gets_the_error(nursery):
    pending, found = PendingResponse(), []

    async def wait():
        found.append((await outcome(pending))[0])

    nursery.start_soon(wait)
    await trio.testing.wait_all_tasks_blocked()
    pending.fail(KafkaError(E.INVALID_REQUEST))
    await trio.testing.wait_all_tasks_blocked()
    assert found == [E.INVALID_REQUEST]


async def test_decided_response_is_known_before_its_commit():
    """A task that makes many decisions lets other tasks run between two of them."""
    with trio.testing.assert_checkpoints():
        assert await committed(Watermark(4)).decided() == "told"


async def test_handler_waits_only_for_what_is_not_committed(autojump_clock):
    effects = []
    assert await carried_out(settled(committed(Watermark(5))), effects) == "told"
    assert effects == []
    with pytest.raises(KafkaError) as caught:
        await carried_out(settled(committed(Watermark(4))), effects)
    assert caught.value.code is E.COORDINATOR_NOT_AVAILABLE
    pending = PendingResponse()
    effect = next(settled(pending))
    assert not effect.ready()
    pending.complete("told")
    assert effect.ready()
    assert await effect.wait() == "told"


def test_undecided_response_cannot_be_read():
    with pytest.raises(AssertionError):
        _ = PendingResponse().response


async def test_response_calls_back_only_after_its_decision():
    watermark, called = Watermark(4), []
    progress = Progress(watermark, 5, ended=E.NOT_CONTROLLER)
    pending, other = PendingResponse(progress), PendingResponse()
    other.complete("made")
    assert [item.when_ready(lambda: called.append(5)) for item in (pending, other)] == [None, None]
    pending.complete("made")
    assert pending.when_ready(lambda: called.append(5)) is not None
    watermark.advance(5)
    assert called == [5]
