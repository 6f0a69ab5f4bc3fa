"""Commits and fetches of offsets by members of a streams group, and by clients without a member."""

from __future__ import annotations

import pytest

from tests.broker.groups.driver import topic_id
from tests.broker.groups.streams.driver import StreamsDriver, subtopology, topology
from trimaran.broker.groups.heartbeating.offsets import check_fetch
from trimaran.broker.groups.streams.offsets import check_commit
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicIdPartition
from trimaran.wire.messages.offset_commit import OffsetCommitRequest
from trimaran.wire.messages.offset_fetch import OffsetFetchRequestGroup

STALE = ErrorCode.STALE_MEMBER_EPOCH


@pytest.fixture
def driver():
    driver = StreamsDriver()
    driver.beat("a")
    driver.beat("b")
    driver.settled_beats("a", "b")  # a: 0 and 1 since epoch 2; b: 2 and 3 since epoch 3
    return driver


def commit(driver, member_id, epoch, version=9, *, transactional=False, instance=None):
    request = OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=epoch,
        member_id=member_id,
        group_instance_id=instance,
        topics=[],
    )
    return check_commit(
        driver.group, driver.topics.name_of, request, version, is_transactional=transactional
    )


def code_of(call, *args, **fields):
    with pytest.raises(KafkaError) as raised:
        call(*args, **fields)
    return raised.value.code


def test_member_commits_at_its_epoch(driver):
    check = commit(driver, "a", 3)
    assert check(TopicIdPartition(b"any", 9)) is ErrorCode.NONE


@pytest.mark.parametrize(
    ("partition", "code"), [(0, ErrorCode.NONE), (1, ErrorCode.NONE), (2, STALE)]
)
def test_older_epoch_commits_tasks_that_it_had(driver, partition, code):
    check = commit(driver, "a", 2)
    assert check(TopicIdPartition(topic_id("t"), partition)) is code


def test_task_of_the_newest_epoch_needs_it(driver):
    check = commit(driver, "b", 2)
    assert check(TopicIdPartition(topic_id("t"), 2)) is STALE


@pytest.mark.parametrize("unknown", [b"unknown", topic_id("u")])
def test_commit_for_other_topic_is_stale(driver, unknown):
    driver.topics.set("u", 4)
    assert commit(driver, "a", 2)(TopicIdPartition(unknown, 0)) is STALE


def test_task_under_revocation_may_be_committed(driver):
    driver.beat("c")
    driver.beat("d")
    driver.beat("a", 3)
    assert driver.group.members["a"].revoking.active
    check = commit(driver, "a", 2)
    assert check(TopicIdPartition(topic_id("t"), 0)) is ErrorCode.NONE
    assert check(TopicIdPartition(topic_id("t"), 1)) is ErrorCode.NONE


def test_commit_of_others_is_refused(driver):
    assert code_of(commit, driver, "x", 3) is ErrorCode.UNKNOWN_MEMBER_ID
    assert code_of(commit, driver, "a", 4) is STALE
    assert code_of(commit, driver, "a", 3, 8) is ErrorCode.UNSUPPORTED_VERSION
    assert code_of(commit, driver, "", -1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_transaction_without_a_member_may_commit(driver):
    assert commit(driver, "", -1, transactional=True)(None) is ErrorCode.NONE
    refused = code_of(commit, driver, "", -1, transactional=True, instance="i")
    assert refused is ErrorCode.UNKNOWN_MEMBER_ID
    for member_id, epoch in (("", 3), ("", -2), ("x", -1)):
        refused = code_of(commit, driver, member_id, epoch, transactional=True)
        assert refused is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(driver, "a", 3, 0, transactional=True)(None) is ErrorCode.NONE


def test_anonymous_client_commits_for_empty_group(driver):
    driver.beat("a", -1)
    driver.beat("b", -1)
    assert commit(driver, "", -1)(None) is ErrorCode.NONE
    assert code_of(commit, driver, "a", 0) is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("member_id", "epoch", "code"),
    [
        (None, -1, None),
        ("a", 3, None),
        ("a", 2, STALE),
        ("x", 3, ErrorCode.UNKNOWN_MEMBER_ID),
        (None, 0, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_fetch_needs_member_at_its_epoch(driver, member_id, epoch, code):
    request = OffsetFetchRequestGroup(
        group_id="g", member_id=member_id, member_epoch=epoch, topics=None
    )
    if code is None:
        check_fetch(driver.group, request)
    else:
        assert code_of(check_fetch, driver.group, request) is code


def test_sources_of_a_group_are_subscribed():
    driver = StreamsDriver()
    driver.beat("a", topology=topology(subtopology("0", ["t"], changelogs=["c"])))
    subscribed = driver.streams.is_subscribed_to
    assert (subscribed("g", "t"), subscribed("g", "c")) == (True, False)
    driver.beat("a", -1)
    assert not subscribed("g", "t")
