"""A request without repetitions: which of two stays, and what comes together."""

from __future__ import annotations

from operator import attrgetter

import pytest

from wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from wire.messages.describe_groups import DescribeGroupsRequest
from wire.transport.once import Once


def test_names_stay_in_the_order_in_which_they_come_first():
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
def test_partitions_of_a_topic_that_comes_twice_come_together(last, offset):
    once = Once("topics.partitions", attrgetter("name"), attrgetter("partition_index"), last=last)
    asked = deleting(("t", [(0, 1), (1, 5)]), ("u", [(0, 7)]), ("t", [(2, 3), (0, 9)]))
    found = once(asked)
    assert found == deleting(("t", [(0, offset), (1, 5), (2, 3)]), ("u", [(0, 7)]))
    assert asked.topics[0].partitions[0].offset == 1, "the request was changed"
