"""The rules of fetch sessions at the leader (KIP-227), one test each: eviction, and the end of a session."""

from __future__ import annotations

import secrets

import pytest
import trio
import trio.testing

from tests.broker.batches import append
from tests.broker.calls import Paused, call, connection, finished, started, through_wire
from tests.cluster.data_side import open_harness, partition, topic, topic_id
from trimaran.broker.fetching.sessions import EPOCH_MAX, NAME_BYTES_MAX, FetchSessions
from trimaran.broker.handlers.fetch import fetch
from trimaran.wire.buffers.primitives import NIL_UUID
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic

BY_ID, BY_NAME = 18, 12
IDLE_SECONDS = 120  # Kafka's value


def wanted(index=0, offset=0, **fields):
    return FetchPartition(
        partition=index, fetch_offset=offset, partition_max_bytes=1 << 20, **fields
    )


def named(name, *partitions):
    return FetchTopic(topic=name, partitions=list(partitions))


def identified(name, *partitions):
    return FetchTopic(topic_id=topic_id(name), partitions=list(partitions))


def request(*topics, session_id=0, epoch=0, forgotten=(), max_wait_ms=0, min_bytes=1, **fields):
    return FetchRequest(
        **fields,
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        session_id=session_id,
        session_epoch=epoch,
        topics=list(topics),
        forgotten_topics_data=list(forgotten),
    )


def start(harness, message, version=BY_ID, on=None):
    message = through_wire(message, version)
    return started(fetch(message, harness.contexts.data, call(message, version, on)))


async def ask(harness, message, version=BY_ID, on=None):
    return await finished(start(harness, message, version, on))


def found(response):
    """Returns (error, size of records) by partition index."""
    return {
        data.partition_index: (data.error_code, data.records.size if data.records else 0)
        for answered in response.responses
        for data in answered.partitions
    }


@pytest.fixture
def harness(tmp_path):
    harness = open_harness(tmp_path)
    harness.set_image(topic("t", *[partition() for _ in range(4)]))
    return harness


# -- which session evicts which


def cached(sessions, session):
    try:
        sessions.find(
            FetchRequest(
                max_wait_ms=0,
                min_bytes=0,
                session_id=session.id,
                session_epoch=session.epoch,
                topics=[],
            ),
            session.used_at,
        )
    except KafkaError:
        return False
    return True


def opened(sessions, size, *, follower=False, now=0.0):
    session = sessions.open(privileged=follower, by_id=True, size=size, now=now)
    if session is not None:
        started(session.update([identified("t", *(wanted(index) for index in range(size)))], ()))
    return session


@pytest.mark.parametrize(
    ("is_follower", "size", "by_follower", "by_size", "after", "makes_room"),
    [
        # within two minutes: the larger replaces the smaller, not an equal one
        (False, 2, False, 1, 0, False),
        (False, 2, False, 2, 0, False),
        (False, 2, False, 3, 0, True),
        # a follower replaces a consumer of any size
        (False, 2, True, 1, 0, True),
        # a consumer never replaces a follower
        (True, 2, False, 9, 0, False),
        (True, 2, False, 9, IDLE_SECONDS - 1, False),
        # followers replace each other by size
        (True, 2, True, 1, 0, False),
        (True, 2, True, 2, 0, False),
        (True, 2, True, 3, 0, True),
        # after two minutes any session may be replaced
        (False, 2, False, 1, IDLE_SECONDS - 1, False),
        (False, 2, False, 1, IDLE_SECONDS, True),
        (True, 2, False, 1, IDLE_SECONDS, True),
    ],
)
def test_full_cache_evicts_by_kafkas_rules(
    is_follower, size, by_follower, by_size, after, makes_room
):
    sessions = FetchSessions(1)
    old = opened(sessions, size, follower=is_follower)
    new = opened(sessions, by_size, follower=by_follower, now=float(after))
    assert (new is not None) == makes_room
    assert cached(sessions, old) != makes_room
    assert len(sessions) == 1


def test_sessions_are_admitted_up_to_bound():
    sessions = FetchSessions(2)
    first, second = opened(sessions, 1), opened(sessions, 1)
    assert cached(sessions, first)
    assert cached(sessions, second)
    assert opened(sessions, 1) is None


def test_longest_idle_session_is_evicted():
    sessions = FetchSessions(3)
    kept = opened(sessions, 1, now=2.0)
    gone = opened(sessions, 9, now=1.0)
    also_kept = opened(sessions, 1, now=3.0)
    assert opened(sessions, 1, now=IDLE_SECONDS + 2.0) is not None
    assert [cached(sessions, session) for session in (kept, gone, also_kept)] == [True, False, True]


def test_eviction_prefers_consumers_then_small_then_old():
    sessions = FetchSessions(4)
    follower = opened(sessions, 1, follower=True)
    large = opened(sessions, 5, now=0.0)
    late = opened(sessions, 2, now=2.0)
    early = opened(sessions, 2, now=1.0)
    assert opened(sessions, 9, follower=True, now=3.0) is not None
    assert [cached(sessions, session) for session in (follower, large, late, early)] == [
        True,
        True,
        True,
        False,
    ]


def test_used_session_is_not_idle():
    sessions = FetchSessions(1)
    session = opened(sessions, 1)
    sessions.find(
        FetchRequest(max_wait_ms=0, min_bytes=0, session_id=session.id, session_epoch=1, topics=[]),
        100.0,
    )
    assert opened(sessions, 1, now=IDLE_SECONDS + 1.0) is None


def test_session_update_takes_steps_and_ends_cleanly():
    sessions = FetchSessions(1)
    session = sessions.open(privileged=False, by_id=True, size=3, now=0.0)
    asked = [identified("t", wanted(0), wanted(1)), identified("u", wanted(0))]
    gone = [ForgottenTopic(topic_id=topic_id("t"), partitions=[0, 7])]
    assert list(session.update(asked, gone)) == [None] * 4, "after each but the first"
    assert (len(session.slots), len(session.reader.changed)) == (2, 2)
    sessions.close(session.id)
    assert (len(session.slots), len(session.reader.changed)) == (0, 0)


def test_ids_are_positive_and_unique(monkeypatch):
    """Session ids are positive 32-bit numbers."""
    drawn = {(1 << 31) - 1: [0, 0, EPOCH_MAX - 1]}
    monkeypatch.setattr(secrets, "randbelow", lambda bound: drawn[bound].pop(0))
    sessions = FetchSessions(9)
    assert [opened(sessions, 1).id for _ in range(2)] == [1, EPOCH_MAX]


# -- names and ids


async def test_session_by_id_continues_by_id(harness):
    first = await ask(harness, request(identified("t", wanted())))
    session_id = first.session_id
    answer = await ask(harness, request(named("t", wanted()), session_id=session_id, epoch=1), 12)
    assert answer.error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    answer = await ask(harness, request(session_id=session_id, epoch=1))
    assert answer.error_code == 0, "who names nothing names it either way"


async def test_session_by_name_continues_by_name(harness):
    first = await ask(harness, request(named("t", wanted())), BY_NAME)
    session_id = first.session_id
    answer = await ask(harness, request(identified("t", wanted()), session_id=session_id, epoch=1))
    assert answer.error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    append(harness, b"a", index=1)
    harness.flush()
    more = request(named("t", wanted(1)), session_id=session_id, epoch=1)
    answer = await ask(harness, more, BY_NAME)
    assert found(answer)[1][1] > 0


async def test_impossible_names_are_answered_and_not_remembered(harness):
    long = "t" * (NAME_BYTES_MAX + 1)
    answer = await ask(harness, request(named("t", wanted()), named(long, wanted())), BY_NAME)
    assert answer.session_id == 0
    assert [found(answer)[0][0]] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    session_id = (await ask(harness, request(named("t", wanted())), BY_NAME)).session_id
    assert session_id
    more = request(named(long, wanted(1)), session_id=session_id, epoch=1)
    answer = await ask(harness, more, BY_NAME)
    assert answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert not harness.contexts.data.fetch_sessions


async def test_session_by_name_forgets_by_name(harness):
    first = await ask(harness, request(named("t", wanted(0), wanted(1))), BY_NAME)
    for index in (0, 1):
        append(harness, b"a", index=index)
    harness.flush()
    gone = ForgottenTopic(topic="t", topic_id=NIL_UUID, partitions=[1])
    second = request(session_id=first.session_id, epoch=1, forgotten=[gone])
    assert set(found(await ask(harness, second, BY_NAME))) == {0}


# -- the state of a session


async def test_partition_named_again_is_read_at_new_offset(harness):
    append(harness, b"a")
    append(harness, b"b")
    harness.flush()
    first = await ask(harness, request(identified("t", wanted(0))))
    both = found(first)[0][1]
    second = request(identified("t", wanted(0, 1)), session_id=first.session_id, epoch=1)
    assert 0 < found(await ask(harness, second))[0][1] < both
    third = request(identified("t", wanted(0, 2)), session_id=first.session_id, epoch=2)
    assert found(await ask(harness, third)) == {}


async def test_new_partition_of_session_is_answered_though_empty(harness):
    first = await ask(harness, request(identified("t", wanted(0))))
    session_id = first.session_id
    second = request(identified("t", wanted(1)), session_id=session_id, epoch=1)
    assert found(await ask(harness, second)) == {1: (0, 0)}
    assert found(await ask(harness, request(session_id=session_id, epoch=2))) == {}


async def test_forgotten_partition_is_not_reported_again(harness):
    first = await ask(harness, request(identified("t", wanted(0), wanted(1))))
    append(harness, b"a", index=1)
    harness.flush()
    gone = ForgottenTopic(topic_id=topic_id("t"), partitions=[1])
    deferred = start(
        harness,
        request(session_id=first.session_id, epoch=1, forgotten=[gone], max_wait_ms=60_000),
    )
    assert isinstance(deferred, Paused)
    append(harness, b"b", index=1)
    harness.flush()
    append(harness, b"c", index=0)
    harness.flush()
    with trio.fail_after(30):
        assert set(found(await deferred.finish())) == {0}


async def test_moved_watermark_or_start_is_reported_without_records(harness):
    append(harness, b"a")
    append(harness, b"b")
    harness.flush()
    first = await ask(harness, request(identified("t", wanted(0, 2), wanted(1))))
    session_id = first.session_id
    assert found(await ask(harness, request(session_id=session_id, epoch=1))) == {}
    harness.leader().delete_records_before(1)
    answer = await ask(harness, request(session_id=session_id, epoch=2))
    [data] = answer.responses[0].partitions
    assert (data.partition_index, data.log_start_offset, data.high_watermark) == (0, 1, 2)
    assert found(await ask(harness, request(session_id=session_id, epoch=3))) == {}


# -- the end of a session


async def test_closing_session_ends_its_long_poll(harness):
    on = connection()
    first = await ask(harness, request(identified("t", wanted())), on=on)
    deferred = start(harness, request(session_id=first.session_id, epoch=1, max_wait_ms=60_000))
    answers = []

    async def wait():
        answers.append(await deferred.finish())

    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            assert answers == []
            on.mark_closed()
    assert found(answers[0]) == {}


async def test_full_fetch_naming_session_closes_it(harness):
    first = await ask(harness, request(identified("t", wanted())))
    other = await ask(harness, request(identified("t", wanted()), session_id=first.session_id))
    assert other.session_id not in (0, first.session_id)
    answer = await ask(harness, request(session_id=first.session_id, epoch=1))
    assert answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(harness.contexts.data.fetch_sessions) == 1


async def test_records_of_released_poll_go_to_next(harness):
    """The poll waited for more; the records that it had found belong to the session."""
    first = await ask(harness, request(identified("t", wanted(0), wanted(1))))
    append(harness, b"a")
    harness.flush()
    session_id = first.session_id
    deferred = start(
        harness, request(session_id=session_id, epoch=1, max_wait_ms=60_000, min_bytes=1 << 20)
    )
    assert isinstance(deferred, Paused)
    second = await ask(harness, request(session_id=session_id, epoch=2))
    assert found(second)[0][1] > 0
    with trio.fail_after(30):
        assert found(await deferred.finish()) == {}
    third = await ask(harness, request(session_id=session_id, epoch=3))
    assert found(third)[0][1] > 0, "it has not asked beyond it yet"


async def test_changes_seen_by_released_poll_go_to_next(harness):
    """Otherwise a follower and its consumers would not learn of the high watermark before the next record."""
    for value in (b"a", b"b"):
        append(harness, value)
    harness.flush()
    first = await ask(harness, request(identified("t", wanted(0, 2), wanted(1))))
    session_id = first.session_id
    assert found(await ask(harness, request(session_id=session_id, epoch=1))) == {}
    deferred = start(harness, request(session_id=session_id, epoch=2, max_wait_ms=60_000))
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(deferred.finish)
            await trio.testing.wait_all_tasks_blocked()
            harness.leader().delete_records_before(1)
            await trio.testing.wait_all_tasks_blocked()
            answer = await ask(harness, request(session_id=session_id, epoch=3))
    [data] = answer.responses[0].partitions
    assert (data.partition_index, data.log_start_offset) == (0, 1)


@pytest.mark.parametrize("is_news", [True, False])
async def test_partitions_skipped_by_released_poll_are_examined_next(harness, is_news):
    opening = request(identified("t", wanted(0), wanted(1)), max_bytes=1)
    if is_news:
        first = await ask(harness, opening)
    for index in (0, 1):
        append(harness, b"a", index=index)
    harness.flush()
    if not is_news:
        first = await ask(harness, opening)
    one = {"session_id": first.session_id, "max_bytes": 1}
    deferred = start(harness, request(epoch=1, max_wait_ms=60_000, min_bytes=1 << 20, **one))
    assert isinstance(deferred, Paused)
    given = set()
    for epoch in (2, 3):
        answer = await ask(harness, request(epoch=epoch, **one))
        given |= {index for index, (_, size) in found(answer).items() if size}
    assert given == {0, 1}


async def test_releasing_poll_is_released_in_turn(harness):
    first = await ask(harness, request(identified("t", wanted(0))))
    session_id = first.session_id
    polls = [
        start(harness, request(session_id=session_id, epoch=epoch, max_wait_ms=60_000))
        for epoch in (1, 2)
    ]
    with trio.fail_after(30):
        assert found(await polls[0].finish()) == {}
    append(harness, b"a")
    harness.flush()
    third = await ask(harness, request(session_id=session_id, epoch=3, max_wait_ms=60_000))
    assert found(third)[0][1] > 0
    with trio.fail_after(30):
        assert found(await polls[1].finish()) == {}
