"""The verdict on a cluster: one sentence, the worst reason first."""

import pytest

from trimaran.client.health import Counts, Reason, judge


def voter(id_, role="follower", ago=10, lag=0):
    return {"id": id_, "role": role, "last_caught_up_ms_ago": ago, "lag": lag}


def broker(id_, state="active"):
    return {"id": id_, "state": state}


VOTERS = [voter(1, "leader"), voter(2), voter(3)]
BROKERS = [broker(11), broker(12)]


def test_a_good_cluster_has_no_reasons():
    health = judge(VOTERS, BROKERS, Counts(2, 1200))
    assert health.level == "good"
    assert health.sentence == (
        "Healthy: 3 voters caught up, 2 brokers active, 1,200 partitions fully replicated."
    )
    assert health.reasons == []


def test_of_a_quorum_that_could_not_be_asked_nothing_is_said():
    assert judge([], [broker(1)], Counts(1, 1)).sentence == (
        "Healthy: 1 broker active, 1 partition fully replicated."
    )


@pytest.mark.parametrize(
    ("voters", "brokers", "counts", "under_min_isr", "level", "about"),
    [
        ([VOTERS[0], voter(2, ago=6000), voter(3)], BROKERS, Counts(), 0, "warning", "quorum"),
        (
            [VOTERS[0], voter(2, ago=None, lag=9), voter(3)],
            BROKERS,
            Counts(),
            0,
            "warning",
            "quorum",
        ),
        (
            [VOTERS[0], voter(2, ago=6000), voter(3, ago=6000)],
            BROKERS,
            Counts(),
            0,
            "bad",
            "quorum",
        ),
        (VOTERS, [broker(11), broker(12, "fenced")], Counts(), 0, "warning", "brokers"),
        (VOTERS, [broker(11, "fenced")], Counts(), 0, "bad", "brokers"),
        (VOTERS, [], Counts(), 0, "bad", "brokers"),
        (VOTERS, BROKERS, Counts(1, 9, offline=1), 0, "bad", "offline"),
        (VOTERS, BROKERS, Counts(1, 9, under_replicated=1), 0, "warning", "under-replicated"),
        (VOTERS, BROKERS, Counts(1, 9), 1, "bad", "under-min-isr"),
        (VOTERS, BROKERS, Counts(1, 9, not_preferred=1), 0, "warning", "not-preferred"),
    ],
)
def test_what_is_wrong_is_a_reason(voters, brokers, counts, under_min_isr, level, about):
    health = judge(voters, brokers, counts, under_min_isr)
    assert (health.level, [reason.about for reason in health.reasons]) == (level, [about])


def test_a_tenth_of_the_partitions_may_be_led_by_others():
    assert judge(VOTERS, BROKERS, Counts(1, 10, not_preferred=1)).level == "good"


def test_the_worst_is_named_first_and_the_others_are_counted():
    counts = Counts(1, 9, offline=2, under_replicated=3)
    health = judge(VOTERS, [broker(11), broker(12, "fenced")], counts)
    assert health.sentence == "Unhealthy: 2 partitions without a leader, and 2 more."
    assert [reason.level for reason in health.reasons] == ["bad", "warning", "warning"]


def test_what_is_known_beside_counts_too():
    health = judge(
        [], BROKERS, Counts(), beside=[Reason("bad", "the quorum has no leader", "quorum")]
    )
    assert health.sentence == "Unhealthy: the quorum has no leader."
