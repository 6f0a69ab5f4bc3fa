"""The sizes, counts, timers and times that share groups keep in memory; and the messages of refusals."""

from __future__ import annotations

import pytest

from tests.broker.groups.driver import FakeTopics, topic_id
from tests.broker.groups.share.driver import ShareDriver
from trimaran.broker.groups.heartbeating.member import partitions_bytes
from trimaran.broker.groups.heartbeating.operation import HeartbeatTimer
from trimaran.broker.groups.heartbeating.work import done
from trimaran.broker.groups.kinds import Due
from trimaran.broker.groups.memory import MEMBER_BYTES, NAME_BYTES, PARTITION_BYTES
from trimaran.broker.groups.outputs import Timer, TimerKey
from trimaran.broker.groups.share import assigning, heartbeat
from trimaran.broker.groups.share import offsets as share_offsets
from trimaran.broker.groups.share.describe import described
from trimaran.broker.groups.share.group import ShareGroup
from trimaran.broker.groups.share.groups import ShareHeartbeat
from trimaran.broker.groups.share.member import ShareMember
from trimaran.broker.groups.share.offsets import check_empty
from trimaran.broker.groups.share.state_partitions import StatePartitions, TopicState
from trimaran.broker.share_state.changes import InitializedStates
from trimaran.node.text.memory import text_bytes
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from trimaran.wire.messages.offset_commit import OffsetCommitRequest
from trimaran.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from trimaran.wire.records.share_groups import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    TopicPartitions,
)

E = ErrorCode
T, U = topic_id("t"), topic_id("u")
# The order of these in a set is not that of the numbers.
MIXED = frozenset({8, 1, 16})


@pytest.fixture
def driver():
    return ShareDriver()


def words(call, *arguments):
    with pytest.raises(KafkaError) as refused:
        call(*arguments)
    return refused.value.code, refused.value.message


# -- members in the group


def member_record(name, *topics, rack=None):
    value = ShareGroupMemberMetadataValue(
        rack_id=rack, client_id="c", client_host="/h", subscribed_topic_names=list(topics)
    )
    return ShareGroupMemberMetadataKey(group_id="g", member_id=name), value


def test_group_counts_subscriptions_of_its_members():
    group = ShareGroup("g")
    assert (group.bytes, dict(group.name_counts)) == (0, {})
    group.apply(*member_record("a", "t", "u"))
    group.apply(*member_record("b", "u", "v", "v"))
    assert dict(group.name_counts) == {"t": 1, "u": 2, "v": 1}
    assert group.bytes == sum(map(text_bytes, "tuuv"))
    assert [group.is_subscribed_to(name) for name in "tw"] == [True, False]
    assert not group.is_homogeneous
    group.apply(*member_record("a", "u", "v"))
    assert (dict(group.name_counts), group.is_homogeneous) == ({"u": 2, "v": 2}, True)
    for name in ("a", "b"):
        group.apply(ShareGroupMemberMetadataKey(group_id="g", member_id=name), None)
    assert (group.bytes, dict(group.name_counts), len(group.members)) == (0, {}, 0)


def test_assignment_tombstone_keeps_the_member():
    group = ShareGroup("g")
    group.apply(*member_record("a", "t", rack="r"))
    key = ShareGroupCurrentMemberAssignmentKey(group_id="g", member_id="a")
    given = [TopicPartitions(topic_id=T, partitions=[0, 1])]
    value = ShareGroupCurrentMemberAssignmentValue(
        member_epoch=4, previous_member_epoch=3, state=0, assigned_partitions=given
    )
    group.apply(key, value)
    member = ShareMember("a", "r", "c", "/h", ("t",), 4, 3, 0, {T: frozenset({0, 1})})
    assert group.members["a"] == member
    group.apply(key, None)
    assert group.members["a"] == ShareMember("a", "r", "c", "/h", ("t",), -1, -1, 0, {})
    group.apply(ShareGroupCurrentMemberAssignmentKey(group_id="g", member_id="b"), None)
    assert list(group.members) == ["a"]


def test_size_of_member_counts_texts_and_partitions():
    texts = {"id": "a", "rack_id": "rack", "client_id": "client", "client_host": "/host"}
    member = ShareMember(**texts, subscribed_names=("t", "uu"), assigned={T: MIXED})
    said = sum(map(text_bytes, [*texts.values(), "t", "uu"]))
    assert member.bytes == text_bytes("t") + text_bytes("uu")
    assert member.held_bytes == MEMBER_BYTES + said + partitions_bytes({T: MIXED})
    assert ShareMember("a").held_bytes == MEMBER_BYTES + text_bytes("a") + 2 * text_bytes("")


def test_partitions_are_written_in_order():
    member = ShareMember("a", assigned={T: MIXED})
    [written] = member.current_value().assigned_partitions
    assert written == TopicPartitions(topic_id=T, partitions=[1, 8, 16])
    states = StatePartitions({T: TopicState("t", MIXED)}, {U: TopicState("u", MIXED)})
    value = states.value()
    assert value.initializing_topics[0].partitions == [1, 8, 16]
    assert value.initialized_topics[0].partitions == [1, 8, 16]
    assert states.held_bytes == 6 * PARTITION_BYTES + 2 * NAME_BYTES + 2 * text_bytes("t")


def test_partitions_are_reported_in_order():
    driver = ShareDriver(topics=FakeTopics(t=17))
    driver.beat("a")
    driver.beat("b")
    driver.initialize()
    driver.beat("a", 2)
    told = driver.beat("a").assignment.topic_partitions
    assert [one.partitions for one in told] == [sorted(one.partitions) for one in told]
    group = ShareGroup("g")
    group.apply(*member_record("a", "t"))
    group.members = group.members.set("a", ShareMember("a", assigned={T: MIXED}))
    _, members = described(group, driver.topics, "simple")
    assert [one.partitions for one in next(members).assignment.topic_partitions] == [[1, 8, 16]]


# -- timers and work


def test_due_timer_lets_other_groups_continue(driver):
    driver.beat("a")
    assert driver.shares.timer_due(TimerKey(HeartbeatTimer.TARGET, "g"), driver.at) is Due.NONE
    session = TimerKey(Timer.SESSION, "g", "a")
    assert driver.shares.timer_due(session, driver.at) is Due.OTHER_GROUPS
    assert driver.shares.timer_due(session._replace(group_id="h"), driver.at) is Due.OTHER_GROUPS
    driver.settle()
    assert driver.group().is_empty


def test_deleted_group_leaves_no_work(driver):
    driver.beat("a")
    driver.beat("a", -1)
    assert driver.shares._works.keys() == {"g"}
    driver.submit(driver.shard.delete_groups(["g"]))
    assert driver.shares._works == {}


def test_target_of_an_emptied_group_has_no_timer(driver, monkeypatch):
    monkeypatch.setattr(assigning, "INLINE_SIZE_MAX", 0)
    driver.beat("a")
    target = TimerKey(HeartbeatTimer.TARGET, "g")
    assert target in driver.shares._timers
    driver.beat("a", -1)
    assert target not in driver.shares._timers
    assert driver.shares._works["g"].target is None
    assert driver.group().assignment_epoch == driver.group().epoch


@pytest.mark.parametrize("known", [True, False])
def test_target_that_was_not_written_has_no_timer(driver, monkeypatch, known):
    if known:
        driver.beat("a")
    monkeypatch.setattr(assigning, "INLINE_SIZE_MAX", 0)
    driver.failing = E.NOT_ENOUGH_REPLICAS
    assert driver.beat("b") is E.NOT_ENOUGH_REPLICAS
    assert TimerKey(HeartbeatTimer.TARGET, "g") not in driver.shares._timers
    assert [work.target for work in driver.shares._works.values()] == [None] * known


def test_group_that_was_never_written_leaves_no_work(driver):
    driver.failing = E.NOT_ENOUGH_REPLICAS
    assert driver.beat("a") is E.NOT_ENOUGH_REPLICAS
    assert driver.shares._works == {}
    driver.follow_ups.clear()
    driver.failing = None
    driver.beat("a")
    work = driver.shares._works["g"]
    driver.failing = E.NOT_ENOUGH_REPLICAS
    driver.beat("a", -1)
    driver.beat("b")
    assert driver.shares._works == {"g": work}
    assert (work.checked_topics, work.checked_target) == (None, None)


def test_alteration_that_was_never_written_leaves_no_work(driver):
    topic = AlterShareGroupOffsetsRequestTopic(
        topic_name="t",
        partitions=[AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=3)],
    )
    for topics in ([topic], []):
        alteration = done(share_offsets.checked(driver.topics, topics))
        driver.shares.alter_offsets("g", alteration, driver.at)  # the result is not written
    assert driver.shares._works == {}
    outcome = InitializedStates({}, {T: {0}})
    assert list(driver.shares.finish("g", outcome, driver.at).records) == []
    assert driver.shares._works == {}


@pytest.mark.parametrize(("more", "code"), [(0, E.NONE), (-1, E.GROUP_MAX_SIZE_REACHED)])
def test_subscriptions_of_a_group_are_bounded(driver, monkeypatch, more, code):
    driver.beat("a")
    monkeypatch.setattr(heartbeat, "GROUP_BYTES_MAX", driver.group().bytes + more)
    joined = driver.beat("b")
    assert (E.NONE if joined is not code else joined) is code
    assert driver.beat("a").error_code == 0  # a member may stay


@pytest.mark.parametrize(("size", "inline"), [(5, True), (4, False)])
def test_large_group_is_assigned_in_pieces(monkeypatch, size, inline):
    driver = ShareDriver()
    driver.beat("a")
    driver.initialize()
    assert assigning.size_of(driver.group()) == 1 + 4
    monkeypatch.setattr(assigning, "INLINE_SIZE_MAX", size)
    driver.beat("a", 2)
    assert (driver.group().assignment_epoch == 3) is inline


def test_start_time_of_initialized_topic_is_forgotten(driver):
    driver.beat("a")
    work = driver.shares._works["g"]
    assert work.initializing_since == {T: driver.at.now_ms}
    driver.initialize()
    driver.beat("a", 2)
    assert driver.shares._works["g"].initializing_since == {}


def test_outcome_for_unknown_group_writes_nothing(driver):
    for outcome in (InitializedStates({T: {0}}, {}), InitializedStates({}, {T: {0}})):
        assert list(driver.shares.finish("no", outcome, driver.at).records) == []
    assert list(driver.shares.offsets_deleted("no", {T}, driver.at).records) == []


# -- messages of refusals


def test_refusal_of_wrong_epoch_has_its_reason(driver):
    driver.beat("a")
    driver.initialize()
    driver.beat("a", 2)

    def beat(epoch):
        request = ShareGroupHeartbeatRequest(group_id="g", member_id="a", member_epoch=epoch)
        driver.shares.member_heartbeat(ShareHeartbeat(request, "c", "/h"), driver.at)

    rejoin = "The member must abandon all its partitions and rejoin."
    assert words(beat, 4) == (
        E.FENCED_MEMBER_EPOCH,
        "The share group member has a greater member epoch (4) than the one known by the group coordinator (3). "
        + rejoin,
    )
    assert words(beat, 1) == (
        E.FENCED_MEMBER_EPOCH,
        "The share group member has a smaller member epoch (1) than the one known by the group coordinator (3), "
        "and it does not match the previous member epoch (2). " + rejoin,
    )


def test_refused_commit_or_deletion_has_its_reason(driver):
    driver.beat("a")
    commit = OffsetCommitRequest(group_id="g", topics=[])
    refusal = (E.GROUP_ID_NOT_FOUND, "Group g is not a consumer group.")
    shares = driver.shares
    assert words(shares.check_commit, commit, 9, driver.at) == refusal
    assert words(shares.check_transactional_commit, commit, 5) == refusal
    assert words(shares.check_offset_delete, "g") == refusal
    assert words(check_empty, driver.group()) == (
        E.NON_EMPTY_GROUP, E.NON_EMPTY_GROUP.sentence
    )  # fmt: skip
