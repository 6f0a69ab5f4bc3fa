"""Descriptions for administrators of both kinds of groups, and of groups that only have offsets."""

from __future__ import annotations

import pytest

from tests.broker.groups.driver import Driver
from trimaran.wire.errors import ErrorCode, KafkaError

E = ErrorCode


@pytest.fixture
def driver():
    """Returns a driver in which `old` has a member, `new` one of the consumer protocol, and `offsets` none."""
    found = Driver()
    found.join("a", version=3, group="old")
    found.consumer_heartbeat("b", group="new")
    found.commit_offset(1, group="offsets")
    return found


@pytest.mark.parametrize(
    ("group", "words"),
    [("old", "not a consumer group"), ("offsets", "not a consumer group"), ("none", "not found")],
)
def test_group_of_another_kind_is_not_found(driver, group, words):
    with pytest.raises(KafkaError, match=words) as refusal:
        driver.consumers.find(group)
    assert refusal.value.code is E.GROUP_ID_NOT_FOUND
    assert driver.consumers.find("new").id == "new"


@pytest.mark.parametrize(
    ("group", "state", "code"),
    [
        ("old", "PreparingRebalance", E.NONE),
        ("offsets", "Empty", E.NONE),
        ("new", "Dead", E.GROUP_ID_NOT_FOUND),
        ("none", "Dead", E.GROUP_ID_NOT_FOUND),
    ],
)
def test_classic_group_is_described_by_version(driver, group, state, code):
    found, _members = driver.shard.kind_of(group).described(group, 6)
    assert (found.group_state, found.error_code) == (state, code)
    older, _members = driver.shard.kind_of(group).described(group, 5)
    assert (older.group_state, older.error_code, older.error_message) == (state, E.NONE, None)


def test_member_metadata_is_described_only_when_stable(driver):
    before, [member] = driver.shard.kind_of("old").described("old", 6)
    assert (before.protocol_data, member.member_metadata) == ("", b"")
    driver.advance(3)
    member_id = driver.answers["a"].member_id
    driver.sync("sync", member_id, 1, {member_id: b"mine"}, group="old")
    after, [member] = driver.shard.kind_of("old").described("old", 6)
    assert (after.protocol_data, member.member_assignment) == ("range", b"mine")
    assert member.member_metadata


def test_deferred_description_shows_current_members(driver):
    _, members = driver.shard.kind_of("old").described("old", 6)
    driver.advance(3)
    member_id = driver.answers["a"].member_id
    driver.sync("sync", member_id, 1, {member_id: b"mine"}, group="old")
    [member] = members
    assert (member.member_metadata, member.member_assignment) == (b"", b"")


@pytest.mark.parametrize(
    ("states", "types", "expected"),
    [
        ([], [], {"old", "new", "offsets"}),
        (["stable "], [], {"new"}),
        (["EMPTY"], [], {"offsets"}),
        ([], ["Classic"], {"old", "offsets"}),
        (["Empty"], ["consumer"], set()),
    ],
)
def test_groups_are_listed_by_state_and_type(driver, states, types, expected):
    found = driver.shard.list_groups(driver.shard.store.group_ids(driver.groups), states, types)
    assert {group.group_id for group in found} == expected
