"""Eligible leader replicas, unclean elections, recovery, completed reassignments: rule by rule (KIP-966, KIP-704,
KIP-455).
"""

import pytest

from tests.quorum.controller.states import eligible_leaders, state_of
from tests.quorum.metadata.build import (
    broker,
    change,
    changed_broker,
    config,
    features,
    image_of,
    partition,
    topic,
    uid,
)
from trimaran.quorum.controller.partitions.broker_changes import (
    changes_after_loss,
    changes_with,
    changes_without,
)
from trimaran.quorum.controller.partitions.changes import Election, change_partition
from trimaran.quorum.controller.partitions.elections import elect_unclean
from trimaran.quorum.controller.partitions.state import PartitionRef

BROKERS = (features(), *(broker(i) for i in (1, 2, 3, 4, 5)))


def cluster(*records, elr=True, min_isr=2):
    with_elr = [eligible_leaders()] if elr else []
    return image_of(
        *BROKERS, *with_elr, topic("t", 1), config("min.insync.replicas", str(min_isr)), *records
    )


def fenced(*ids):
    return [changed_broker(i, fenced=1) for i in ids]


def isr_becomes(image, isr, **more):
    found = image.topics.by_name["t"]
    ref = PartitionRef(found, 0, found.partitions[0])
    state = state_of(image)
    wanted = ref.partition._replace(isr=tuple(isr), **more)
    return change_partition(ref, state, state.may_lead(ref.partition), wanted=wanted)


def partition_after(image, records):
    return image_of(*records, base=image).topics.by_name["t"].partitions[0]


# --- eligible leader replicas


def test_replica_leaving_large_isr_is_not_eligible():
    image = cluster(partition(1, 0, [1, 2, 3]))
    assert changes_without(state_of(image), 3) == [change(1, 0, isr=[1, 2])]


def test_replica_leaving_isr_below_minimum_stays_eligible():
    image = cluster(partition(1, 0, [1, 2, 3], isr=[1, 2]))
    assert changes_without(state_of(image), 2) == [
        change(1, 0, isr=[1], eligible_leader_replicas=[2])
    ]


def test_last_isr_member_leaves_and_is_remembered_leader():
    image = cluster(partition(1, 0, [1, 2, 3], isr=[1], eligible_leader_replicas=[2]), *fenced(2))
    assert changes_without(state_of(image), 1) == [
        change(1, 0, isr=[], leader=-1, eligible_leader_replicas=[2, 1], last_known_elr=[1])
    ]


def test_eligible_replica_leads_when_isr_is_empty():
    image = cluster(
        *fenced(1, 2),
        partition(1, 0, [1, 2, 3], isr=[], leader=-1, eligible_leader_replicas=[2, 1]),
    )
    assert changes_with(state_of(image), 2) == [
        change(1, 0, isr=[2], leader=2, eligible_leader_replicas=[1])
    ]
    assert changes_with(state_of(image), 3) == []


def test_elr_is_cleared_once_isr_reaches_minimum():
    image = cluster(partition(1, 0, [1, 2, 3], isr=[1], eligible_leader_replicas=[2]))
    assert isr_becomes(image, [1, 3]) == change(1, 0, isr=[1, 3], eligible_leader_replicas=[])


def test_replica_with_lost_disk_is_not_eligible():
    """P4."""
    image = cluster(partition(1, 0, [1, 2, 3], isr=[1], eligible_leader_replicas=[2]))
    assert changes_after_loss(state_of(image), 2) == [change(1, 0, eligible_leader_replicas=[])]
    assert changes_after_loss(state_of(image), 1) == [
        change(1, 0, isr=[2], leader=2, eligible_leader_replicas=[])
    ]


def test_last_known_leader_leads_when_none_is_eligible():
    """Either the last leader has lost no acknowledged record, or every replica may have: the partition is recorded as
    recovering.
    """
    image = cluster(
        *fenced(1), partition(1, 0, [1, 2], isr=[], leader=-1, last_known_elr=[1], leader_epoch=3)
    )
    (record,) = changes_with(state_of(image), 1)
    assert record == change(1, 0, isr=[1], leader=1, leader_recovery_state=1, last_known_elr=[])
    assert changes_with(state_of(image), 2) == []


def test_without_feature_last_known_leader_is_ignored():
    """The removed feature left a last known leader behind: the partition waits for an in-sync replica."""
    image = cluster(partition(1, 0, [1, 2], isr=[], leader=-1, last_known_elr=[1]), elr=False)
    assert changes_with(state_of(image), 1) == []


def test_last_leader_is_remembered_until_next_election():
    image = cluster(partition(1, 0, [1, 2], isr=[1]), min_isr=1)
    image = image_of(*changes_without(state_of(image), 1), *fenced(1, 2), base=image)
    assert partition_after(image, []).last_known_elr == (1,)
    image = image_of(*changes_after_loss(state_of(image), 1), base=image)
    assert partition_after(image, []).last_known_elr == (1,), "nobody leads yet"
    assert partition_after(image, changes_with(state_of(image), 1)).last_known_elr == ()


def test_leaderless_last_replica_leaves_the_isr():
    """This applies if an ISR may be empty; without the feature the replica stays, as in the test below."""
    image = cluster(*fenced(1), partition(1, 0, [1], isr=[1], leader=-1))
    assert changes_without(state_of(image), 1) == [
        change(1, 0, isr=[], eligible_leader_replicas=[1])
    ]


def test_minimum_above_replica_count_equals_it():
    image = cluster(partition(1, 0, [1, 2], isr=[1, 2]), min_isr=5)
    (record,) = changes_without(state_of(image), 2)
    assert record.eligible_leader_replicas == [2]


@pytest.mark.parametrize(("wanted", "counts"), [(1, 1), (2, 2), (5, 2)])
def test_min_isr_is_capped_by_replica_count(wanted, counts):
    image = cluster(partition(1, 0, [1, 2]), min_isr=wanted)
    assert state_of(image).min_isr(image.topics.by_name["t"]) == counts
    image = cluster(min_isr=wanted)
    assert state_of(image).min_isr(image.topics.by_name["t"]) == wanted, "it has no partition yet"


def test_cluster_minimum_applies_without_topic_minimum():
    image = image_of(
        *BROKERS,
        eligible_leaders(),
        topic("t", 1),
        config("min.insync.replicas", "3", (4, "")),
        partition(1, 0, [1, 2, 3]),
    )
    assert changes_without(state_of(image), 3)[0].eligible_leader_replicas == [3]
    bare = image_of(config("min.insync.replicas", None, (4, "")), base=image)
    assert changes_without(state_of(bare), 3)[0].eligible_leader_replicas is None
    assert changes_without(state_of(bare, min_insync_replicas=3), 3)[
        0
    ].eligible_leader_replicas == [3]


def test_without_feature_last_replica_stays_in_isr():
    image = cluster(partition(1, 0, [1, 2], isr=[1]), elr=False)
    assert changes_without(state_of(image), 1) == [change(1, 0, leader=-1)]


def test_disabled_feature_clears_eligible_replicas():
    image = cluster(partition(1, 0, [1, 2, 3], isr=[1, 3], eligible_leader_replicas=[2]), elr=False)
    (record,) = changes_without(state_of(image), 3)
    assert record == change(1, 0, isr=[1], eligible_leader_replicas=[])


# --- unclean elections

UNCLEAN = config("unclean.leader.election.enable", "true")


@pytest.mark.parametrize(
    "allowing",
    [
        [UNCLEAN],
        [config("unclean.leader.election.enable", "true", (4, ""))],
        [
            config("unclean.leader.election.enable", "false", (4, "")),
            # the config of this controller
            config("unclean.leader.election.enable", "true", (4, "1")),
        ],
    ],
)
def test_unclean_topic_gets_a_leader_at_once(allowing):
    image = cluster(*allowing, partition(1, 0, [1, 2, 3], isr=[1]), elr=False)
    (record,) = changes_without(state_of(image), 1)
    assert record == change(1, 0, isr=[2], leader=2, leader_recovery_state=1)


def test_controllers_file_has_lowest_precedence():
    image = cluster(partition(1, 0, [1, 2], isr=[1]), elr=False)
    (record,) = changes_without(state_of(image, unclean_leader_election_enable="true"), 1)
    assert record.leader == 2
    image = image_of(config("unclean.leader.election.enable", "false"), base=image)
    (record,) = changes_without(state_of(image, unclean_leader_election_enable="true"), 1)
    assert record.leader == -1


def test_eligible_replica_precedes_unclean_one():
    image = cluster(
        UNCLEAN,
        *fenced(1),
        partition(1, 0, [1, 3, 2], isr=[], leader=-1, eligible_leader_replicas=[2]),
    )
    (record,) = changes_with(state_of(image))
    assert (record.leader, record.leader_recovery_state) == (2, -1)


def test_unclean_election_clears_eligible_replicas():
    image = cluster(
        UNCLEAN,
        *fenced(1, 2),
        partition(
            1, 0, [1, 2, 3], isr=[], leader=-1, eligible_leader_replicas=[2, 1], last_known_elr=[1]
        ),
    )
    (record,) = changes_with(state_of(image))
    assert record == change(
        1,
        0,
        isr=[3],
        leader=3,
        leader_recovery_state=1,
        eligible_leader_replicas=[],
        last_known_elr=[],
    )


def test_leaderless_partitions_of_unclean_topics_are_found():
    image = cluster(
        *fenced(1),
        partition(1, 0, [1, 2], isr=[1], leader=-1),
        topic("u", 2),
        config("unclean.leader.election.enable", "true", (2, "u")),
        partition(2, 0, [1, 2], isr=[1], leader=-1),
        elr=False,
    )
    state = state_of(image)
    records = elect_unclean(state, state.index.leaderless)
    assert records == [change(2, 0, isr=[2], leader=2, leader_recovery_state=1)]


@pytest.mark.parametrize(
    ("level", "isr", "begins"),
    [(11, [1, 2], True), (12, [1, 2], False), (11, [1, 2, 3, 4], False), (11, [3, 2, 1], False)],
)
def test_isr_shrink_before_3_6_begins_leader_epoch(level, isr, begins):
    """KAFKA-15021: otherwise its followers did not notice the change. Any other ISR change keeps the epoch."""
    image = image_of(
        features(level), base=cluster(partition(1, 0, [1, 2, 3, 4], isr=[1, 2, 3]), elr=False)
    )
    assert isr_becomes(image, isr) == change(1, 0, isr=isr, leader=1 if begins else -2)


# --- reassignments


def complete(partition_record, isr):
    image = cluster(partition_record, elr=False)
    found = image.topics.by_name["t"]
    state = state_of(image)
    record = change_partition(
        PartitionRef(found, 0, found.partitions[0]),
        state,
        state.may_lead(found.partitions[0]),
        wanted=found.partitions[0]._replace(isr=tuple(isr)),
        election=Election.ONLINE,
    )
    return record, partition_after(image, [record])


def test_reassignment_ends_when_added_replicas_are_in_sync():
    moving = partition(1, 0, [4, 2, 1], isr=[1, 2], leader=1, adding=[4], removing=[1])
    _, found = complete(moving, [1, 2, 4])
    assert (found.replicas, found.isr, found.adding, found.removing) == ((4, 2), (2, 4), (), ())
    assert (found.leader, found.leader_epoch, len(found.directories)) == (4, 1, 2)


def test_reassignment_does_not_end_early():
    moving = partition(1, 0, [4, 5, 1], isr=[1], leader=1, adding=[4, 5], removing=[1])
    record, found = complete(moving, [1, 4])
    assert record == change(1, 0, isr=[1, 4])
    assert found.adding == (4, 5)


def test_removed_replica_no_longer_follows():
    """The leader stays in a new epoch, so that the removed replica's fetches are fenced."""
    moving = partition(1, 0, [1, 4, 2], isr=[1, 2], adding=[4], removing=[2])
    record, found = complete(moving, [1, 2, 4])
    assert (record.leader, found.leader_epoch, found.replicas) == (1, 1, (1, 4))


def test_fewer_replicas_wait_for_all_that_stay():
    moving = partition(1, 0, [2, 3, 4, 5, 0, 1], isr=[2, 1], leader=2, adding=[5], removing=[0, 1])
    record, found = complete(moving, [2, 1, 5])
    assert found.removing == (0, 1)
    assert record.replicas is None
    _, found = complete(moving, [1, 2, 3, 4, 5])
    assert found.replicas == (2, 3, 4, 5)


@pytest.mark.parametrize(
    ("moving", "isr", "replicas"),
    [
        # One more replica: none is removed.
        (partition(1, 0, [1, 2, 3], isr=[1, 2], adding=[3]), [1, 2, 3], (1, 2, 3)),
        # All replicas are replaced.
        (
            partition(1, 0, [3, 4, 1, 2], isr=[1, 2], leader=1, adding=[3, 4], removing=[1, 2]),
            [1, 3, 4],
            (3, 4),
        ),
        # Replica 2 stays, and still lags.
        (
            partition(1, 0, [1, 2, 4, 3], isr=[1, 3], adding=[4], removing=[3]),
            [1, 3, 4],
            (1, 2, 4),
        ),
    ],
)
def test_equal_sized_move_waits_for_added_replicas(moving, isr, replicas):
    _, found = complete(moving, isr)
    assert (found.replicas, found.adding, found.removing) == (replicas, (), ())


def test_move_that_would_empty_isr_does_not_end():
    moving = partition(1, 0, [1, 2], removing=[1, 2])
    record, _ = complete(moving, [1])
    assert record == change(1, 0, isr=[1])


@pytest.mark.parametrize(("level", "names_directories"), [(16, False), (17, True)])
def test_records_name_directories_from_3_7_on(level, names_directories):
    image = image_of(features(level), base=cluster(partition(1, 0, [1, 2]), elr=False))
    elsewhere = (uid(7), uid(8))
    record = isr_becomes(image, [1], directories=elsewhere)
    assert record.directories == (list(elsewhere) if names_directories else None)
