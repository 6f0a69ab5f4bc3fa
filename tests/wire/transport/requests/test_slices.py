"""A large request is handled in parts, and answered as if it had been handled at once."""

import pytest
import trio

from tests.wire.transport.support import open_raw, open_server, request_frame
from trimaran.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from trimaran.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponseTopic,
)
from trimaran.wire.messages.offset_delete import OffsetDeleteResponse as Response
from trimaran.wire.messages.offset_delete import OffsetDeleteResponsePartition as ResponsePartition
from trimaran.wire.messages.offset_delete import OffsetDeleteResponseTopic as ResponseTopic
from trimaran.wire.transport.requests.access import open_to_all
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.requests.slices import Slices

ITEMS = 2000

PARTITIONS = Slices("topics.partitions", "topics.partitions")


def request_of(*counts):
    return OffsetDeleteRequest(
        group_id="g",
        topics=[
            OffsetDeleteRequestTopic(
                name=str(number),
                partitions=[OffsetDeleteRequestPartition(partition_index=i) for i in range(count)],
            )
            for number, count in enumerate(counts)
        ],
    )


def answered(request):
    return Response(
        topics=[
            ResponseTopic(
                name=topic.name,
                partitions=[
                    ResponsePartition(partition_index=one.partition_index)
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


@pytest.mark.parametrize(
    "counts",
    [
        (5 * ITEMS + 1,),
        (1,) * (2 * ITEMS),
        (ITEMS, 0, ITEMS - 1, 3, 2 * ITEMS),
        (0,) * (ITEMS + 1),
        (ITEMS - 1, ITEMS),
    ],
)
def test_answers_to_parts_equal_answer_to_whole(counts):
    whole = request_of(*counts)
    joined = Response(topics=[])
    for number, (part, goes_on) in enumerate(PARTITIONS.of(whole)):
        assert sum(1 + len(topic.partitions) for topic in part.topics) <= ITEMS + 1
        if number:
            PARTITIONS.join(joined, answered(part), goes_on)
        else:
            joined = answered(part)
    assert joined == answered(whole)
    assert whole == request_of(*counts)


@pytest.mark.parametrize(
    ("counts", "are_several"),
    [
        ((ITEMS - 1,), False),
        ((ITEMS,), True),
        ((0,) * ITEMS, False),
        ((0,) * (ITEMS + 1), True),
        ((), False),
    ],
)
def test_more_items_than_one_slice_has_are_several(counts, are_several):
    assert PARTITIONS.are_several(request_of(*counts)) is are_several


async def test_others_run_and_answers_keep_their_order():
    seen = []

    @handles(
        FindCoordinatorRequest,
        versions="0-6",
        access=open_to_all("a test"),
        slices=Slices("coordinator_keys", "coordinators"),
    )
    def find(request, _context, _call):
        seen.append(len(request.coordinator_keys))
        return FindCoordinatorResponse(
            coordinators=[
                Coordinator(key=key, node_id=1, host="", port=1, error_message="")
                for key in request.coordinator_keys
            ]
        )

    keys = [f"k{i}" for i in range(3 * ITEMS + 7)]
    many = FindCoordinatorRequest(key="", key_type=0, coordinator_keys=keys)
    few = FindCoordinatorRequest(key="", key_type=0, coordinator_keys=["a"])
    async with open_server(find) as server, open_raw(server) as client:
        await client.send(request_frame(many, 6, 1) + request_frame(few, 6, 2))
        number, response = await client.answer(10, 6)
        assert number == 1
        assert [one.key for one in response.coordinators] == keys
        assert (await client.answer(10, 6))[0] == 2
    assert seen == [ITEMS] * 3 + [7, 1]


async def test_error_in_the_middle_answers_the_whole():
    def fail(request, code, _message):
        return FindCoordinatorResponse(
            coordinators=[
                Coordinator(
                    key=key, node_id=-1, host="", port=-1, error_code=code, error_message=""
                )
                for key in request.coordinator_keys
            ]
        )

    @handles(
        FindCoordinatorRequest,
        versions="0-6",
        access=open_to_all("a test"),
        on_error=fail,
        slices=Slices("coordinator_keys", "coordinators"),
    )
    async def find(request, _context, _call):
        await trio.lowlevel.checkpoint()
        if len(request.coordinator_keys) < ITEMS:
            raise ValueError("a bug")
        return fail(request, 0, "")

    keys = [f"k{i}" for i in range(ITEMS + 500)]
    many = FindCoordinatorRequest(key="", key_type=0, coordinator_keys=keys * 2)
    async with open_server(find) as server, open_raw(server) as client:
        await client.send(request_frame(many, 6, 1))
        _, response = await client.answer(10, 6)
        assert {one.error_code for one in response.coordinators} == {-1}
        assert len(response.coordinators) == len(keys) * 2


async def test_whole_error_in_any_slice_is_answer():
    @handles(
        OffsetDeleteRequest,
        versions="0",
        access=open_to_all("a test"),
        slices=Slices("topics.partitions", "topics.partitions"),
    )
    def delete(request, _context, _call):
        if len(request.topics[0].partitions) < ITEMS:
            return OffsetDeleteResponse(error_code=16, topics=[])
        return OffsetDeleteResponse(topics=[OffsetDeleteResponseTopic(name="t", partitions=[])])

    asked = [OffsetDeleteRequestPartition(partition_index=i) for i in range(3 * ITEMS + 1000)]
    many = OffsetDeleteRequest(
        group_id="g", topics=[OffsetDeleteRequestTopic(name="t", partitions=asked)]
    )
    async with open_server(delete) as server, open_raw(server) as client:
        await client.send(request_frame(many, 0, 1))
        _, response = await client.answer(47, 0)
        assert (response.error_code, response.topics) == (16, [])


class Asked:
    """A request, or an outer item of one, with its items."""

    def __init__(self, name, items):
        self.name, self.items = name, items

    def replace(self, *, items):
        return Asked(self.name, items)

    def __repr__(self):
        return f"{self.name}{self.items}"


@pytest.mark.parametrize(
    ("counts", "parts"),
    [
        ([3], [("r[a[0, 1, 2]]", False)]),
        ([4], [("r[a[0, 1, 2, 3]]", False)]),
        ([2], [("r[a[0, 1]]", False)]),
        ([3, 3], [("r[a[0, 1, 2]]", False), ("r[b[0, 1, 2]]", False)]),
        ([5], [("r[a[0, 1, 2, 3]]", False), ("r[a[4]]", True)]),
        ([1, 1, 1], [("r[a[0], b[0]]", False), ("r[c[0]]", False)]),
        ([9, 1], None),
        ([None, 0], [("r[aNone, b[]]", False)]),
    ],
)
def test_request_is_cut_if_slice_is_full(counts, parts):
    outer = [
        Asked(name, count if count is None else list(range(count)))
        for name, count in zip("abc", counts, strict=False)
    ]
    slices = Slices("items.items", "items.items", 4)
    found = [(repr(part), goes_on) for part, goes_on in slices.of(Asked("r", outer))]
    if parts is None:
        parts = [("r[a[0, 1, 2, 3]]", False), ("r[a[4, 5, 6, 7]]", True), ("r[a[8], b[0]]", True)]
    assert found == parts
    assert slices.are_several(Asked("r", outer)) is (sum(1 + (count or 0) for count in counts) > 4)
