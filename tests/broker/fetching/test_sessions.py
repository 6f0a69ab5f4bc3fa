"""Fetch sessions (KIP-227): epochs, errors, eviction, and the same records as without a session."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from tests.broker.batches import append
from tests.broker.calls import Paused, call, connection, finished, started, through_wire
from tests.cluster.data_side import open_harness, partition, topic, topic_id
from trimaran.broker.fetching.sessions import (
    EPOCH_MAX,
    EVICTION_IDLE_SECONDS,
    FetchSessions,
    next_epoch,
)
from trimaran.broker.handlers.fetch import fetch
from trimaran.wire.buffers.outgoing import records_view
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic

VERSION = 18


def wanted(index=0, offset=0, **fields):
    return FetchPartition(
        partition=index, fetch_offset=offset, partition_max_bytes=1 << 20, **fields
    )


def request(*partitions, session_id=0, epoch=-1, forgotten=(), max_wait_ms=0, name="t", **fields):
    topics = (
        [FetchTopic(topic_id=topic_id(name), partitions=list(partitions))] if partitions else []
    )
    gone = (
        [ForgottenTopic(topic_id=topic_id(name), partitions=list(forgotten))] if forgotten else []
    )
    return through_wire(
        FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            session_id=session_id,
            session_epoch=epoch,
            topics=topics,
            forgotten_topics_data=gone,
            **fields,
        ),
        VERSION,
    )


async def ask(harness, request, on=None):
    return await finished(fetch(request, harness.contexts.data, call(request, VERSION, on)))


def found(response):
    """Returns (error, size of records) by partition index."""
    return {
        data.partition_index: (data.error_code, 0 if not data.records else data.records.size)
        for answered in response.responses
        for data in answered.partitions
    }


@pytest.fixture
def harness(tmp_path):
    harness = open_harness(tmp_path)
    harness.set_image(topic("t", *[partition() for _ in range(4)]))
    return harness


async def test_session_returns_only_changes(harness):
    append(harness, b"a", index=1)
    harness.flush()
    first = await ask(harness, request(*(wanted(i) for i in range(4)), epoch=0))
    assert first.session_id != 0
    assert set(found(first)) == {0, 1, 2, 3}
    again = await ask(harness, request(wanted(1, 1), session_id=first.session_id, epoch=1))
    assert found(again) == {}
    append(harness, b"b", index=2)
    harness.flush()
    third = await ask(harness, request(session_id=first.session_id, epoch=2))
    assert set(found(third)) == {2}
    assert found(third)[2][1] > 0


async def test_unacknowledged_records_are_sent_again(harness):
    """A client that lost a response's records fetches from the same offset, without naming the partition again."""
    append(harness, b"a")
    harness.flush()
    first = await ask(harness, request(wanted(), epoch=0))
    again = await ask(harness, request(session_id=first.session_id, epoch=1))
    assert found(again) == found(first)


async def test_forgotten_partitions_are_silent_unknown_ones_ignored(harness):
    first = await ask(harness, request(wanted(0), wanted(1), epoch=0))
    append(harness, b"a", index=1)
    harness.flush()
    second = await ask(harness, request(session_id=first.session_id, epoch=1, forgotten=(1, 77)))
    assert found(second) == {}


async def test_errors_are_repeated_until_they_pass(harness):
    first = await ask(harness, request(wanted(0), wanted(9), epoch=0))
    assert found(first)[9][0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    second = await ask(harness, request(session_id=first.session_id, epoch=1))
    assert found(second) == {9: (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0)}
    harness.set_image(topic("t", *[partition() for _ in range(10)]))
    third = await ask(harness, request(session_id=first.session_id, epoch=2))
    assert found(third) == {9: (0, 0)}
    append(harness, b"a", index=9)
    harness.flush()
    fourth = await ask(harness, request(session_id=first.session_id, epoch=3))
    assert found(fourth)[9][1] > 0


@pytest.mark.parametrize(
    ("epoch", "wrong_id", "code"),
    [
        (1, True, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        (2, False, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        (5, False, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
    ],
)
async def test_wrong_ids_and_epochs_are_refused(harness, epoch, wrong_id, code):
    first = await ask(harness, request(wanted(), epoch=0))
    session_id = first.session_id ^ 1 if wrong_id else first.session_id
    answer = await ask(harness, request(session_id=session_id, epoch=epoch))
    assert (answer.error_code, answer.responses) == (code, [])


async def test_final_epoch_ends_the_session(harness):
    first = await ask(harness, request(wanted(), epoch=0))
    await ask(harness, request(wanted(), session_id=first.session_id, epoch=-1))
    answer = await ask(harness, request(session_id=first.session_id, epoch=1))
    assert answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


async def test_closed_connection_closes_its_sessions(harness):
    on = connection()
    await ask(harness, request(wanted(), epoch=0), on)
    assert len(harness.contexts.data.fetch_sessions) == 1
    on.mark_closed()
    assert len(harness.contexts.data.fetch_sessions) == 0
    watchers = harness.leader().replica.watchers
    assert not watchers._upto_watermark
    assert not watchers._upto_end


async def test_connection_forgets_ended_sessions(harness):
    on = connection()
    session_id = 0
    for _ in range(20):
        answer = await ask(harness, request(wanted(), session_id=session_id, epoch=0), on)
        session_id = answer.session_id
    assert len(harness.contexts.data.fetch_sessions) == 1
    assert len(on._callbacks) == 1
    await ask(harness, request(wanted(), session_id=session_id, epoch=-1), on)
    assert not on._callbacks


async def test_second_request_releases_the_first(harness):
    first = await ask(harness, request(wanted(0), epoch=0))
    parked_request = request(session_id=first.session_id, epoch=1, max_wait_ms=60_000)
    deferred = started(fetch(parked_request, harness.contexts.data, call(parked_request, VERSION)))
    assert isinstance(deferred, Paused)
    append(harness, b"a", index=1)
    harness.flush()
    second = await ask(
        harness, request(wanted(1), session_id=first.session_id, epoch=2, max_wait_ms=60_000)
    )
    assert found(second)[1][1] > 0
    with trio.fail_after(30):
        assert found(await deferred.finish()) == {}


def test_epochs_wrap_to_one():
    assert [next_epoch(0), next_epoch(7), next_epoch(EPOCH_MAX)] == [1, 8, 1]


def x(count, first=0):
    return [FetchTopic(topic_id=b"x" * 16, partitions=[wanted(first + i) for i in range(count)])]


def open_with(sessions, size, *, privileged=False, now=0.0):
    session = sessions.open(privileged=privileged, by_id=True, size=size, now=now)
    if session is not None:
        started(session.update(x(size), ()))
    return session


def test_full_cache_admits_larger_or_follower_sessions():
    sessions = FetchSessions(2)
    small, _large = open_with(sessions, 1), open_with(sessions, 5)
    assert open_with(sessions, 1) is None
    assert open_with(sessions, 3) is not None, "takes the small one's place"
    with pytest.raises(KafkaError):
        sessions.find(FetchRequest(max_wait_ms=0, min_bytes=0, session_id=small.id, topics=[]), 0.0)
    follower = open_with(sessions, 1, privileged=True, now=1.0)
    assert follower is not None
    assert len(sessions) == 2
    assert open_with(sessions, 1, now=EVICTION_IDLE_SECONDS) is not None, "the idle go first"
    assert len(sessions) == 2
    assert follower.slots, "used later than the others' last use"


def test_partitions_of_all_sessions_are_bounded():
    sessions = FetchSessions(10, partitions_max=10)
    small, large = open_with(sessions, 2), open_with(sessions, 6)
    assert open_with(sessions, 11) is None
    assert not small.closed
    assert open_with(sessions, 3) is not None, "takes the small one's place"
    assert small.closed
    more = x(7)
    request = FetchRequest(
        max_wait_ms=0, min_bytes=0, session_id=large.id, session_epoch=1, topics=more
    )
    sessions.find(request, 0.0)
    started(large.update(more, ()))
    request.session_epoch = 2
    request.topics = [FetchTopic(topic_id=b"y" * 16, partitions=[wanted(0)])]
    with pytest.raises(KafkaError) as caught:
        sessions.find(request, 0.0)
    assert caught.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert open_with(sessions, 7) is not None, "what was closed has given its room back"


def test_session_closed_meanwhile_takes_no_more_room():
    sessions = FetchSessions(10, partitions_max=10)
    session = sessions.open(privileged=False, by_id=True, size=10, now=0.0)
    update = session.update(x(10), ())
    next(update)
    sessions.close(session.id)
    started(update)
    assert not session.slots
    assert open_with(sessions, 10) is not None


def test_closed_session_with_unfinished_update_frees_room():
    """The connection of the session was lost."""
    sessions = FetchSessions(10, partitions_max=10)
    session = sessions.open(privileged=False, by_id=True, size=10, now=0.0)
    update = session.update(x(10), ())
    next(update)
    sessions.close(session.id)
    assert open_with(sessions, 10) is not None


def test_sessions_growing_together_stay_within_bound():
    """A large request is entered in steps: its room is reserved before the first."""
    sessions = FetchSessions(10, partitions_max=10)
    grown, begun = open_with(sessions, 2), open_with(sessions, 2)
    request = FetchRequest(
        max_wait_ms=0, min_bytes=0, session_id=grown.id, session_epoch=1, topics=x(4, 2)
    )
    growing = sessions.find(request, 0.0).update(request.topics, ())
    next(growing)
    request.session_id = begun.id
    with pytest.raises(KafkaError):
        sessions.find(request, 0.0)
    assert begun.closed
    opened = sessions.open(privileged=False, by_id=True, size=4, now=0.0)
    opening = opened.update(x(4), ())
    assert sessions.open(privileged=False, by_id=True, size=1, now=0.0) is None
    started(growing)
    started(opening)
    assert (len(grown.slots), len(opened.slots)) == (6, 4)
    assert open_with(sessions, 1) is None


def test_unneeded_room_of_update_is_returned():
    sessions = FetchSessions(10, partitions_max=10)
    session = open_with(sessions, 4)
    request = FetchRequest(
        max_wait_ms=0, min_bytes=0, session_id=session.id, session_epoch=1, topics=x(5)
    )
    started(sessions.find(request, 0.0).update(request.topics, ()))
    assert len(session.slots) == 5
    assert open_with(sessions, 5) is not None
    assert open_with(sessions, 1) is None
    sessions.close(session.id)
    assert open_with(sessions, 5) is not None


def test_no_cache_means_no_sessions():
    assert open_with(FetchSessions(0), 5) is None


@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["append", "fetch", "forget", "stale"]),
            st.integers(0, 2),
            st.integers(1, 3),
        ),
        max_size=25,
    )
)
def test_session_returns_same_records_as_full_fetches(steps):
    """A client with a session is the twin: it ends up with exactly the records of each partition, in order."""
    path = Path(tempfile.mkdtemp())
    try:
        trio.run(assert_same_records, path, steps)
    finally:
        shutil.rmtree(path)


async def assert_same_records(path, steps):
    harness = open_harness(path, trimaran_log_fsync="none")
    harness.set_image(topic("t", *[partition() for _ in range(3)]))
    client = _Client(harness)
    counts = [0, 0, 0]
    for kind, index, number in steps:
        if kind == "append":
            for _ in range(number):
                append(harness, b"%d" % counts[index], index=index)
                counts[index] += 1
        elif kind == "fetch":
            await client.poll()
        elif kind == "forget":
            client.forget(index)
        else:
            client.lose_next = True
    for _ in range(3):
        await client.poll()
    for index in range(3):
        if index in client.positions:
            assert client.received[index] == list(range(counts[index]))
    harness.directory.close(broker_epoch=1)


class _Client:
    """A minimal client side of KIP-227."""

    def __init__(self, harness) -> None:
        self.harness = harness
        self.positions = {0: 0, 1: 0, 2: 0}
        self.received = {0: [], 1: [], 2: []}
        self.session_id, self.epoch = 0, 0
        self.sent: dict[int, int] = {}
        self.forgotten: list[int] = []
        self.lose_next = False

    def forget(self, index):
        if index in self.positions and len(self.positions) > 1:
            del self.positions[index]
            if self.sent.pop(index, None) is not None:
                self.forgotten.append(index)

    async def poll(self):
        changed = {i: o for i, o in self.positions.items() if self.sent.get(i) != o}
        message = request(
            *(wanted(index, offset) for index, offset in changed.items()),
            session_id=self.session_id,
            epoch=self.epoch,
            forgotten=self.forgotten,
        )
        self.sent.update(changed)
        self.forgotten = []
        answer = await ask(self.harness, message)
        assert answer.error_code == 0
        self.session_id, self.epoch = answer.session_id, next_epoch(self.epoch)
        if self.lose_next:
            self.lose_next = False
            return
        for answered in answer.responses:
            for data in answered.partitions:
                if data.partition_index in self.positions:
                    self._take(data)

    def _take(self, data):
        from trimaran.log.batches.batch import iter_batches
        from trimaran.log.batches.records import decode_records

        records = data.records
        raw = records.read() if hasattr(records, "read") else bytes(records_view(records))
        for batch in iter_batches(raw):
            for record in decode_records(batch):
                assert record.offset == self.positions[data.partition_index]
                self.received[data.partition_index].append(int(record.value))
                self.positions[data.partition_index] += 1


def test_forgotten_partitions_free_their_room():
    sessions = FetchSessions(10, partitions_max=10)
    session = open_with(sessions, 10)
    gone = ForgottenTopic(topic_id=b"x" * 16, partitions=[0, 1])
    started(session.update((), [gone]))
    assert sessions.open(privileged=False, by_id=True, size=3, now=0.0) is None
    assert open_with(sessions, 2) is not None
    assert sessions.open(privileged=False, by_id=True, size=1, now=0.0) is None


def test_unreserved_partition_takes_room_on_arrival():
    """Another request of the session has meanwhile removed a partition that this one expects to be there."""
    sessions = FetchSessions(10, partitions_max=10)
    session = open_with(sessions, 2, privileged=True)
    started(session.update(x(1, 5), ()))
    assert len(session.slots) == 3
    assert sessions.open(privileged=False, by_id=True, size=8, now=0.0) is None
    assert open_with(sessions, 7) is not None
    assert sessions.open(privileged=False, by_id=True, size=1, now=0.0) is None
