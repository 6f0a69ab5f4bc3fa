"""Keys map to the same partition as in Apache Kafka."""

from __future__ import annotations

import pytest

from trimaran.broker.coordination.runtime import partition_for


@pytest.mark.parametrize(
    ("group", "partition"),
    # Values computed by Apache Kafka 4.3.0.
    [("pair", 28), ("static", 38), ("gone", 5), ("simple", 26), ("txn", 6)],
)
def test_group_has_same_partition_as_in_kafka(group, partition):
    assert partition_for(group, 50) == partition


def test_group_with_least_hash_has_partition_zero():
    assert partition_for("polygenelubricants", 50) == 0
