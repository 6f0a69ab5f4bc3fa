"""New partitions: the assignments that are refused with Kafka's words, and the partition that a valid one gives."""

from __future__ import annotations

import pytest

from tests.quorum.metadata.build import broker, changed_broker, features, image_of, uid
from trimaran.quorum.controller.partitions.new_partitions import (
    NewPartitions,
    check_assignment,
    default_directory,
)
from trimaran.quorum.metadata.image import (
    MIGRATING_DIRECTORY,
    UNASSIGNED_DIRECTORY,
    PartitionImage,
)
from trimaran.wire.errors import ErrorCode, KafkaError

ONE, TWO, THREE = uid(501), uid(502), uid(503)
IMAGE = image_of(
    features(),
    broker(1),
    broker(2, log_dirs=[TWO, THREE]),
    broker(3, fenced=True),
    broker(4, log_dirs=[]),
    broker(5),
    changed_broker(5, in_controlled_shutdown=1),
)
WORDS = "The manual partition assignment includes "


@pytest.mark.parametrize(
    ("broker_ids", "factor", "expected"),
    [
        ([1], None, None),
        ([2, 1], 2, None),
        ([3, 4, 5], 3, None),
        ([], None, "an empty replica list."),
        ([], 0, "an empty replica list."),
        ([9, 1, 8], None, "broker 8, but no such broker is registered."),
        ([8, 1, 1], 3, "broker 8, but no such broker is registered."),
        ([2, 1, 2, 1], None, "the broker 1 more than once."),
        ([2, 1, 2], 3, "the broker 2 more than once."),
        (
            [1, 2],
            3,
            "a partition with 2 replica(s), but this is not consistent with previous partitions, "
            "which have 3 replica(s).",
        ),
        (
            [1, 2],
            1,
            "a partition with 2 replica(s), but this is not consistent with previous partitions, "
            "which have 1 replica(s).",
        ),
    ],
)
def test_assignment_names_distinct_registered_brokers(broker_ids, factor, expected):
    if expected is None:
        assert check_assignment(broker_ids, IMAGE, factor) is None
        return
    for check in (
        lambda: check_assignment(broker_ids, IMAGE, factor),
        lambda: NewPartitions(IMAGE).assigned(7, broker_ids, factor),
    ):
        with pytest.raises(KafkaError) as refused:
            check()
        assert refused.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert refused.value.message == WORDS + expected


@pytest.mark.parametrize(
    ("broker_id", "expected"),
    [
        (1, ONE),
        (2, UNASSIGNED_DIRECTORY),
        (3, THREE),
        (4, MIGRATING_DIRECTORY),
        (9, MIGRATING_DIRECTORY),
    ],
)
def test_broker_with_several_directories_chooses_itself(broker_id, expected):
    assert default_directory(IMAGE, broker_id) == expected


def test_active_replicas_are_in_sync_and_lead():
    new = NewPartitions(IMAGE)
    made = new.assigned(0, [3, 2, 5, 1])
    assert made == PartitionImage(
        replicas=(3, 2, 5, 1),
        directories=(THREE, UNASSIGNED_DIRECTORY, uid(505), ONE),
        isr=(2, 1),
        leader=2,
    )
    assert new.make((3, 2, 5, 1)) is made
    assert new.make((2, 3, 5, 1)) == PartitionImage(
        replicas=(2, 3, 5, 1),
        directories=(UNASSIGNED_DIRECTORY, THREE, uid(505), ONE),
        isr=(2, 1),
        leader=2,
    )


def test_partition_needs_an_active_replica():
    new = NewPartitions(IMAGE)
    with pytest.raises(KafkaError) as refused:
        new.make((3, 5))
    assert refused.value.code is ErrorCode.INVALID_REPLICATION_FACTOR
    assert refused.value.message == "All brokers are currently fenced or in controlled shutdown."
    with pytest.raises(KafkaError) as refused:
        new.assigned(7, [5, 3])
    assert refused.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert refused.value.message == (
        "All brokers specified in the manual partition assignment for partition 7 are fenced or in "
        "controlled shutdown."
    )
