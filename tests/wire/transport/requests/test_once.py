"""A request without repetitions: which of two equal items remains, and which items are merged."""

from __future__ import annotations

from operator import attrgetter, itemgetter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimaran.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from trimaran.wire.messages.describe_groups import DescribeGroupsRequest
from trimaran.wire.transport.requests.once import Once, itself


def test_names_stay_in_order_of_first_occurrence():
    once = Once("groups")
    request = DescribeGroupsRequest(groups=["b", "a", "b", "c", "a"])
    assert once(request).groups == ["b", "a", "c"]
    distinct = DescribeGroupsRequest(groups=["a", "b"])
    assert once(distinct) is distinct
    assert once(DescribeGroupsRequest(groups=[])).groups == []


def deleting(*topics):
    return DeleteRecordsRequest(
        topics=[
            DeleteRecordsTopic(
                name=name,
                partitions=[
                    DeleteRecordsPartition(partition_index=index, offset=offset)
                    for index, offset in partitions
                ],
            )
            for name, partitions in topics
        ],
        timeout_ms=5,
    )


@pytest.mark.parametrize(("last", "offset"), [(False, 1), (True, 9)])
def test_partitions_of_repeated_topic_are_merged(last, offset):
    once = Once("topics.partitions", attrgetter("name"), attrgetter("partition_index"), last=last)
    asked = deleting(("t", [(0, 1), (1, 5)]), ("u", [(0, 7)]), ("t", [(2, 3), (0, 9)]))
    found = once(asked)
    assert found == deleting(("t", [(0, offset), (1, 5), (2, 3)]), ("u", [(0, 7)]))
    assert asked.topics[0].partitions[0].offset == 1, "the request was changed"


class Asked:
    """A request, or an outer item of one."""

    def __init__(self, items, name=None):
        self.items, self.name = items, name

    def replace(self, *, items):
        return Asked(items, self.name)

    def __eq__(self, other):
        return (self.items, self.name) == (other.items, other.name)

    __hash__ = None


ITEMS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), max_size=6)


def distinct(items, key, *, last):
    """Returns each distinct item at the place of its first occurrence, by comparing all of them."""
    found = []
    for item in items:
        alike = [each_item for each_item in items if key(each_item) == key(item)]
        if alike[0] is item:
            found.append(alike[-1] if last else item)
    return found


@given(ITEMS, st.booleans())
def test_first_or_last_item_of_a_key_stays(items, last):
    items = [list(item) for item in items]  # all differ
    asked = Asked(items)
    found = Once("items", itemgetter(0), last=last)(asked)
    assert found.items == distinct(items, itemgetter(0), last=last)
    assert (found is asked) == (len(found.items) == len(items))


@given(st.lists(st.tuples(st.integers(0, 2), ITEMS), max_size=4), st.booleans())
def test_inner_items_of_equal_outer_keys_merge(outer, last):
    asked = Asked([Asked([list(item) for item in items], name) for name, items in outer])
    found = Once("items.items", attrgetter("name"), itemgetter(0), last=last)(asked)
    expected = []
    for name in dict.fromkeys(name for name, _ in outer):
        inner = [list(item) for each_item, items in outer if each_item == name for item in items]
        expected.append(Asked(distinct(inner, itemgetter(0), last=last), name))
    assert found.items == expected


@given(st.lists(st.lists(st.integers(0, 3), max_size=4), min_size=1, max_size=1))
def test_inner_items_of_single_outer_are_distinct(names):
    found = Once("items.items", attrgetter("name"))(Asked([Asked(names[0], "t")]))
    assert found.items == [Asked(list(dict.fromkeys(names[0])), "t")]


def test_request_without_list_or_repetition_stays_unchanged():
    for items in (None, [], ["a"]):
        asked = Asked(items)
        assert Once("items")(asked) is asked
    assert itself("a") == "a"
