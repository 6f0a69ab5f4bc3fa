"""Share sessions: epochs, errors, limits, and the partitions that a response names."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from trimaran.broker.fetching.sessions import EPOCH_MAX
from trimaran.broker.sharing.sessions import ShareSessions
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicIdPartition

T0, T1, T2 = (TopicIdPartition(b"t" * 16, index) for index in range(3))


@contextmanager
def check_refused(code):
    with pytest.raises(KafkaError) as error:
        yield
    assert error.value.code is code


def begun(sessions, *partitions, group="g", member="m"):
    return sessions.begin(group, member, partitions, acknowledges=False)


def test_epochs_count_fetches_and_acknowledgements():
    sessions = ShareSessions(10)
    session = begun(sessions, T0)
    assert session.epoch == 1
    assert sessions.resume("g", "m", 1, (), ()) is session
    assert sessions.acknowledge("g", "m", 2) is session
    assert session.epoch == 3
    for wrong in (1, 2, 4):
        with check_refused(ErrorCode.INVALID_SHARE_SESSION_EPOCH):
            sessions.resume("g", "m", wrong, (), ())
        with check_refused(ErrorCode.INVALID_SHARE_SESSION_EPOCH):
            sessions.acknowledge("g", "m", wrong)
    assert session.epoch == 3


def test_epoch_after_the_largest_is_one():
    sessions = ShareSessions(10)
    session = begun(sessions, T0)
    session.epoch = EPOCH_MAX
    sessions.resume("g", "m", EPOCH_MAX, (), ())
    assert session.epoch == 1


def test_final_epoch_finds_the_session():
    sessions = ShareSessions(10)
    session = begun(sessions, T0)
    assert sessions.resume("g", "m", -1, (T1,), ()) is session
    assert sessions.acknowledge("g", "m", -1) is session
    assert (session.epoch, list(session.partitions)) == (1, [T0])


def test_unknown_sessions_are_refused():
    sessions = ShareSessions(10)
    begun(sessions, T0)
    for epoch in (-1, 1):
        for group, member in (("g", "n"), ("h", "m")):
            with check_refused(ErrorCode.SHARE_SESSION_NOT_FOUND):
                sessions.resume(group, member, epoch, (), ())
            with check_refused(ErrorCode.SHARE_SESSION_NOT_FOUND):
                sessions.acknowledge(group, member, epoch)


def test_acknowledgement_begins_no_session():
    sessions = ShareSessions(10)
    begun(sessions, T0)
    with check_refused(ErrorCode.INVALID_SHARE_SESSION_EPOCH):
        sessions.acknowledge("g", "m", 0)
    with check_refused(ErrorCode.INVALID_REQUEST):
        sessions.begin("g", "m", (T0,), acknowledges=True)
    assert len(sessions) == 1


def test_partitions_are_added_and_forgotten():
    sessions = ShareSessions(10)
    session = begun(sessions, T0, T1, T1)
    assert sessions.partitions == 2
    sessions.resume("g", "m", 1, (T1, T2), (T0, T0, TopicIdPartition(b"u" * 16, 0)))
    assert (list(session.partitions), sessions.partitions) == ([T1, T2], 2)
    assert session.must_name == {T2}
    sessions.resume("g", "m", 2, (), (T2,))
    assert (list(session.partitions), session.must_name, sessions.partitions) == ([T1], set(), 1)


def test_new_session_replaces_the_members_own():
    sessions = ShareSessions(1)
    ended = []
    old = begun(sessions, T0, T1)
    old.on_close = lambda: ended.append(old)
    new = begun(sessions, T2)
    assert (ended, len(sessions), sessions.partitions) == ([old], 1, 1)
    assert (old.is_over, new.is_over) == (True, False)
    assert not sessions.close(old)
    assert sessions.has_group("g")
    assert sessions.close(new)
    assert not sessions.close(new)
    assert (len(sessions), sessions.partitions, sessions.has_group("g")) == (0, 0, False)


def test_sessions_are_limited():
    sessions = ShareSessions(2)
    begun(sessions, T0)
    begun(sessions, T0, member="n")
    with check_refused(ErrorCode.SHARE_SESSION_LIMIT_REACHED):
        begun(sessions, T0, member="o")
    assert begun(sessions, T1, member="n").epoch == 1
    sessions.close_all()
    assert len(sessions) == 0
    begun(sessions, T0, member="o")


def test_partitions_of_all_sessions_are_limited():
    sessions = ShareSessions(10, partitions_max=3)
    begun(sessions, T0, T1)
    with check_refused(ErrorCode.SHARE_SESSION_LIMIT_REACHED):
        begun(sessions, T0, T1, member="n")
    begun(sessions, T0, member="n")
    with check_refused(ErrorCode.SHARE_SESSION_LIMIT_REACHED):
        sessions.resume("g", "n", 1, (T1,), ())
    sessions.resume("g", "m", 1, (), (T0,))
    sessions.resume("g", "n", 1, (T1,), ())
    assert sessions.partitions == 3
    begun(sessions, T2)  # the session that it replaces makes room
    assert sessions.partitions == 3


def test_session_that_does_not_fit_replaces_none():
    sessions = ShareSessions(2, partitions_max=3)
    old, other = begun(sessions, T0, T1), begun(sessions, T0, member="n")
    with check_refused(ErrorCode.SHARE_SESSION_LIMIT_REACHED):
        begun(sessions, T0, T1, T2)
    assert (old.is_over, len(sessions), sessions.partitions) == (False, 2, 3)
    assert sessions.resume("g", "m", 1, (), ()) is old
    sessions.close(other)
    new = begun(sessions, T0, T1, T2)
    assert (old.is_over, new.is_over, sessions.partitions) == (True, False, 3)


def test_partitions_are_read_in_turn():
    session = begun(ShareSessions(10), T0, T1, T2)
    assert session.rotated(0) == [T0, T1, T2]
    assert session.rotated(1) == [T1, T2, T0]
    assert session.rotated(3) == [T0, T1, T2]
    assert session.rotated(-1) == [T0, T1, T2]
    assert begun(ShareSessions(10)).rotated(5) == []


def test_response_names_news_only():
    session = begun(ShareSessions(10), T0, T1)

    def named(partition, **found):
        answer = {"has_records": False, "is_error": False, "is_full": False, **found}
        return session.responds(partition, **answer)

    assert named(T0, is_full=True, has_records=True)
    assert named(T1, is_full=True, is_error=True)
    assert (list(session.partitions), session.must_name) == ([T0, T1], set())
    assert not named(T0)
    assert named(T0, has_records=True)
    assert list(session.partitions) == [T1, T0]
    assert named(T1, is_error=True)
    assert named(T1)
    assert not named(T1)
    session.must_name.add(T0)
    assert named(T0)
    assert not named(T0)
    assert not named(T2)
    assert named(T2, has_records=True)
    assert list(session.partitions) == [T1, T0]


def test_group_has_sessions_until_the_last_ends():
    sessions = ShareSessions(10)
    first, second = begun(sessions, T0), begun(sessions, T0, T1, member="n")
    assert sessions.partitions == 3
    assert sessions.close(first)
    assert sessions.has_group("g")
    members = [sessions.has_member(*each) for each in (("g", "m"), ("g", "n"), ("h", "n"))]
    assert members == [False, True, False]
    assert sessions.close(second)
    assert not sessions.has_group("g")
    assert (sessions.partitions, len(sessions)) == (0, 0)


def test_partition_of_two_requests_counts_once():
    sessions = ShareSessions(10, partitions_max=3)
    session = begun(sessions, T0)
    sessions.resume("g", "m", 1, (T0, T1), ())
    assert (sessions.partitions, session.must_name) == (2, {T1})
    with check_refused(ErrorCode.SHARE_SESSION_LIMIT_REACHED):
        sessions.resume("g", "m", 2, (T0, T2), ())
    assert session.epoch == 2
