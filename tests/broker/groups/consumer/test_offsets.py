"""The rights to commit and fetch offsets of a consumer group, one rule per test."""

from __future__ import annotations

from dataclasses import replace

import pytest

from trimaran.broker.groups.consumer import records
from trimaran.broker.groups.consumer.group import ConsumerGroup
from trimaran.broker.groups.consumer.member import ConsumerMember
from trimaran.broker.groups.consumer.migration import classic_metadata
from trimaran.broker.groups.consumer.offsets import (
    MEMBER_EPOCH_VERSION,
    check_commit,
    check_transactional_commit,
)
from trimaran.broker.groups.heartbeating.offsets import check_fetch
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicIdPartition
from trimaran.wire.messages.offset_commit import OffsetCommitRequest
from trimaran.wire.messages.offset_fetch import OffsetFetchRequestGroup

E = ErrorCode
T, U = b"t" * 16, b"u" * 16
# The member has had t:0 since epoch 2 and t:1 since 4, and must revoke t:2.
A = ConsumerMember("a", epoch=5, assigned={T: {0: 2, 1: 4}}, revoking={T: {2: 3}})
CLASSIC = replace(A, id="c", assigned={}, revoking={}, classic=classic_metadata(10, ()))


def group(*members):
    found = ConsumerGroup("g")
    for member in members:
        for record in (records.RECORDS.member("g", member), records.RECORDS.current("g", member)):
            found.apply(record.key, record.value)
    return found


def outcome(*asked, partition=(T, 0), **more):
    """Returns the error code of one partition, or of the whole response."""
    try:
        return check_commit(*asked, **more)(TopicIdPartition(*partition))
    except KafkaError as error:
        return error.code


@pytest.mark.parametrize(
    ("members", "member_id", "epoch", "expected"),
    [
        ((), "", -1, E.NONE),
        ((), "", 0, E.UNKNOWN_MEMBER_ID),
        ((), "a", 1, E.UNKNOWN_MEMBER_ID),
        ((A,), "", -1, E.UNKNOWN_MEMBER_ID),
        ((A,), "a", 5, E.NONE),
        ((A,), "a", 6, E.STALE_MEMBER_EPOCH),
        ((A,), "a", -1, E.STALE_MEMBER_EPOCH),
        ((CLASSIC,), "c", 5, E.NONE),
        ((CLASSIC,), "c", 6, E.ILLEGAL_GENERATION),
        ((CLASSIC,), "c", 4, E.ILLEGAL_GENERATION),
    ],
)
def test_commit_needs_membership_and_epoch(members, member_id, epoch, expected):
    assert outcome(group(*members), member_id, epoch, MEMBER_EPOCH_VERSION) is expected


@pytest.mark.parametrize(
    ("epoch", "partition", "expected"),
    [
        (5, (U, 9), E.NONE),  # at its own epoch, it may commit
        (4, (T, 0), E.NONE),
        (2, (T, 0), E.NONE),
        (1, (T, 0), E.STALE_MEMBER_EPOCH),
        (4, (T, 1), E.NONE),
        (3, (T, 1), E.STALE_MEMBER_EPOCH),
        (3, (T, 2), E.NONE),
        (2, (T, 2), E.STALE_MEMBER_EPOCH),
        (4, (T, 3), E.STALE_MEMBER_EPOCH),
        (4, (U, 0), E.STALE_MEMBER_EPOCH),
    ],
)
def test_older_epoch_commits_partitions_kept_since(epoch, partition, expected):
    assert outcome(group(A), "a", epoch, MEMBER_EPOCH_VERSION, partition=partition) is expected


def test_epochless_versions_commit_only_for_classic_members():
    both = group(A, CLASSIC)
    old = MEMBER_EPOCH_VERSION - 1
    assert outcome(both, "a", 5, old) is E.UNSUPPORTED_VERSION
    assert outcome(both, "c", 5, old) is E.NONE
    assert outcome(both, "a", 5, old, is_transactional=True) is E.NONE


@pytest.mark.parametrize(
    ("version", "stale"), [(5, E.ILLEGAL_GENERATION), (6, E.STALE_MEMBER_EPOCH)]
)
def test_transactional_version_6_has_stale_code(version, stale):
    """The code is returned for a newer epoch, and for a partition that was assigned after an older epoch."""
    for epoch, partition in ((6, (T, 0)), (1, (T, 0))):
        arguments = (group(A), "a", epoch, version)
        assert outcome(*arguments, partition=partition, is_transactional=True) is stale


@pytest.mark.parametrize(
    ("member_id", "epoch", "instance", "expected"),
    [
        ("", -1, None, E.NONE),  # a producer without a member id
        ("a", 5, None, E.NONE),
        ("a", 6, None, E.STALE_MEMBER_EPOCH),
        ("a", -1, None, E.STALE_MEMBER_EPOCH),
        ("", 0, None, E.UNKNOWN_MEMBER_ID),
        ("", -2, None, E.UNKNOWN_MEMBER_ID),
        ("", -1, "i", E.UNKNOWN_MEMBER_ID),
    ],
)
def test_transactional_commit_needs_membership(member_id, epoch, instance, expected):
    request = OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=epoch,
        member_id=member_id,
        group_instance_id=instance,
        topics=[],
    )
    try:
        found = check_transactional_commit(group(A), request, 6)(TopicIdPartition(T, 9))
    except KafkaError as error:
        found = error.code
    assert found is expected


@pytest.mark.parametrize(
    ("member_id", "epoch", "expected"),
    [
        (None, -1, E.NONE),
        ("a", 5, E.NONE),
        ("a", 4, E.STALE_MEMBER_EPOCH),
        ("a", 6, E.STALE_MEMBER_EPOCH),
        ("a", -1, E.STALE_MEMBER_EPOCH),
        ("b", 5, E.UNKNOWN_MEMBER_ID),
        ("", -1, E.UNKNOWN_MEMBER_ID),
        (None, 0, E.UNKNOWN_MEMBER_ID),
        (None, 5, E.UNKNOWN_MEMBER_ID),
    ],
)
def test_reading_needs_membership_and_epoch(member_id, epoch, expected):
    request = OffsetFetchRequestGroup(
        group_id="g", member_id=member_id, member_epoch=epoch, topics=None
    )
    try:
        check_fetch(group(A), request)
        found = E.NONE
    except KafkaError as error:
        found = error.code
    assert found is expected
