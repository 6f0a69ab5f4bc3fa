"""The verdict on a cluster: one sentence, the worst reason first."""

import pytest

from tests.trimaran.client.scripted import partition, topic
from trimaran.client.health import PartitionCounts, Reason, count_partitions, judge


def voter(id_, role="follower", ago=10, lag=0):
    return {"id": id_, "role": role, "last_caught_up_ms_ago": ago, "lag": lag}


def broker(id_, state="active"):
    return {"id": id_, "state": state}


VOTERS = [voter(1, "leader"), voter(2), voter(3)]
BROKERS = [broker(11), broker(12)]


def test_healthy_cluster_has_no_reasons():
    health = judge(VOTERS, BROKERS, PartitionCounts(2, 1200))
    assert health.level == "good"
    assert health.sentence == (
        "Healthy: 3 voters caught up, 2 brokers active, 1,200 partitions fully replicated."
    )
    assert health.reasons == []


def test_unreachable_quorum_is_not_judged():
    assert judge([], [broker(1)], PartitionCounts(1, 1)).sentence == (
        "Healthy: 1 broker active, 1 partition fully replicated."
    )


@pytest.mark.parametrize(
    ("voters", "brokers", "counts", "under_min_isr", "level", "about"),
    [
        (
            [VOTERS[0], voter(2, ago=6000), voter(3)],
            BROKERS,
            PartitionCounts(),
            0,
            "warning",
            "quorum",
        ),
        (
            [VOTERS[0], voter(2, ago=None, lag=9), voter(3)],
            BROKERS,
            PartitionCounts(),
            0,
            "warning",
            "quorum",
        ),
        (
            [VOTERS[0], voter(2, ago=6000), voter(3, ago=6000)],
            BROKERS,
            PartitionCounts(),
            0,
            "bad",
            "quorum",
        ),
        (VOTERS, [broker(11), broker(12, "fenced")], PartitionCounts(), 0, "warning", "brokers"),
        (VOTERS, [broker(11, "fenced")], PartitionCounts(), 0, "bad", "brokers"),
        (VOTERS, [], PartitionCounts(), 0, "bad", "brokers"),
        (VOTERS, BROKERS, PartitionCounts(1, 9, offline=1), 0, "bad", "offline"),
        (
            VOTERS,
            BROKERS,
            PartitionCounts(1, 9, under_replicated=1),
            0,
            "warning",
            "under-replicated",
        ),
        (VOTERS, BROKERS, PartitionCounts(1, 9), 1, "bad", "under-min-isr"),
        (VOTERS, BROKERS, PartitionCounts(1, 9, not_preferred=1), 0, "warning", "not-preferred"),
    ],
)
def test_each_problem_is_a_reason(voters, brokers, counts, under_min_isr, level, about):
    health = judge(voters, brokers, counts, under_min_isr)
    assert (health.level, [reason.about for reason in health.reasons]) == (level, [about])


def test_tenth_of_partitions_may_lack_preferred_leader():
    assert judge(VOTERS, BROKERS, PartitionCounts(1, 10, not_preferred=1)).level == "good"


def test_worst_reason_comes_first_others_are_counted():
    counts = PartitionCounts(1, 9, offline=2, under_replicated=3)
    health = judge(VOTERS, [broker(11), broker(12, "fenced")], counts)
    assert health.sentence == "Unhealthy: 2 partitions without a leader, and 2 more."
    assert [reason.level for reason in health.reasons] == ["bad", "warning", "warning"]


def test_additional_reasons_count_too():
    health = judge(
        [], BROKERS, PartitionCounts(), beside=[Reason("bad", "the quorum has no leader", "quorum")]
    )
    assert health.sentence == "Unhealthy: the quorum has no leader."


@pytest.mark.parametrize(
    ("voters", "silent", "level"),
    [
        *((1, 0, "good"), (2, 1, "bad"), (3, 1, "warning"), (3, 2, "bad"), (4, 1, "warning")),
        *((4, 2, "bad"), (5, 2, "warning"), (5, 3, "bad"), (6, 3, "bad"), (7, 3, "warning")),
    ],
)
def test_quorum_is_lost_with_half_its_voters(voters, silent, level):
    rows = [voter(1, "leader")]
    rows += [
        voter(number, ago=9000 if number < 2 + silent else 1) for number in range(2, voters + 1)
    ]
    assert judge(rows, BROKERS, PartitionCounts()).level == level


@pytest.mark.parametrize(
    ("row", "is_behind"),
    [
        (voter(2, ago=4999), False),
        (voter(2, ago=5000), False),
        (voter(2, ago=5001), True),
        (voter(2, ago=0, lag=9), False),
        (voter(2, ago=None, lag=0), False),
        (voter(2, ago=None, lag=1), True),
        (voter(2, "leader", ago=9000, lag=9), False),
    ],
)
def test_voter_lag_is_judged_by_silence_first(row, is_behind):
    reasons = judge([VOTERS[0], row, voter(3)], BROKERS, PartitionCounts()).reasons
    assert [reason.text for reason in reasons] == (
        ["voter 2 is not caught up"] if is_behind else []
    )


@pytest.mark.parametrize(
    ("partitions", "not_preferred", "is_told"),
    [(10, 1, False), (10, 2, True), (1000, 100, False), (1000, 101, True), (0, 1, False)],
)
def test_more_than_tenth_unpreferred_leaders_is_reported(partitions, not_preferred, is_told):
    counts = PartitionCounts(1, partitions, not_preferred=not_preferred)
    assert bool(judge(VOTERS, BROKERS, counts).reasons) is is_told


def test_reasons_are_described_worst_first():
    rows = [voter(1, "leader"), voter(2, ago=9000), voter(3), voter(4), voter(5, ago=9000)]
    brokers = [broker(11, "fenced"), broker(12), broker(13, "fenced")]
    counts = PartitionCounts(2, 10, offline=1, under_replicated=2, not_preferred=3)
    beside = [Reason("warning", "the mirror lags", "mirror")]
    health = judge(rows, brokers, counts, 1, beside)
    assert [tuple(reason) for reason in health.reasons] == [
        ("bad", "1 partition without a leader", "offline"),
        ("bad", "1 partition under min.insync.replicas", "under-min-isr"),
        ("warning", "the mirror lags", "mirror"),
        ("warning", "voters 2, 5 are not caught up", "quorum"),
        ("warning", "brokers 11, 13 are fenced", "brokers"),
        ("warning", "2 partitions under-replicated", "under-replicated"),
        ("warning", "3 partitions not led by the preferred replica", "not-preferred"),
    ]
    assert health.sentence == "Unhealthy: 1 partition without a leader, and 6 more."
    assert judge(VOTERS, [], PartitionCounts()).sentence == "Unhealthy: no broker is active."
    assert judge(VOTERS, [broker(1), broker(2, "fenced")], PartitionCounts()).sentence == (
        "Needs a look: broker 2 is fenced."
    )


def test_partition_counts_by_leader_and_replicas():
    rows = [
        partition(0, 1, [1, 2], [1, 2]),
        partition(1, 2, [1, 2], [2, 1]),
        partition(2, 1, [1, 2], [1]),
        partition(3, -1, [1, 2], []),
        partition(4, 0, [0, 1], [0, 1]),
        partition(5, 1, [], []),
    ]
    assert count_partitions([topic("t", *rows), topic("u")]) == PartitionCounts(2, 6, 1, 2, 1)
