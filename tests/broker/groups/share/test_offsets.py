"""Decisions about the start offsets of share groups: their responses, and the group after each step."""

from __future__ import annotations

import pytest

from tests.broker.groups.driver import topic_id
from tests.broker.groups.share.driver import ShareDriver, of_topics
from trimaran.broker.groups.heartbeating.work import done
from trimaran.broker.groups.share import offsets as share_offsets
from trimaran.broker.groups.share.operation import Initialization
from trimaran.broker.groups.share.state_partitions import StatePartitions, TopicState
from trimaran.broker.groups.topics import Topic
from trimaran.broker.share_state.changes import InitializedStates
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicIdPartition
from trimaran.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponsePartition,
)

E = ErrorCode
T, U = topic_id("t"), topic_id("u")


@pytest.fixture
def driver():
    return ShareDriver()


def of(name, *partitions):
    return {topic_id(name): TopicState(name, frozenset(partitions))}


def named(topic, *partitions):
    return [TopicIdPartition(topic, partition) for partition in partitions]


def asked(name, **offsets):
    partitions = [
        AlterShareGroupOffsetsRequestPartition(partition_index=int(index[1:]), start_offset=offset)
        for index, offset in offsets.items()
    ]
    return AlterShareGroupOffsetsRequestTopic(topic_name=name, partitions=partitions)


def alter(driver, *topics, group="g"):
    alteration = done(share_offsets.checked(driver.topics, topics))
    begun = driver.submit(driver.shares.alter_offsets(group, alteration, driver.at))
    return {topic.name: topic.codes for topic in alteration.topics}, begun


def finish(driver, done=(), failed=(), *, is_fenced=False):
    outcome = InitializedStates(of_topics(done), of_topics(failed), is_fenced)
    driver.submit(driver.shares.finish("g", outcome, driver.at))


def empty_group(driver):
    """Makes a group that has read `t`, without members."""
    driver.beat("a")
    driver.initialize()
    driver.beat("a", -1)


def refusal(call, *arguments):
    with pytest.raises(KafkaError) as caught:
        call(*arguments)
    return caught.value.code


# -- altering


def test_altered_offsets_are_initialized_at_the_group_epoch(driver):
    empty_group(driver)
    codes, begun = alter(driver, asked("t", p0=7, p2=-1))
    assert codes == {"t": [(0, E.NONE), (2, E.NONE)]}
    zero, two = named(T, 0, 2)
    assert begun == Initialization(driver.group().epoch, {zero: 7, two: None})
    everything = of("t", 0, 1, 2, 3)
    assert driver.group().states == StatePartitions(of("t", 0, 2), everything)
    assert driver.initialize() == []
    finish(driver, done=[zero, two])
    assert driver.group().states == StatePartitions({}, everything)


def test_new_group_begins_with_altered_offsets(driver):
    codes, begun = alter(driver, asked("t", p1=5))
    assert codes == {"t": [(1, E.NONE)]}
    assert begun == Initialization(1, {TopicIdPartition(T, 1): 5})
    finish(driver, done=named(T, 1))
    assert driver.shares.listed("g").group_state == "Empty"
    assert driver.reloaded().group().states == StatePartitions({}, of("t", 1))
    driver.beat("a")
    [(_, others)] = driver.initialize()
    assert others.offsets == dict.fromkeys(named(T, 0, 2, 3), 0)


def test_wrong_partitions_and_offsets_are_refused_alone(driver):
    codes, begun = alter(driver, asked("t", p3=0, p4=0, p2=-2), asked("no", p0=0))
    assert codes == {
        "t": [(3, E.NONE), (4, E.UNKNOWN_TOPIC_OR_PARTITION), (2, E.INVALID_REQUEST)],
        "no": [(0, E.UNKNOWN_TOPIC_OR_PARTITION)],
    }
    assert begun.offsets == dict.fromkeys(named(T, 3), 0)
    topic = asked("t")
    topic.partitions = [AlterShareGroupOffsetsRequestPartition(partition_index=-1, start_offset=0)]
    assert alter(driver, topic) == ({"t": [(-1, E.UNKNOWN_TOPIC_OR_PARTITION)]}, None)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (E.NONE, None),
        (E.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."),
        (E.INVALID_REQUEST, E.INVALID_REQUEST.sentence),
    ],
)
def test_altered_partition_has_its_code_and_message(code, message):
    assert share_offsets.altered(7, code) == AlterShareGroupOffsetsResponsePartition(
        partition_index=7, error_code=code, error_message=message
    )


@pytest.mark.parametrize(("count", "pauses"), [(1, 1), (2, 2), (3, 2), (4, 3)])
def test_request_is_checked_in_pieces(driver, monkeypatch, count, pauses):
    """Each topic is followed by a pause, too."""
    monkeypatch.setattr(share_offsets, "CHECKED_A_STEP", 2)
    topic = asked("t", **{f"p{number}": 0 for number in range(count)})
    assert sum(1 for _ in share_offsets.checked(driver.topics, [topic])) == pauses


def test_refused_offsets_create_no_group(driver):
    assert alter(driver, asked("no", p0=0))[1] is None
    assert driver.group() is None


def test_offsets_of_busy_or_other_group_stay(driver):
    driver.beat("a")
    assert (
        refusal(driver.shares.alter_offsets, "g", share_offsets.Alteration(), driver.at)
        is E.NON_EMPTY_GROUP
    )
    assert refusal(driver.shares.delete_offsets, "g", [], driver.at) is E.NON_EMPTY_GROUP
    assert refusal(driver.shares.release, "g", driver.at) is E.NON_EMPTY_GROUP
    driver.commit_offset(1, group="h")
    for call in (driver.shares.alter_offsets, driver.shares.delete_offsets):
        assert refusal(call, "h", [], driver.at) is E.GROUP_ID_NOT_FOUND
    assert refusal(driver.shares.delete_offsets, "no", [], driver.at) is E.GROUP_ID_NOT_FOUND


def test_failed_alteration_is_begun_again_by_members(driver):
    empty_group(driver)
    driver.topics.set("u", 1)
    alter(driver, asked("u", p0=3))
    finish(driver, failed=named(U, 0))
    assert driver.group().states == StatePartitions(of("u", 0), of("t", 0, 1, 2, 3))
    driver.beat("a", topics=["u"])
    [(_, begun)] = driver.initialize()
    assert begun.offsets == dict.fromkeys(named(U, 0))


def test_fenced_initialization_increments_the_epoch(driver):
    empty_group(driver)
    epoch = driver.group().epoch
    _, begun = alter(driver, asked("t", p0=3))
    finish(driver, failed=named(T, 0), is_fenced=True)
    assert (driver.group().epoch, driver.group().assignment_epoch) == (epoch + 1, epoch + 1)
    _, again = alter(driver, asked("t", p0=3))
    assert (begun.state_epoch, again.state_epoch) == (epoch, epoch + 1)
    driver.beat("a")
    finish(driver, failed=named(T, 0), is_fenced=True)
    assert driver.group().epoch > driver.group().assignment_epoch


@pytest.mark.parametrize(("grown", "left"), [(4, []), (6, [4, 5])])
def test_initialization_omits_finished_partitions(driver, grown, left):
    driver.beat("a", topics=["no"])
    driver.beat("a", -1)
    alter(driver, asked("t", p0=7, p1=7, p2=7, p3=7))
    driver.now += driver.share_settings.initialize_retry_ms / 1000
    driver.topics.set("t", grown)
    driver.beat("a")
    assert len(driver.shares._works["g"].waiting.offsets) == grown
    finish(driver, done=named(T, 0, 1, 2, 3))
    begun = [list(asked.offsets) for _, asked in driver.initialize()]
    assert begun == ([named(T, *left)] if left else [])
    work = driver.shares._works["g"]
    assert (work.waiting, work.running) == (None, None)
    assert driver.group().states == StatePartitions({}, of("t", *range(grown)))


# -- deleting


def delete(driver, *names):
    deletion = driver.submit(driver.shares.delete_offsets("g", list(names), driver.at))
    return list(deletion.states.partitions()), [
        (one.topic_name, one.error_message) for one in deletion.refused
    ]


def test_deleted_offsets_are_gone_after_both_steps(driver):
    empty_group(driver)
    assert delete(driver, "t") == (named(T, 0, 1, 2, 3), [])
    assert driver.group().states == StatePartitions(deleting={T: "t"})
    assert driver.reloaded().group().states == StatePartitions(deleting={T: "t"})
    driver.submit(driver.shares.offsets_deleted("g", {T}, driver.at))
    assert driver.group().states == StatePartitions()
    driver.beat("a")
    [(_, begun)] = driver.initialize()
    assert begun.offsets == dict.fromkeys(named(T, 0, 1, 2, 3))


def test_deletion_that_has_begun_is_repeated(driver):
    empty_group(driver)
    delete(driver, "t")
    driver.topics.set("t", 5)
    assert delete(driver, "t") == (named(T, 0, 1, 2, 3, 4), [])


def test_topics_without_offsets_are_refused_alone(driver):
    empty_group(driver)
    driver.topics.set("u", 1)
    partitions, refused = delete(driver, "u", "no", "t")
    assert partitions == named(T, 0, 1, 2, 3)
    assert refused == [
        ("u", "There is no offset information to delete."),
        ("no", "This server does not host this topic-partition."),
    ]


# -- the group


def test_released_group_names_all_states(driver):
    empty_group(driver)
    driver.topics.set("u", 2)
    alter(driver, asked("u", p1=3))
    released = driver.submit(driver.shares.release("g", driver.at))
    assert list(released.partitions()) == [*named(T, 0, 1, 2, 3), *named(U, 1)]
    assert driver.group().states == StatePartitions(deleting={T: "t", U: "u"})
    driver.topics.set("t", 0)
    released = driver.submit(driver.shares.release("g", driver.at))
    assert list(released.partitions()) == named(U, 0, 1)
    assert driver.submit(driver.shard.delete_groups(["g"])) == {"g": E.NONE}
    assert driver.group() is None


def test_states_of_a_recreated_topic_are_not_released(driver, monkeypatch):
    empty_group(driver)
    driver.submit(driver.shares.release("g", driver.at))
    found = {"t": Topic("t", U, 4)}
    monkeypatch.setattr(driver.topics, "find", found.get)
    assert driver.submit(driver.shares.release("g", driver.at)).topics == {}
    found["t"] = Topic("t", T, 2)
    released = driver.submit(driver.shares.release("g", driver.at))
    assert list(released.partitions()) == named(T, 0, 1)
    assert driver.group().states == StatePartitions(deleting={T: "t"})


def test_group_without_states_needs_no_release(driver):
    driver.beat("a", topics=["no"])
    driver.beat("a", -1)
    result = driver.shares.release("g", driver.at)
    assert (list(result.records), result.response.topics) == ([], {})
