"""The order of Java's collections, by values of a JDK."""

from __future__ import annotations

import pytest

from trimaran.broker.groups.streams.java_order import (
    PriorityQueue,
    computed_hash_order,
    hash_order,
    spread_hash,
)


@pytest.mark.parametrize(
    ("text", "code"),
    [("", 0), ("a", 97), ("polygenelubricants", -2147483648), ("\U0001f600", 1772899)],
)
def test_hash_equals_that_of_java(text, code):
    word = code & 0xFFFFFFFF
    assert spread_hash(text) == word ^ (word >> 16)


def test_elements_are_in_order_of_buckets():
    # "q" has the bucket of "a" in a table of 16; the order of insertion decides.
    assert hash_order(["q", "b", "a"]) == ["q", "a", "b"]
    assert hash_order(["a", "b", "q"]) == ["a", "q", "b"]


@pytest.mark.parametrize(("count", "first"), [(12, "p"), (13, "a")])
def test_table_grows_with_the_13th_key(count, first):
    assert hash_order("apbcdefghijkl"[:count])[0] == first


def test_computed_key_precedes_its_bucket():
    assert computed_hash_order(["a", "q"], expected=16) == ["q", "a"]
    assert computed_hash_order(["b", "a"], expected=2) == ["b", "a"]


def test_equal_elements_are_taken_as_in_java():
    queue = PriorityQueue(lambda pair: pair[0], [(1, name) for name in "abcd"])
    assert [queue.take()[1] for _ in range(4)] == ["a", "d", "c", "b"]
    with pytest.raises(IndexError):
        queue.take()


def test_smallest_element_comes_first():
    queue = PriorityQueue(lambda number: number, [5, 1, 4, 2, 3])
    assert [queue.take() for _ in range(5)] == [1, 2, 3, 4, 5]
    assert not queue
