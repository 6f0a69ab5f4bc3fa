"""A response's size is counted, limited, and charged to the node's memory while it is built."""

from __future__ import annotations

import contextlib
from random import Random

import pytest
import trio

from tests.slow_steps import no_slow_steps
from trimaran.wire.buffers.response_size import (
    ENCODED_BYTES_MAX,
    RESPONSE_BYTES_MAX,
    ResponseTooLarge,
)
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsResponse,
)
from trimaran.wire.messages.header import encode_response
from trimaran.wire.messages.list_groups import ListedGroup, ListGroupsResponse
from trimaran.wire.transport.memory.pools import Memory
from trimaran.wire.transport.memory.room import HUGE_BYTES, ResponseRoom

OF_LARGE = 16 << 20
FREE = 64 << 10
LARGE = 1 << 20
STEP = 64 << 10

MEMBERS_VERSION = LISTED_VERSION = 5
MIB = 1 << 20


def room_of(memory=None, of=DescribeGroupsResponse):
    return ResponseRoom(of, MEMBERS_VERSION, memory or Memory())


def member(size):
    return DescribedGroupMember(
        member_id="m",
        client_id="",
        client_host="",
        member_metadata=b"",
        member_assignment=bytes(size),
    )


def group(**fields):
    names = ("group_id", "group_state", "protocol_type", "protocol_data")
    return DescribedGroup(**(dict.fromkeys(names, "") | {"members": []} | fields))


async def driven(room, steps):
    """Returns the result of `steps`; pauses at their boundaries as the transport does."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value
        if room.wants_pause():
            await room.pause()


async def test_piecewise_encoding_equals_encoding_at_once():
    members = [member(size) for size in (0, 200, 70_000)]
    room = room_of()
    item = await driven(room, room.encoding_with(group(group_id="g"), "members", members))
    assert room.size == len(item)
    whole = DescribeGroupsResponse(groups=[group(group_id="g", members=members)])
    assert item in whole.encode(MEMBERS_VERSION)


def fill(encode):
    """Returns the size of one item after the other, until one is refused."""
    sizes = []
    with contextlib.suppress(ResponseTooLarge):
        while len(sizes) < 100:
            sizes.append(len(encode(member(MIB))))
    return sum(sizes)


async def test_items_beyond_the_bound_are_refused_and_reported():
    room = room_of()
    size = fill(room.encoded)
    assert RESPONSE_BYTES_MAX - 2 * MIB < size == room.size <= RESPONSE_BYTES_MAX
    with pytest.raises(ResponseTooLarge) as refused:
        room.encoded(member(0))
    assert refused.value.code is ErrorCode.POLICY_VIOLATION
    room.refusal(group(error_code=ErrorCode.POLICY_VIOLATION))
    assert room.size > size


async def test_size_of_refusals_is_limited_too():
    room = room_of()
    size = fill(room.refusal)
    assert ENCODED_BYTES_MAX - 2 * MIB < size == room.size <= ENCODED_BYTES_MAX


async def test_failed_item_of_many_elements_counts_nothing():
    room = room_of()

    def elements():
        yield member(10)
        raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    with pytest.raises(KafkaError):
        await driven(room, room.encoding_with(group(), "members", elements()))
    many = (member(MIB) for _ in range(40))
    with pytest.raises(ResponseTooLarge):
        await driven(room, room.encoding_with(group(), "members", many))
    assert room.size == 0


async def test_other_tasks_run_during_encoding():
    groups = (
        ListedGroup(group_id=f"g{number}", protocol_type="consumer") for number in range(50_000)
    )
    room = room_of(of=ListGroupsResponse)
    with no_slow_steps(40_000):
        found = await driven(room, room.encoding(groups))
    assert room.size == sum(map(len, found)) > 10 * STEP


async def grown(room, size):
    while room.size < size:
        room.encoded(member(STEP))
        await room.pause()


async def test_only_large_response_holds_memory():
    memory = Memory()
    room = room_of(memory)
    memory.large.take(OF_LARGE)
    memory.responses.take(memory.responses.bytes_max)
    room.encoded(member(FREE // 2))
    await room.pause()
    memory.large.give_back(OF_LARGE)
    await grown(room, LARGE - STEP)
    assert memory.large.used == LARGE
    memory.responses.give_back(memory.responses.bytes_max)
    await grown(room, 2 * LARGE)
    assert (memory.large.used, memory.responses.used) == (LARGE, HUGE_BYTES)
    room.close()
    assert (memory.large.used, memory.responses.used) == (0, 0)


async def test_largest_responses_wait_and_block_no_smaller(autojump_clock):
    memory = Memory()
    most = made = 0

    async def make(size):
        nonlocal made, most
        room = room_of(memory)
        await grown(room, size)
        most = max(most, memory.responses.used)
        await trio.sleep(1)
        room.close()
        made += 1

    async with trio.open_nursery() as nursery:
        for _ in range(8):
            nursery.start_soon(make, 8 * MIB)
        await trio.testing.wait_all_tasks_blocked()
        began = trio.current_time()
        await make(LARGE // 2)
        assert trio.current_time() - began < 1.5
    assert made == 9
    assert most <= memory.responses.bytes_max + HUGE_BYTES


async def test_cancelled_caller_holds_nothing():
    memory = Memory()
    memory.responses.take(memory.responses.bytes_max)
    room = room_of(memory)
    with trio.move_on_after(0):
        await grown(room, 4 * MIB)
    room.close()
    assert (memory.large.used, memory.responses.used) == (0, memory.responses.bytes_max)


def test_encoding_stops_above_response_limit():
    name = "n" * 30_000
    listed = [ListedGroup(group_id=name, protocol_type="")] * 4_000
    with pytest.raises(ResponseTooLarge):
        encode_response(ListGroupsResponse(groups=listed), LISTED_VERSION, 1)
    assert encode_response(ListGroupsResponse(groups=listed[:2_000]), LISTED_VERSION, 1)


class Twin:
    """A room by plain sums: its count, the memory that it holds, and whether a pause lets other tasks run."""

    def __init__(self):
        self.size, self.step, self.held, self.full = 0, 60 << 10, "free", False

    def take(self, size):
        if self.full or self.size + size > RESPONSE_BYTES_MAX:
            self.full = True
            return False
        self.size, self.step = self.size + size, self.step + max(size, 64)
        return True

    def pause(self, coming):
        if self.step + coming < 64 << 10:
            return False
        self.step, size = 0, self.size + coming
        if size > 64 << 10 and self.held == "free":
            self.held = "large"
        if size > 1 << 20 and self.held == "large":
            self.held = "huge"
        return True

    def used(self):
        of_large = {"free": 0, "large": 1 << 20, "huge": 1 << 20}[self.held]
        return of_large, 2 * RESPONSE_BYTES_MAX if self.held == "huge" else 0


@pytest.mark.parametrize("seed", range(10))
async def test_room_counts_holds_and_pauses_as_twin(seed):
    random, memory, twin = Random(seed), Memory(), Twin()
    room = room_of(memory)
    task = trio.lowlevel.current_task()
    kib = 1 << 10
    sizes = [0, 1, 63, 64, 65, 4 * kib - 64, 4 * kib, 60 * kib, 64 * kib, 1 << 20, 30 << 20]
    for _ in range(60):
        match random.randrange(6):
            case 0 | 1:
                size = random.choice(sizes[: 11 if random.random() < 0.1 else 9])
                if twin.take(size):
                    room.take(size)
                else:
                    with pytest.raises(ResponseTooLarge):
                        room.take(size)
            case 2:
                count = random.randrange(70)
                room.worked(count)
                twin.step += 64 * count
            case 3:
                twin.size = random.choice([0, twin.size // 2, twin.size])
                room.rewind(twin.size)
            case 4:
                data = room.refusal(group(group_id="x" * random.randrange(100)))
                twin.size, twin.step = twin.size + len(data), twin.step + max(64, len(data))
            case _:
                coming = random.choice([0, 0, 256, 4 * kib - 1, 4 * kib, 64 * kib, 64 * kib + 1])
                before = task._schedule_points
                room.expect(coming)
                await room.pause()
                assert (task._schedule_points > before) == twin.pause(coming)
        assert room.size == twin.size
        assert (memory.large.used, memory.responses.used) == twin.used()
    room.close()
    room.close()
    assert (memory.large.used, memory.responses.used) == (0, 0)


@pytest.mark.parametrize(
    ("size", "held"),
    [
        (64 << 10, (0, 0)),
        ((64 << 10) + 1, (1 << 20, 0)),
        (1 << 20, (1 << 20, 0)),
        ((1 << 20) + 1, (1 << 20, 2 * RESPONSE_BYTES_MAX)),
    ],
)
async def test_each_stage_is_held_from_first_byte(size, held):
    memory = Memory()
    room = room_of(memory)
    room.take(size)
    await room.pause()
    assert (memory.large.used, memory.responses.used) == held
    await room.pause()
    assert (memory.large.used, memory.responses.used) == held
    room.close()
    assert (memory.large.used, memory.responses.used) == (0, 0)


async def yields(act):
    """Returns whether other tasks ran."""
    task = trio.lowlevel.current_task()
    before = task._schedule_points
    await act
    return task._schedule_points > before


@pytest.mark.parametrize(
    ("count", "size", "pauses"),
    [
        (63, 1, False),
        (64, 1, True),
        (63, 64, False),
        (64, 64, True),
        (40, 100, False),
        (41, 100, True),
    ],
)
async def test_other_tasks_run_after_four_kibibytes_of_items(count, size, pauses):
    room = room_of()
    for _ in range(count):
        room.take(size)
    assert await yields(room.pause()) is pauses
    worked = room_of()
    worked.worked(count)
    assert await yields(worked.pause()) is (count >= 64)
    # Afterwards, after sixty-four.
    room, turns = room_of(), 0
    for _ in range(5000):
        room.take(1)
        turns += await yields(room.pause())
    assert turns == 1 + (5000 - 64) // 1024


@pytest.mark.parametrize(("count", "pauses"), [(63, False), (64, True)])
async def test_array_lets_others_run_after_enough_items(count, pauses):
    room = room_of()
    assert await yields(driven(room, room.encoding([member(0)] * count))) is pauses
    assert room.size == count * len(room_of().encoded(member(0)))


def test_refusal_has_room_up_to_encoding_bound():
    item = group(group_id="g")
    size = len(room_of().refusal(item))
    room = room_of()
    room.rewind(ENCODED_BYTES_MAX - size)
    room.refusal(item)
    assert room.size == ENCODED_BYTES_MAX
    room.rewind(ENCODED_BYTES_MAX - size + 1)
    with pytest.raises(ResponseTooLarge):
        room.refusal(item)
