"""Rules of commits, expiry and static members that no other test covers, one per test."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.broker.groups.driver import WALL_CLOCK_MS, Driver
from trimaran.broker.groups.classic.offsets import check_transactional_commit
from trimaran.broker.groups.classic.records import group_record
from trimaran.broker.groups.limits import GroupLimits
from trimaran.broker.groups.offsets import decide_commit, fetch
from trimaran.broker.groups.records import GroupRecord
from trimaran.node.replicated.state_machine import Producer, Result
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicIdPartition
from trimaran.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from trimaran.wire.messages.offset_fetch import OffsetFetchRequestGroup
from trimaran.wire.records.groups import GroupMetadataValue, OffsetCommitKey, OffsetCommitValue

E = ErrorCode
LIMITS = replace(GroupLimits(), offsets_retention_ms=60_000, expiry_interval_ms=1_000)


def stable(driver, name="a", **join):
    """Returns a static member, alone in a stable generation 1."""
    driver.join(name, instance=name, **join)
    driver.advance(3)
    member_id = driver.answers[name].member_id
    driver.sync(f"sync {name}", member_id, 1, {member_id: b"x"}, instance=name)
    return member_id


def empty_group():
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=3,
        protocol=None,
        leader=None,
        current_state_timestamp=WALL_CLOCK_MS,
        members=[],
    )
    return group_record("g", value)


@pytest.mark.parametrize("generation", [0, 1, 3])
def test_commit_with_generation_needs_membership(generation):
    """Only a client without a generation is a simple consumer; generation 0 is a generation."""
    driver = Driver(log=[empty_group()])
    assert driver.commit_offset(1, member_id="x", generation=generation) is E.UNKNOWN_MEMBER_ID
    assert driver.commit_offset(1, group="new", generation=generation) is E.GROUP_ID_NOT_FOUND
    assert driver.offset() is None
    assert driver.commit_offset(1, generation=-1) is E.NONE
    assert driver.offset() == 1


def test_unsubscribed_topics_are_kept_since_their_commit():
    """The time does not count from when the group was formed."""
    driver = Driver(LIMITS)
    member_id = stable(driver, session_ms=300_000)
    driver.advance(47)
    code = driver.commit_offset(1, member_id=member_id, generation=1, instance="a", topic="other")
    assert code is E.NONE
    driver.advance(58)
    assert driver.offset("other") == 1
    driver.advance(4)
    assert driver.offset("other") is None


def test_failed_return_keeps_the_members_session():
    driver = Driver()
    member_id = stable(driver)
    driver.failing = E.NOT_COORDINATOR
    driver.join("a2", instance="a", protocols=[("range", b"other")])
    driver.failing = None
    driver.advance(9)
    assert driver.heartbeat(member_id, 1, instance="a") is E.NONE
    driver.advance(11)
    assert driver.heartbeat(member_id, 1, instance="a") is E.UNKNOWN_MEMBER_ID


def test_silent_member_leaves_after_failed_return():
    driver = Driver()
    stable(driver)
    driver.failing = E.NOT_COORDINATOR
    driver.join("a2", instance="a", protocols=[("range", b"other")])
    driver.failing = None
    driver.advance(11)
    assert not driver.groups["g"].members


# -- what is stored and answered


def test_commit_makes_exact_records_and_response():
    """Each topic has its name and id; a refused partition has its code and no record."""
    request = OffsetCommitRequest(
        group_id="g",
        retention_time_ms=5,
        topics=[
            OffsetCommitRequestTopic(
                name=name,
                topic_id=topic_id,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=partition,
                        committed_offset=10 + partition,
                        committed_leader_epoch=20 + partition,
                        commit_timestamp=-1 if partition else 6,
                        committed_metadata=None if partition else name,
                    )
                    for partition in range(4)
                ],
            )
            for name, topic_id in (("t", b"t" * 16), ("u", bytes(16)))
        ],
    )
    request.topics[0].partitions[3].committed_metadata = "m" * 4097
    asked = []

    def check(partition):
        asked.append(partition)
        return E.GROUP_AUTHORIZATION_FAILED if partition.partition == 1 else E.NONE

    def refusal(key, metadata):
        asked.append((key, metadata))
        return E.INVALID_COMMIT_OFFSET_SIZE if key == ("u", 2) else E.NONE

    result = decide_commit(request, LIMITS, 1_000, check, refusal)

    def record(topic, topic_id, partition, metadata, committed_ms):
        return GroupRecord(
            OffsetCommitKey(group="g", topic=topic, partition=partition),
            OffsetCommitValue(
                offset=10 + partition,
                leader_epoch=20 + partition,
                metadata=metadata,
                commit_timestamp=committed_ms,
                expire_timestamp=1_005,
                topic_id=topic_id,
            ),
        )

    def answered(name, topic_id, *codes):
        return OffsetCommitResponseTopic(
            name=name,
            topic_id=topic_id,
            partitions=[
                OffsetCommitResponsePartition(partition_index=partition, error_code=code)
                for partition, code in enumerate(codes)
            ],
        )

    refused, full = E.GROUP_AUTHORIZATION_FAILED, E.INVALID_COMMIT_OFFSET_SIZE
    assert result == Result(
        [
            record("t", b"t" * 16, 0, "t", 6),
            record("t", b"t" * 16, 2, "", 1_000),
            record("u", bytes(16), 0, "u", 6),
            record("u", bytes(16), 3, "", 1_000),
        ],
        OffsetCommitResponse(
            throttle_time_ms=0,
            topics=[
                answered("t", b"t" * 16, E.NONE, refused, E.NONE, E.OFFSET_METADATA_TOO_LARGE),
                answered("u", bytes(16), E.NONE, refused, full, E.NONE),
            ],
        ),
    )
    # The last check reserves memory, so only an offset that passes all others may reach it.
    assert asked == [
        TopicIdPartition(b"t" * 16, 0),
        (("t", 0), "t"),
        TopicIdPartition(b"t" * 16, 1),
        TopicIdPartition(b"t" * 16, 2),
        (("t", 2), ""),
        TopicIdPartition(b"t" * 16, 3),
        TopicIdPartition(bytes(16), 0),
        (("u", 0), "u"),
        TopicIdPartition(bytes(16), 1),
        TopicIdPartition(bytes(16), 2),
        (("u", 2), ""),
        TopicIdPartition(bytes(16), 3),
        (("u", 3), ""),
    ]


# -- in a transaction


def transactional(driver, member_id="", generation=-1, instance=None, *, exists=False, version=6):
    """Returns the error code of the refusal, or NONE."""
    request = OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        group_instance_id=instance,
        topics=[],
    )
    try:
        check_transactional_commit(driver.groups.get("g"), request, version, exists)
    except KafkaError as error:
        return error.code
    return E.NONE


@pytest.mark.parametrize(
    ("member_id", "generation", "instance", "exists", "expected"),
    [
        ("", -1, None, False, E.NONE),
        ("a", -1, None, False, E.NONE),
        ("", -1, "a", True, E.NONE),
        ("", 0, None, False, E.GROUP_ID_NOT_FOUND),
        ("a", 1, None, False, E.GROUP_ID_NOT_FOUND),
        ("a", 1, None, True, E.UNKNOWN_MEMBER_ID),
    ],
)
def test_transactional_commit_without_group_follows_rules(
    member_id, generation, instance, exists, expected
):
    assert transactional(Driver(), member_id, generation, instance, exists=exists) is expected


def test_version_6_has_own_code_for_missing_groups():
    assert transactional(Driver(), "a", 1, version=5) is E.ILLEGAL_GENERATION
    assert transactional(Driver(), "a", 1, version=6) is E.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize("generation", [-1, 0, 3])
def test_transactional_commit_to_empty_group_follows_rules(generation):
    """A commit with a generation must come from a member."""
    driver = Driver(log=[empty_group()])
    expected = E.NONE if generation < 0 else E.UNKNOWN_MEMBER_ID
    assert transactional(driver, "x", generation, exists=True) is expected


def test_transactional_commit_with_member_needs_its_generation():
    driver = Driver()
    member_id = stable(driver)
    assert transactional(driver) is E.NONE  # from a client before KIP-447
    assert transactional(driver, member_id, 1) is E.NONE
    assert transactional(driver, member_id, 1, "a") is E.NONE
    assert transactional(driver, member_id, 0) is E.ILLEGAL_GENERATION
    assert transactional(driver, member_id, 2) is E.ILLEGAL_GENERATION
    assert transactional(driver, member_id, -1) is E.ILLEGAL_GENERATION
    assert transactional(driver, "x", 1) is E.UNKNOWN_MEMBER_ID
    assert transactional(driver, "x", 1, "a") is E.FENCED_INSTANCE_ID
    assert transactional(driver, "", -1, "a") is E.FENCED_INSTANCE_ID
    assert transactional(driver, "", 1) is E.UNKNOWN_MEMBER_ID


def test_only_stable_reads_see_open_transactions():
    driver = Driver()
    driver.commit_offset(1, partition=0)
    driver.commit_offset(2, partition=1)
    key = OffsetCommitKey(group="g", topic="t", partition=1)
    value = OffsetCommitValue(offset=9, metadata="", commit_timestamp=0)
    driver.shard.replay(99, GroupRecord(key, value), Producer(7, 0))

    def read(**how):
        asked = OffsetFetchRequestGroup(group_id="g", topics=None)
        (topic,) = fetch(driver.shard.store, asked, driver.knows_topic, **how).topics
        return {
            partition.partition_index: (partition.committed_offset, ErrorCode(partition.error_code))
            for partition in topic.partitions
        }

    assert read() == {0: (1, E.NONE), 1: (2, E.NONE)}
    assert read(require_stable=True) == {0: (1, E.NONE), 1: (-1, E.UNSTABLE_OFFSET_COMMIT)}
