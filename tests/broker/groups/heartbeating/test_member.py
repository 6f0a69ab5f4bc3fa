"""The partitions of members in records: without empty topics, in bytes, and with the epochs of their assignment."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from trimaran.broker.groups.heartbeating.member import (
    partitions_bytes,
    partitions_of,
    with_epochs,
)
from trimaran.broker.groups.memory import PARTITION_BYTES

T, U = b"t" * 16, b"u" * 16


@pytest.mark.parametrize(
    ("epochs", "expected"),
    [
        (None, {4: 9, 1: 9, 2: 9}),
        ([], {4: 9, 1: 9, 2: 9}),
        ([5, 6], {4: 9, 1: 9, 2: 9}),
        ([5, 6, 7], {4: 5, 1: 6, 2: 7}),
        ([5, 6, 7, 8], {4: 9, 1: 9, 2: 9}),
    ],
)
def test_missing_epochs_are_those_of_the_member(epochs, expected):
    assert with_epochs([4, 1, 2], epochs, 9) == expected


def test_topics_without_partitions_are_left_out():
    topics = [
        SimpleNamespace(topic_id=T, partitions=[2, 0, 2]),
        SimpleNamespace(topic_id=U, partitions=[]),
    ]
    found = partitions_of(topics)
    assert found == {T: frozenset({0, 2})}
    assert partitions_bytes({**found, U: frozenset({7})}) == 3 * PARTITION_BYTES
