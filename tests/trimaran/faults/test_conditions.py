"""Conditions on fields of requests."""

import pytest

from trimaran.faults.conditions import parse_condition, values_at
from trimaran.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic

REQUEST = FetchRequest(
    max_wait_ms=500,
    min_bytes=1,
    topics=[
        FetchTopic(
            topic="orders",
            partitions=[
                FetchPartition(partition=n, fetch_offset=10 * n, partition_max_bytes=1)
                for n in range(3)
            ],
        )
    ],
)


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("max_wait_ms == 500", True),
        ("max_wait_ms != 500", False),
        ("max_wait_ms < 501", True),
        ("max_wait_ms <= 499", False),
        ("max_wait_ms > 499", True),
        ("max_wait_ms >= 501", False),
        ("topics.topic == orders", True),
        ('topics.topic == "ord"', False),
        ("topics.topic ~ ord*", True),
        ("topics.partitions.fetch_offset == 20", True),
        ("topics.partitions.fetch_offset == 21", False),
        ("topics.partitions.length == 3", True),
        ("topics.length > 1", False),
        ("cluster_id == null", True),
        ("cluster_id < 3", False),
        ("topics.topic_id == AAAAAAAAAAAAAAAAAAAAAA", True),
    ],
)
def test_condition_holds_for_any_value_at_path(text, holds):
    assert parse_condition(text).holds(REQUEST) is holds


def test_condition_is_written_as_it_is_read():
    text = 'topics.topic == "orders"'
    assert str(parse_condition(text)) == text


def test_array_of_numbers_gives_its_elements():
    request = FetchRequest(max_wait_ms=1, min_bytes=1, topics=[])
    assert [*values_at(request, "topics.length")] == [0]
    assert [*values_at(request, "topics.topic")] == []
