"""The order in which requests begin, and how long other connections wait for theirs."""

import math

import pytest
import trio
from trio.testing import assert_checkpoints, assert_no_checkpoints, wait_all_tasks_blocked

from tests.checks import check_each
from trimaran.wire.transport.scheduling.loop_time import LoopTime
from trimaran.wire.transport.scheduling.loop_turns import LoopTurns, loop_turns
from trimaran.wire.transport.scheduling.turn import Turn, TurnQueue

ALONE = 0.001
SHARE_OF_LITTLE = 0.7
FADING = 0.1
SLICE = 0.00025
RESERVED = 0.0005
SELDOM = 0.005

LITTLE = SLICE / 10
# The limit of a turn of the loop: a slice that began in time may end later, and one more was admitted.
LONGEST = 2 * SLICE + RESERVED
# A pause after which earlier use hardly counts.
LONG = 20 * FADING


class Clock:
    """A clock that advances only while a connection works."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
async def queue(clock):
    return TurnQueue(loop_turns(), clock)


def add(turn, seconds):
    """Charges this amount of the loop's time to the connection."""
    turn._count(seconds, turn._queue.clock())


async def work(turn, clock, seconds):
    await turn.begin()
    clock.now += seconds
    turn.end()


def lets_begin(queue, turn):
    return queue.lets_begin(turn, SLICE)


def made(queue):
    return Turn(queue, LoopTime())


class Busy:
    """Connections that always have a slice to do; `slices` counts those of each so far."""

    def __init__(self, queue, clock, count, seconds=SLICE):
        self.turns = [made(queue) for _ in range(count)]
        self.slices = [0] * count
        self._clock, self._seconds = clock, seconds

    async def work(self, number):
        while True:
            await work(self.turns[number], self._clock, self._seconds)
            self.slices[number] += 1
            await trio.lowlevel.checkpoint()  # as before a receive

    def start(self, nursery):
        for number in range(len(self.turns)):
            nursery.start_soon(self.work, number)


@pytest.mark.parametrize("count", [1, 8, 100])
@pytest.mark.parametrize("slice_seconds", [SLICE, LITTLE], ids=["long", "short"])
async def test_light_user_waits_at_most_two_turns(queue, clock, count, slice_seconds):
    async with trio.open_nursery() as nursery:
        Busy(queue, clock, count, slice_seconds).start(nursery)
        honest, waited = made(queue), []
        for _ in range(60):
            await trio.lowlevel.checkpoint()
            began = clock.now
            await honest.begin()
            waited.append(clock.now - began)
            clock.now += LITTLE / 10
            honest.end()
            for _ in range(20):
                await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()
    assert max(waited[5:]) <= 2 * LONGEST * 1.001


async def test_busy_connections_share_the_loop_equally(queue, clock):
    """B3; this includes connections that use more at once than others."""
    async with trio.open_nursery() as nursery:
        small, large = Busy(queue, clock, 4, SLICE), Busy(queue, clock, 4, 5 * SLICE)
        small.start(nursery)
        large.start(nursery)
        began = clock.now
        while clock.now < began + 2000 * SLICE:
            await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()
    shares = [turn.loop_time.seconds / (clock.now - began) for turn in small.turns + large.turns]
    check_each(shares, lambda share: abs(share - 1 / 8) < 0.02)


async def test_short_slices_share_a_turn_of_loop(queue, clock):
    """With one slice a turn, most of it would be the loop's own work."""
    turns = 0

    class Counting(trio.abc.Instrument):
        def after_io_wait(self, _timeout):
            nonlocal turns
            turns += 1

    async with trio.open_nursery() as nursery:
        busy = Busy(queue, clock, 50, LITTLE)
        busy.start(nursery)
        counting = Counting()
        trio.lowlevel.add_instrument(counting)
        ends = clock.now + 200 * SLICE
        while clock.now < ends:
            await trio.lowlevel.checkpoint()
        trio.lowlevel.remove_instrument(counting)
        nursery.cancel_scope.cancel()
    assert sum(busy.slices) / turns > SLICE / LITTLE / 2


async def test_lone_connection_does_not_wait(queue, clock):
    turn = made(queue)
    for _ in range(3):
        await turn.begin()
        assert not turn.is_over()
        clock.now += ALONE * 0.9
        assert not turn.is_over()
        clock.now += ALONE * 0.2
        assert turn.is_over()
        turn.end()
        assert turn.is_over()


async def test_accompanied_connection_has_shorter_slices_for_a_while(queue, clock):
    turn, other = made(queue), made(queue)
    for item in (turn, other):
        await work(item, clock, LITTLE)
    await turn.begin()
    clock.now += SLICE * 1.1
    assert turn.is_over()
    turn.end()
    clock.now += FADING
    await trio.lowlevel.checkpoint()
    await turn.begin()
    clock.now += SLICE * 1.1
    assert not turn.is_over()


async def test_work_before_a_slice_counts_as_its_part(queue, clock):
    """This also holds if the slice must wait, but the wait does not count."""
    turn, other = made(queue), made(queue)
    since, clock.now = clock.now, clock.now + LITTLE
    await turn.begin(since)
    turn.end()
    assert turn.loop_time.seconds == pytest.approx(LITTLE)
    await work(other, clock, 2 * SLICE)
    since, clock.now = clock.now, clock.now + LITTLE
    await turn.begin(since)
    clock.now += LITTLE
    turn.end()
    assert turn.loop_time.seconds == pytest.approx(3 * LITTLE)


async def test_connection_with_least_use_is_next(clock):
    loop = LoopTurns()
    queue = TurnQueue(loop, clock)
    turns = [made(queue) for _ in range(4)]
    for seconds, turn in zip((0.96, 0.9, 0.94, 0.92), turns, strict=True):
        add(turn, seconds)
    first, went = made(queue), []
    add(first, 2 * SELDOM)

    async def ask(number):
        await work(turns[number], clock, SLICE)
        went.append(number)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(work, first, clock, SLICE)  # the first waiter is not in the line
        await wait_all_tasks_blocked()
        for number in range(4):
            nursery.start_soon(ask, number)
        for _ in turns:
            await wait_all_tasks_blocked()
            loop.after_io_wait(0.0)
            queue.took(0.0, 0.0)
    assert went == [1, 3, 2, 0]


async def test_old_use_does_not_count(queue, clock):
    was_busy, other = made(queue), made(queue)
    await work(was_busy, clock, 100 * SLICE)
    clock.now += LONG
    await trio.lowlevel.checkpoint()
    await work(other, clock, SLICE)
    assert was_busy.order() < other.order()
    assert math.isfinite(was_busy.order())


async def test_cancelled_waiter_delays_no_other(queue, clock):
    """Connections end while they wait, in any order in which trio runs them; the remaining ones get their turn."""
    went = []

    async def ask(turn, scope):
        with scope:
            await work(turn, clock, SLICE)
            went.append(turn)

    async def leave(scopes):
        for scope in scopes:
            scope.cancel()

    for _ in range(50):
        stays, *others = [(made(queue), trio.CancelScope()) for _ in range(4)]
        with trio.fail_after(30):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(work, made(queue), clock, SLICE)
                nursery.start_soon(leave, [scope for _, scope in others])
                for turn, scope in (stays, *others):
                    nursery.start_soon(ask, turn, scope)
        assert stays[0] in went


async def test_steps_beside_slices_are_counted_and_delay(queue, clock):
    turn, other, busy = made(queue), made(queue), made(queue)
    add(busy, 2 * SELDOM)
    await trio.lowlevel.checkpoint()
    turn.resume()
    clock.now += SLICE
    assert turn.pause() == pytest.approx(SLICE)
    add(turn, LITTLE)
    assert turn.loop_time.seconds == pytest.approx(SLICE + LITTLE)
    assert not lets_begin(queue, busy)
    add(turn, SELDOM)
    add(other, 2 * SELDOM)
    with assert_checkpoints():
        await work(other, clock, LITTLE)
    assert lets_begin(queue, busy)


async def test_part_of_each_turn_serves_light_users(queue, clock):
    busy, honest, other, third = (made(queue) for _ in range(4))
    add(busy, 2 * SELDOM)
    await trio.lowlevel.checkpoint()
    await work(busy, clock, SLICE * 1.01)
    assert not lets_begin(queue, busy)
    with assert_no_checkpoints():
        await work(honest, clock, SLICE)
        await work(other, clock, SLICE)
    assert not lets_begin(queue, third), "nor is there more for many of them"
    with assert_checkpoints():
        await work(third, clock, SLICE)
    with assert_no_checkpoints():
        await work(honest, clock, LITTLE)


async def test_light_use_is_below_mean_of_line(queue, clock):
    """Eight connections share the loop; one that used less than `SHARE_OF_LITTLE` of their mean goes first."""
    crowd, less, hardly_less = [made(queue) for _ in range(8)], made(queue), made(queue)
    for connection in crowd:
        add(connection, 2 * SELDOM)
    add(less, 2 * SELDOM * SHARE_OF_LITTLE * 0.99)
    add(hardly_less, 2 * SELDOM * SHARE_OF_LITTLE * 1.01)
    await trio.lowlevel.checkpoint()
    async with trio.open_nursery() as nursery:
        for connection in crowd:
            nursery.start_soon(work, connection, clock, SLICE)
        for _ in range(2):  # in the first turn all of them have requested one, before or after this
            await trio.lowlevel.checkpoint()
        assert not lets_begin(queue, hardly_less)
        with assert_no_checkpoints():
            await work(less, clock, LITTLE)


async def test_slice_in_this_turn_is_no_light_use(queue, clock):
    turn, other = made(queue), made(queue)
    await work(other, clock, LITTLE)
    await work(turn, clock, SLICE)
    assert not lets_begin(queue, turn)
    assert lets_begin(queue, other) is False
    await trio.lowlevel.checkpoint()
    await work(made(queue), clock, SLICE)
    assert lets_begin(queue, turn)


async def test_heavy_use_long_ago_counts_little(queue, clock):
    turn = made(queue)
    add(turn, SLICE * 1000)
    clock.now += LONG
    await trio.lowlevel.checkpoint()
    await work(made(queue), clock, SLICE)
    assert lets_begin(queue, turn)


async def test_admitted_connection_is_expected_in_next_turn(queue, clock):
    """A connection that arrives then waits, unless the expected slice does not begin: a closed connection delays no
    other.
    """
    first, second, third = made(queue), made(queue), made(queue)
    for item in (first, second, third):
        add(item, 2 * SELDOM)
    await trio.lowlevel.checkpoint()
    await work(first, clock, SLICE)
    await second.begin()
    assert not lets_begin(queue, third)
    for _ in range(2):  # `second` does no work
        await trio.lowlevel.checkpoint()
    assert lets_begin(queue, third)


@pytest.mark.parametrize(
    ("taken", "expected"),
    [(0.0, True), (SLICE * 0.999, True), (SLICE, False), (SLICE * 1.001, False)],
)
async def test_turn_has_room_below_its_seconds(queue, clock, taken, expected):
    late = made(queue)
    add(late, 2 * SELDOM)
    for _ in range(3):
        await trio.lowlevel.checkpoint()
    assert queue.has_room()
    queue.took(taken, 0.0)
    assert (queue.has_room(), late.has_room(), lets_begin(queue, late)) == (expected,) * 3
    for _ in range(2):
        await trio.lowlevel.checkpoint()
    assert queue.has_room()


async def test_turn_with_a_line_has_no_room(queue):
    async with trio.open_nursery() as nursery:
        for order in range(2):
            nursery.start_soon(queue.enter, order, LITTLE)
        for _ in range(2):
            await trio.lowlevel.checkpoint()
        assert not queue.has_room()
        nursery.cancel_scope.cancel()


async def test_only_light_users_precede_the_line(queue):
    """The turn is not full, because the admitted connection is expected to use less than a whole turn."""
    late = made(queue)
    add(late, 2 * SELDOM)
    async with trio.open_nursery() as nursery:
        for order in range(3):
            nursery.start_soon(queue.enter, order, LITTLE)
        for _ in range(2):
            await trio.lowlevel.checkpoint()
        assert not lets_begin(queue, late)
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(("difference", "is_little"), [(0.3, False), (0.4, True)])
async def test_departed_waiter_is_not_compared(queue, difference, is_little):
    """At most one connection is admitted, whether or not it then leaves. The factor 0.7 is e to the power of -0.36."""
    late = made(queue)
    add(late, 2 * SELDOM)
    order = late.order() + difference
    leaving = [trio.CancelScope() for _ in range(2)]

    async def leave(scope):
        with scope:
            await queue.enter(order + 50, SLICE)

    async with trio.open_nursery() as nursery:
        for scope in leaving:
            nursery.start_soon(leave, scope)
        for _ in range(4):
            nursery.start_soon(queue.enter, order, SLICE)
        await trio.lowlevel.checkpoint()
        for scope in leaving:
            scope.cancel()
        for _ in range(2):
            await trio.lowlevel.checkpoint()
        assert lets_begin(queue, late) is is_little
        nursery.cancel_scope.cancel()


async def test_light_use_is_relative_to_last_admitted(queue, clock):
    busy, less, hardly_less = made(queue), made(queue), made(queue)
    add(busy, 2 * SELDOM)
    add(less, 2 * SELDOM * SHARE_OF_LITTLE * 0.9)
    add(hardly_less, 2 * SELDOM * SHARE_OF_LITTLE * 1.1)
    await trio.lowlevel.checkpoint()
    await work(made(queue), clock, SLICE)
    with assert_checkpoints():
        await work(busy, clock, SLICE)
    assert not lets_begin(queue, hardly_less)
    assert lets_begin(queue, less)


async def test_time_before_a_slice_counts_without_shortening(queue, clock):
    turn = made(queue)
    clock.now += 1.0
    await turn.begin(clock.now, spent=ALONE)
    assert not turn.is_over()
    clock.now += ALONE * 0.9
    assert not turn.is_over()
    turn.end()
    assert turn.loop_time.seconds == pytest.approx(ALONE * 1.9)


async def test_time_before_a_delayed_slice_counts_once(queue, clock):
    turn = made(queue)
    await work(turn, clock, SLICE)
    since, clock.now = clock.now, clock.now + LITTLE
    await turn.begin(since, spent=LITTLE)  # in the next turn: this one is full
    assert turn.loop_time.seconds == pytest.approx(SLICE + 2 * LITTLE)
    turn.end()
    assert turn.loop_time.seconds == pytest.approx(SLICE + 2 * LITTLE)
