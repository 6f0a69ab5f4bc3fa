"""Requests for many share partitions: many at a time, each with its own error."""

from __future__ import annotations

import pytest

from tests.broker.groups.share.states import StatesInMemory
from trimaran.broker.share_state import changes
from trimaran.broker.share_state.states import ShareSummary
from trimaran.wire.errors import ErrorCode, KafkaError, KeptError
from trimaran.wire.identity import SharePartitionKey, TopicIdPartition

E = ErrorCode
TOPIC_ID = b"topic-id-of-t---"


def partitions(count):
    return [TopicIdPartition(TOPIC_ID, partition) for partition in range(count)]


@pytest.fixture
def states():
    return StatesInMemory()


async def test_states_are_stored_many_at_a_time(states):
    count = changes.STATES_AT_A_TIME + 1
    offsets = dict.fromkeys(partitions(count), 5)
    found = await changes.initialize_all(states, "g", 3, offsets)
    assert found == dict.fromkeys(partitions(count))
    assert states.stored == {
        SharePartitionKey("g", *partition): ShareSummary(3, 0, 5, None)
        for partition in partitions(count)
    }
    assert states.most == changes.STATES_AT_A_TIME
    assert await changes.delete_all(states, "g", partitions(count)) == dict.fromkeys(
        partitions(count)
    )
    assert states.stored == {}


async def test_each_state_has_its_own_error(states, caplog):
    states.failing = {SharePartitionKey("g", TOPIC_ID, 1): E.COORDINATOR_NOT_AVAILABLE}
    found = await changes.initialize_all(states, "g", 3, dict.fromkeys(partitions(2)))
    first, second = partitions(2)
    assert found[first] is None
    assert found[second].code is E.COORDINATOR_NOT_AVAILABLE
    [message] = caplog.messages
    assert "1 share partitions" in message
    assert await changes.by_topic(found) == ({TOPIC_ID: {0}}, {TOPIC_ID: {1}}, False)
    found = await changes.delete_all(states, "g", partitions(2))
    assert (found[first], found[second].code) == (None, E.COORDINATOR_NOT_AVAILABLE)


async def test_fenced_state_is_reported_with_the_outcomes():
    fenced = KeptError.of(KafkaError(E.FENCED_STATE_EPOCH))
    outcomes = dict(zip(partitions(2), (fenced, None), strict=True))
    assert await changes.by_topic(outcomes) == ({TOPIC_ID: {1}}, {TOPIC_ID: {0}}, True)


async def test_first_error_of_a_group_is_returned(states):
    keys = {group: SharePartitionKey(group, TOPIC_ID, 1) for group in "gh"}
    states.failing = {keys["g"]: E.COORDINATOR_NOT_AVAILABLE}
    asked = {group: partitions(3) for group in "gh"}
    found = await changes.delete_of_groups(states, asked)
    assert {group: error.code for group, error in found.items()} == {
        "g": E.COORDINATOR_NOT_AVAILABLE
    }
