"""Responses that come: when what they tell is committed, or not in time, or a rule of the shard has one."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from trimaran.node.replicated.pending import CommittedResponse, CompletableResponse, respond
from trimaran.node.runtime.watermark import Watermark
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.transport.requests.calls import DeferredResponse

E = ErrorCode


async def outcome(pending):
    """The response or the code, and after how many seconds."""
    began = trio.current_time()
    try:
        found = await pending.wait()
    except KafkaError as error:
        found = error.code
    return found, trio.current_time() - began


def committed(watermark, *, end_offset=5, deadline=10.0):
    return CommittedResponse("told", end_offset, watermark, trio.current_time() + deadline)


async def test_committed_answer_is_sent_after_epoch_end(autojump_clock):
    watermark = Watermark(5)
    pending = committed(watermark)
    watermark.close()
    assert (pending.ready(), pending.response) == (True, "told")
    assert await outcome(pending) == ("told", 0)


async def test_response_waits_for_commit_of_all_records(autojump_clock, nursery):
    watermark = Watermark(3)
    pending = committed(watermark)
    assert not pending.ready()

    async def commit():
        for offset in (4, 5):
            await trio.sleep(2)
            watermark.advance(offset)

    nursery.start_soon(commit)
    assert await outcome(pending) == ("told", 4)


async def test_uncommitted_response_times_out(autojump_clock):
    assert await outcome(committed(Watermark(4))) == (E.COORDINATOR_NOT_AVAILABLE, 10)


async def test_epoch_end_precedes_the_commit(autojump_clock, nursery):
    watermark = Watermark(4)

    async def end():
        await trio.sleep(3)
        watermark.close()

    nursery.start_soon(end)
    assert await outcome(committed(watermark)) == (E.NOT_COORDINATOR, 3)
    assert await outcome(committed(watermark)) == (E.NOT_COORDINATOR, 0)


class Late(Watermark):
    """A watermark that moves in the turn of the timeout."""

    def __init__(self, change):
        super().__init__(4)
        self.change = change

    async def wait_reached(self, offset):
        try:
            await trio.sleep_forever()
        finally:
            self.change(self)


async def test_outcome_at_timeout_still_counts(autojump_clock):
    reached, ended = Late(lambda one: one.advance(5)), Late(lambda one: one.close())
    assert await outcome(committed(reached)) == ("told", 10)
    assert await outcome(committed(ended)) == (E.NOT_COORDINATOR, 10)


async def test_a_rule_completes_a_response_once(autojump_clock, nursery):
    pending = CompletableResponse()
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
    await trio.testing.wait_all_tasks_blocked()
    assert told == ["first", "first"]
    assert (pending.ready(), pending.response) == (True, "first")
    assert await outcome(pending) == ("first", 0)


async def test_a_handler_answers_at_once_or_defers(autojump_clock):
    def to_response(told):
        return f"said: {told}"

    def refuse(code):
        return f"refused: {code.name}"

    watermark = Watermark(5)
    assert respond(committed(watermark), to_response, refuse) == "said: told"
    deferred = respond(committed(Watermark(4)), to_response, refuse)
    assert isinstance(deferred, DeferredResponse)
    assert not deferred.ready()
    assert await deferred.finish() == "refused: COORDINATOR_NOT_AVAILABLE"
    pending = CompletableResponse()
    deferred = respond(pending, to_response, refuse)
    pending.complete("told")
    assert deferred.ready()
    assert await deferred.finish() == "said: told"


def test_absent_response_cannot_be_read():
    with pytest.raises(AssertionError):
        _ = CompletableResponse().response
