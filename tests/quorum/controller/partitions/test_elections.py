"""Elections: the whole response and the records, for each reason why a partition elects a leader or does not."""

from __future__ import annotations

import pytest

from tests.quorum.controller.states import state_of
from tests.quorum.metadata.build import (
    broker,
    change,
    config,
    features,
    image_of,
    partition,
    topic,
    uid,
)
from trimaran.node.runtime.steps import at_once
from trimaran.quorum.controller.partitions import elections
from trimaran.quorum.controller.partitions.elections import (
    PREFERRED,
    UNCLEAN,
    balance_leaders,
    elect_leaders,
    elect_unclean,
)
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicIdPartition
from trimaran.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
    TopicPartitions,
)

# The preferred replica leads t-0, and may lead t-1 and (uncleanly) t-2; that of t-3 is fenced. No replica of u-0 lives.
IMAGE = image_of(
    features(),
    broker(1),
    broker(2),
    broker(3, fenced=True),
    topic("t", 1),
    partition(1, 0, [1, 2]),
    partition(1, 1, [1, 2], leader=2),
    partition(1, 2, [2, 3], isr=[3], leader=-1),
    partition(1, 3, [3, 2], isr=[3, 2], leader=2),
    topic("u", 2),
    partition(2, 0, [3], isr=[3], leader=-1),
    config("unclean.leader.election.enable", "true", (2, "t")),
)
STATE = state_of(IMAGE)
TO_ONE = change(1, 1, leader=1)
TO_TWO = change(1, 2, leader=2, isr=[2], leader_recovery_state=1)


def refusal(index, code, message):
    return PartitionResult(partition_id=index, error_code=code, error_message=message)


NEEDLESS = ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."
NO_PREFERRED = (
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    "The preferred leader was not available.",
)
NONE_ELIGIBLE = (
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
    "Eligible topic partition leaders are not available.",
)
DONE = ErrorCode.NONE, None


def elected(kind, *named, everything=False):
    """Returns the records, and the results by topic."""
    listed = [TopicPartitions(topic=name, partitions=list(indexes)) for name, *indexes in named]
    request = ElectLeadersRequest(
        election_type=kind, topic_partitions=None if everything else listed, timeout_ms=1
    )
    result = at_once(elect_leaders(request, STATE))
    assert not result.atomic
    assert result.response == ElectLeadersResponse(
        replica_election_results=result.response.replica_election_results
    )
    return result.records, result.response.replica_election_results


def results(name, *partitions):
    return ReplicaElectionResult(
        topic=name, partition_result=[refusal(index, *why) for index, *why in partitions]
    )


def test_each_named_partition_has_its_result():
    records, found = elected(PREFERRED, ("t", 3, 0, 1, 4), ("v", 0))
    assert found == [
        results(
            "t",
            (3, *NO_PREFERRED),
            (0, *NEEDLESS),
            (1, *DONE),
            (4, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "No such partition as t-4"),
        ),
        results("v", (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "No such topic as v")),
    ]
    assert records == [TO_ONE]


def test_unclean_election_needs_a_live_replica():
    records, found = elected(UNCLEAN, ("t", 0, 2), ("u", 0))
    assert found == [
        results("t", (0, *NEEDLESS), (2, *DONE)),
        results("u", (0, *NONE_ELIGIBLE)),
    ]
    assert records == [TO_TWO]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (PREFERRED, [results("t", (1, *DONE), (2, *NO_PREFERRED), (3, *NO_PREFERRED)),
                     results("u", (0, *NO_PREFERRED))]),
        (UNCLEAN, [results("t", (2, *DONE)), results("u", (0, *NONE_ELIGIBLE))]),
    ],
)  # fmt: skip
def test_election_of_all_omits_needless_ones(kind, expected):
    found = elected(kind, everything=True)[1]
    assert sorted(found, key=lambda result: result.topic) == expected


@pytest.mark.parametrize("kind", [-1, 2])
def test_unknown_kind_of_election_is_refused(kind):
    with pytest.raises(KafkaError, match=f"Unknown election type {kind}") as refused:
        elected(kind)
    assert refused.value.code is ErrorCode.INVALID_REQUEST


def test_elections_are_bounded_and_take_steps(monkeypatch):
    request = ElectLeadersRequest(
        election_type=PREFERRED,
        topic_partitions=[TopicPartitions(topic="t", partitions=[1, 1, 0])],
        timeout_ms=1,
    )
    monkeypatch.setattr(elections, "RECORDS_MAX", 2)
    assert list(elect_leaders(request, STATE)) == [1] * 4
    monkeypatch.setattr(elections, "RECORDS_MAX", 1)
    with pytest.raises(KafkaError) as refused:
        at_once(elect_leaders(request, STATE))
    assert refused.value.code is ErrorCode.POLICY_VIOLATION


def test_periodic_elections_change_what_they_can():
    keys = [TopicIdPartition(uid(1), index) for index in range(4)] + [TopicIdPartition(uid(2), 0)]
    assert balance_leaders(STATE, keys) == [TO_ONE]
    assert elect_unclean(STATE, keys) == [TO_TWO]
    assert balance_leaders(STATE, keys[2:]) == []
    assert elect_unclean(STATE, keys[:2]) == []
