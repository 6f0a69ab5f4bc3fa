"""Rules of commits, expiry and static members that no other test would miss, a test for each."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.groups.limits import GroupLimits
from broker.groups.records import group_record
from tests.broker.groups.driver import WALL_CLOCK_MS, Driver
from wire.errors import ErrorCode
from wire.records.groups import GroupMetadataValue

E = ErrorCode
LIMITS = replace(GroupLimits(), offsets_retention_ms=60_000, expiry_interval_ms=1_000)


def stable(driver, name="a", **join):
    """A static member, alone in a stable generation 1."""
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
def test_who_names_a_generation_must_be_a_member_of_it(generation):
    """Only who names none is a simple consumer; generation 0 is one, too."""
    driver = Driver(log=[empty_group()])
    assert driver.commit_offset(1, member_id="x", generation=generation) is E.UNKNOWN_MEMBER_ID
    assert driver.commit_offset(1, group="new", generation=generation) is E.GROUP_ID_NOT_FOUND
    assert driver.offset() is None
    assert driver.commit_offset(1, generation=-1) is E.NONE
    assert driver.offset() == 1


def test_a_stable_group_keeps_what_it_does_not_subscribe_to_from_its_commit_on():
    """Not from when the group was formed."""
    driver = Driver(LIMITS)
    member_id = stable(driver, session_ms=300_000)
    driver.advance(47)
    code = driver.commit_offset(1, member_id=member_id, generation=1, instance="a", topic="other")
    assert code is E.NONE
    driver.advance(58)
    assert driver.offset("other") == 1
    driver.advance(4)
    assert driver.offset("other") is None


def test_a_member_whose_return_could_not_be_stored_is_expected_as_before():
    driver = Driver()
    member_id = stable(driver)
    driver.failing = E.NOT_COORDINATOR
    driver.join("a2", instance="a", protocols=[("range", b"other")])
    driver.failing = None
    driver.advance(9)
    assert driver.heartbeat(member_id, 1, instance="a") is E.NONE
    driver.advance(11)
    assert driver.heartbeat(member_id, 1, instance="a") is E.UNKNOWN_MEMBER_ID


def test_a_member_whose_return_could_not_be_stored_and_that_is_silent_leaves():
    driver = Driver()
    stable(driver)
    driver.failing = E.NOT_COORDINATOR
    driver.join("a2", instance="a", protocols=[("range", b"other")])
    driver.failing = None
    driver.advance(11)
    assert not driver.shard.groups["g"].members
