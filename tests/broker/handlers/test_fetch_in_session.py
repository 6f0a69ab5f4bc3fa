"""Fetch: the state that a request leaves in its session and its reader, whether answered, waiting, released or
throttled.
"""

from __future__ import annotations

import pytest
import trio
import trio.testing

from tests.broker.batches import append
from tests.broker.calls import Paused, call, connection, finished, started, through_wire
from tests.broker.fetching.fetch_requests import BROKERS, VERSION, request, sizes, wanted
from tests.cluster.data_side import open_harness, partition, replaced, topic
from trimaran.broker.handlers import fetch as handler
from trimaran.broker.handlers.fetch import fetch


class Quotas:
    """Fetch quotas: `seconds` is the client's wait after it fetched too much."""

    def __init__(self, seconds):
        self.fetch = self
        self.is_set = True
        self.seconds = seconds
        self.charged = []

    def fetch_bytes_max(self, _call, most):
        return most

    def fetched(self, asked, size):
        self.charged.append(size)
        return asked.throttle(self.seconds)


@pytest.fixture
def harness(tmp_path):
    harness = open_harness(tmp_path)
    harness.set_image(topic("t", partition(), partition(), partition()), brokers=BROKERS)
    append(harness, b"a")
    harness.flush()
    return harness


def start(harness, message, *, on=None):
    message = through_wire(message, VERSION)
    asked = call(message, VERSION, on)
    return started(fetch(message, harness.contexts.data, asked))


async def ask(harness, message, **options):
    return await finished(start(harness, message, **options))


def sessions(harness):
    return list(harness.contexts.data.fetch_sessions._sessions.values())


async def test_first_request_opens_session_of_its_partitions(harness, autojump_clock):
    on = connection()
    harness.contexts.data.fetch_sessions._room.used = 5
    answer = await ask(harness, request(wanted(0), wanted(1, 0), epoch=0), on=on)
    (session,) = sessions(harness)
    assert (answer.session_id, session.epoch, session.current_fetch) == (session.id, 1, None)
    assert (session.privileged, session.by_id, session.size) == (False, True, 2)
    assert (session.room.used, session.acl_epoch) == (7, 0)
    assert session.used_at == trio.current_time()
    assert sizes(answer)[0] > 0
    on.mark_closed()
    assert sessions(harness) == []
    assert harness.contexts.data.fetch_sessions._room.used == 5


@pytest.mark.parametrize(("epoch", "count"), [(0, 1), (-1, 0), (1, 1)])
async def test_session_ends_with_first_and_last_epoch(harness, epoch, count):
    """Epoch 0 begins another session, and epoch -1 ends it without another one."""
    opened = await ask(harness, request(wanted(0), epoch=0))
    [session] = sessions(harness)
    await ask(harness, request(wanted(0), session_id=opened.session_id, epoch=epoch))
    assert (session.closed, len(sessions(harness))) == (epoch != 1, count)


async def test_followers_session_is_privileged(harness):
    harness.set_image(topic("t", partition((11, 12))), brokers=BROKERS)
    await ask(harness, request(wanted(0), follower=12, epoch=0))
    (session,) = sessions(harness)
    assert session.privileged
    assert {slot.upto_end for slot in session.slots.values()} == {True}


@pytest.mark.parametrize(("epoch", "names"), [(0, False), (-1, True), (-1, False)])
async def test_sessionless_request_is_answered_without_one(harness, epoch, names):
    asked = [wanted(0)] if names else []
    answer = await ask(harness, request(*asked, epoch=epoch))
    assert (answer.session_id, sessions(harness)) == (0, [])
    assert len(answer.responses) == names


async def test_fetch_without_partitions_returns_at_once(harness):
    assert not isinstance(start(harness, request(epoch=-1, max_wait_ms=60_000)), Paused)


@pytest.mark.parametrize(("max_wait_ms", "waits"), [(-1, False), (0, False), (1, True)])
@pytest.mark.parametrize("in_session", [False, True])
async def test_fetch_without_max_wait_returns_at_once(harness, max_wait_ms, waits, in_session):
    waiting = {"max_wait_ms": max_wait_ms}
    if in_session:
        opened = await ask(harness, request(wanted(1), epoch=0))
        message = request(session_id=opened.session_id, epoch=1, **waiting)
    else:
        message = request(wanted(1), **waiting)
    assert isinstance(start(harness, message), Paused) is waits


async def test_finished_wait_leaves_only_session_slots(harness, autojump_clock):
    watchers = harness.leader("t", 1).replica.watchers
    answer = await ask(harness, request(wanted(1), max_wait_ms=500))
    assert (sizes(answer), trio.current_time()) == ({1: 0}, pytest.approx(0.5))
    assert not watchers._upto_watermark
    opened = await ask(harness, request(wanted(1), epoch=0))
    (session,) = sessions(harness)
    began = trio.current_time()
    waiting = start(
        harness, request(session_id=opened.session_id, epoch=1, max_wait_ms=700, min_bytes=1)
    )
    assert session.current_fetch is not None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(waiting.finish)
        await trio.testing.wait_all_tasks_blocked()
        assert session.reader.wake is not None
    assert trio.current_time() - began == pytest.approx(0.7)
    assert (session.reader.wake, session.current_fetch) == (None, None)
    assert len(watchers._upto_watermark) == 1


async def test_wait_time_follows_request_within_bound(harness, autojump_clock, monkeypatch):
    monkeypatch.setattr(handler, "MAX_WAIT_SECONDS", 2.0)
    for asked_ms, seconds in ((1999, 1.999), (2000, 2.0), (2001, 2.0), (10_000, 2.0)):
        began = trio.current_time()
        await ask(harness, request(wanted(1), max_wait_ms=asked_ms))
        assert trio.current_time() - began == pytest.approx(seconds)


async def test_records_between_check_and_wait_are_found(harness, autojump_clock):
    waiting = start(harness, request(wanted(1), wanted(0, 1), max_wait_ms=60_000))
    append(harness, b"b", index=1)
    harness.flush()
    assert sizes(await waiting.finish())[1] > 0
    assert trio.current_time() == 0


async def test_throttled_session_repeats_its_records(harness):
    opened = await ask(harness, request(wanted(1), epoch=0))
    (session,) = sessions(harness)
    append(harness, b"b", index=1)
    harness.flush()
    fetches, harness.contexts = harness.contexts, replaced(harness.contexts, quotas=Quotas(2.0))
    answer = await ask(harness, request(session_id=opened.session_id, epoch=1))
    assert (answer.throttle_time_ms, answer.session_id) == (2000, session.id)
    assert (answer.responses, session.current_fetch, session.epoch) == ([], None, 2)
    harness.contexts = fetches
    answer = await ask(harness, request(session_id=opened.session_id, epoch=2))
    assert sizes(answer)[1] > 0
    again = await ask(harness, request(session_id=opened.session_id, epoch=3))
    assert sizes(again)[1] > 0, "looked at again, as it was not taken over"


async def test_throttled_first_request_leaves_no_session(harness):
    quotas = Quotas(2.0)
    harness.contexts = replaced(harness.contexts, quotas=quotas)
    answer = await ask(harness, request(wanted(0), epoch=0))
    assert (answer.throttle_time_ms, answer.session_id, answer.responses) == (2000, 0, [])
    assert (sessions(harness), len(quotas.charged)) == ([], 1)
    quotas.seconds = 0
    answer = await ask(harness, request(wanted(0), epoch=0))
    assert (answer.throttle_time_ms, len(sessions(harness))) == (0, 1)
    assert quotas.charged[1] == sizes(answer)[0]


async def test_released_wait_is_not_charged(harness):
    opened = await ask(harness, request(wanted(0, 1), epoch=0))
    session = {"session_id": opened.session_id}
    waiting = start(harness, request(epoch=1, max_wait_ms=60_000, **session))
    quotas = Quotas(0)
    harness.contexts = replaced(harness.contexts, quotas=quotas)
    await ask(harness, request(epoch=2, **session))
    charged = list(quotas.charged)
    answer = await waiting.finish()
    assert (answer.responses, answer.throttle_time_ms, quotas.charged) == ([], 0, charged)


async def test_waiting_first_request_is_released_by_next(harness):
    waiting = start(harness, request(wanted(1), epoch=0, max_wait_ms=60_000))
    (session,) = sessions(harness)
    assert session.current_fetch is not None
    await ask(harness, request(session_id=session.id, epoch=1))
    with trio.fail_after(5):
        answer = await waiting.finish()
    assert (answer.session_id, sizes(answer)) == (session.id, {})
