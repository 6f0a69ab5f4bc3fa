"""The effect that Produce yields for acks=all: when it is ready, when it calls back, and when it ends."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import trio
import trio.testing

from trimaran.broker.producing.await_replicas import await_replicas
from trimaran.broker.producing.partition_append import PartitionAppend
from trimaran.node.runtime.watermark import Watermark
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import TopicPartition
from trimaran.wire.messages.produce import PartitionProduceResponse

E = ErrorCode
SECONDS = 3.0


def appended(offset, required=5, index=0):
    """Returns one part of a request; its partition has its watermark at `offset`."""
    response = PartitionProduceResponse(index=index, base_offset=4)
    part = PartitionAppend(TopicPartition("t", index), None, memoryview(b"records"), response)
    part.batches = ["a batch"]
    part.leader = SimpleNamespace(high_watermark=Watermark(offset), satisfies_min_isr=True)
    part.required_offset = required
    return part


def failed():
    part = appended(0)
    part.leader = None
    part.refuse(E.CORRUPT_MESSAGE)
    return part


def not_appended():
    """Returns a part without a complete message."""
    return appended(0, required=-1)


def waiting(*parts):
    """Returns the handling after its effect, and the effect."""
    handling = await_replicas(parts, int(SECONDS * 1000))
    effect = next(handling)
    assert not effect.holds_request
    return handling, effect


def ended(handling):
    with pytest.raises(StopIteration):
        handling.send(None)


def codes(parts):
    return [part.response.error_code for part in parts]


@pytest.mark.parametrize("offset", [5, 6])
def test_replicated_parts_need_no_wait(offset):
    parts = [failed(), appended(offset), not_appended()]
    assert list(await_replicas(parts, 0)) == []
    assert codes(parts) == [E.CORRUPT_MESSAGE, E.NONE, E.NONE]
    assert bytes(parts[1].records) == b"records"


async def test_waiting_parts_keep_no_records(mock_clock):
    parts = [failed(), appended(5), appended(4)]
    waiting(*parts)
    assert [(bytes(part.records), part.batches) for part in parts] == [(b"", ())] * 3


async def test_call_comes_with_first_late_watermark(mock_clock):
    parts = first, late, last = appended(5), appended(4), appended(0)
    _, effect = waiting(failed(), not_appended(), *parts)
    called = []
    registered = effect.when_ready(lambda: called.append(trio.current_time()))
    last.leader.high_watermark.advance(5)
    first.leader.high_watermark.advance(9)
    assert (called, effect.ready()) == ([], False)
    late.leader.high_watermark.advance(5)
    assert (len(called), effect.ready(), registered.call) == (1, True, None)


async def test_call_comes_for_each_late_watermark_in_turn(mock_clock):
    first, second = appended(4), appended(4)
    _, effect = waiting(first, second)
    called = []
    for part in (first, second):
        assert effect.when_ready(lambda: called.append(effect.ready())) is not None
        part.leader.high_watermark.advance(5)
    assert called == [False, True]
    assert effect.when_ready(called.clear) is None
    assert called == [False, True]


async def test_call_comes_with_the_end_of_an_epoch(mock_clock):
    part, called = appended(4), []
    handling, effect = waiting(part)
    effect.when_ready(lambda: called.append(effect.ready()))
    part.leader.high_watermark.close()
    assert called == [True]
    ended(handling)
    assert codes([part]) == [E.NOT_LEADER_OR_FOLLOWER]


async def test_time_counts_from_first_interest(autojump_clock):
    """A callback that is registered again, and a wait, keep the deadline."""
    part, other = appended(4), appended(4)
    handling, effect = waiting(part, other)
    await trio.sleep(10)
    began, called = trio.current_time(), []
    effect.when_ready(lambda: called.append(trio.current_time() - began))
    await trio.sleep(1)
    part.leader.high_watermark.advance(5)
    await trio.sleep(1)
    effect.when_ready(lambda: called.append(trio.current_time() - began))
    await effect.wait()
    assert trio.current_time() - began == pytest.approx(SECONDS)
    await trio.sleep(1)
    assert called == [1, pytest.approx(SECONDS)]
    ended(handling)
    assert codes([part, other]) == [E.NONE, E.REQUEST_TIMED_OUT]


async def test_negative_timeout_means_no_wait(autojump_clock):
    part = appended(4)
    handling = await_replicas([part], -1)
    began = trio.current_time()
    await next(handling).wait()
    assert trio.current_time() == began
    ended(handling)
    assert codes([part]) == [E.REQUEST_TIMED_OUT]
