"""Descriptions of a consumer group for administrators."""

from __future__ import annotations

from tests.broker.groups.driver import Driver, topic_id
from trimaran.broker.groups.consumer.describe import (
    CLASSIC_MEMBER,
    CONSUMER_MEMBER,
    described,
    refused,
)
from trimaran.wire.errors import ErrorCode


def test_refusal_has_no_other_content():
    found = refused("g", ErrorCode.GROUP_ID_NOT_FOUND, "why")
    assert (found.error_code, found.error_message, found.group_id) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        "why",
        "g",
    )
    assert (found.group_state, found.group_epoch, found.assignment_epoch) == ("", 0, 0)
    assert (found.assignor_name, found.members) == ("", [])


def test_members_of_either_protocol_are_described():
    driver = Driver()
    driver.topics.set("u", 2)
    driver.consumer_heartbeat("a", topics=["t"])
    driver.consumer_heartbeat("b", topics=[], regex="u.*", rack="r", instance="i")
    driver.join("c", version=3)
    group = driver.shard.store.of("consumer")["g"]
    found, described_members = described(group, driver.topics, "uniform")
    members = list(described_members)
    by_protocol = {m.member_id: (m.member_type, m.subscribed_topic_regex) for m in members}
    classic = next(name for name in by_protocol if name not in ("a", "b"))
    assert by_protocol == {
        "a": (CONSUMER_MEMBER, None),
        "b": (CONSUMER_MEMBER, "u.*"),
        classic: (CLASSIC_MEMBER, None),
    }
    b = next(member for member in members if member.member_id == "b")
    assert (b.rack_id, b.instance_id, b.subscribed_topic_names) == ("r", "i", [])
    assert (found.group_epoch, found.assignor_name) == (group.epoch, "uniform")
    (listed,) = driver.shard.list_groups(["g"], (), ())
    assert listed.group_state == found.group_state == "Reconciling"


def test_partitions_of_missing_topics_are_omitted():
    driver = Driver()
    driver.topics.set("u", 2)
    driver.consumer_heartbeat("a", topics=["t", "u"])
    group = driver.shard.store.of("consumer")["g"]
    driver.topics.set("u", 0)
    _, [member] = described(group, driver.topics, "uniform")
    for told in (member.assignment, member.target_assignment):
        assert [
            (topic_partition.topic_name, topic_partition.topic_id, topic_partition.partitions)
            for topic_partition in told.topic_partitions
        ] == [("t", topic_id("t"), [0, 1, 2, 3])]
