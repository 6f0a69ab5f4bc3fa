"""A pool of bytes compared with a twin: both admit the same waiters at the same time, regardless of which holders
release memory and which waiters leave meanwhile.
"""

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

from trimaran.wire.transport.memory import pools as memory
from trimaran.wire.transport.memory.pools import Memory, MemoryPool, holding


class Twin:
    """The holders and the waiters in order, as (name, size, how often others passed it)."""

    def __init__(self, bytes_max, passed_max):
        self.bytes_max, self.passed_max = bytes_max, passed_max
        self.held, self.waiting = {}, []

    @property
    def used(self):
        return sum(self.held.values())

    def come(self, name, size):
        if not self.waiting and self.used < self.bytes_max:
            self.held[name] = size
        else:
            self.waiting.append([name, size, 0])

    def leave(self, name):
        if name in self.held:
            del self.held[name]
            self.let_in()
        else:
            self.waiting = [waiter for waiter in self.waiting if waiter[0] != name]

    def let_in(self):
        while self.waiting and self.used < self.bytes_max:
            oldest = self.waiting[0]
            chosen = min(self.waiting, key=lambda waiter: waiter[1])
            if chosen[1] == oldest[1] or oldest[2] >= self.passed_max:
                chosen = oldest
            elif chosen is not oldest:
                oldest[2] += 1
            self.waiting.remove(chosen)
            self.held[chosen[0]] = chosen[1]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("come"), st.integers(1, 6)),
        st.tuples(st.just("leave"), st.integers(0, 30)),
    ),
    min_size=10,
    max_size=30,
)


@given(steps=STEPS, bytes_max=st.integers(3, 8), passed_max=st.integers(0, 2))
def test_bytes_are_held_as_in_the_twin(steps, bytes_max, passed_max):
    async def run():
        pool, twin, scopes, held = MemoryPool(bytes_max), Twin(bytes_max, passed_max), {}, set()

        async def hold(name, size):
            with trio.CancelScope() as scopes[name]:
                async with holding(pool, size):
                    held.add(name)
                    await trio.sleep_forever()
            held.discard(name)

        async with trio.open_nursery() as nursery:
            for number, (step, argument) in enumerate(steps):
                if step == "come":
                    nursery.start_soon(hold, number, argument)
                    twin.come(number, argument)
                elif scopes:
                    name = sorted(scopes)[argument % len(scopes)]
                    scopes.pop(name).cancel()
                    twin.leave(name)
                await wait_all_tasks_blocked()
                assert held == set(twin.held)
                assert (pool.used, pool.waiting) == (twin.used, len(twin.waiting))
                assert pool.is_full is (twin.used >= bytes_max)
            nursery.cancel_scope.cancel()
        assert (pool.used, pool.waiting) == (0, 0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory, "PASSED_MAX", passed_max)
        trio.run(run)


async def test_pressure_is_noticed_from_the_first_waiter():
    pool, heard = MemoryPool(1), []

    async def look():
        await pool.wait_pressed()
        heard.append(pool.waiting)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(look)
        pool.take(1)
        await wait_all_tasks_blocked()
        assert heard == []
        nursery.start_soon(pool.acquire, 1)
        await wait_all_tasks_blocked()
        assert heard == [1]
        pool.give_back(1)


def test_half_of_request_bytes_is_for_frames():
    made = Memory(100, 40)
    assert (made.frames.bytes_max, made.requests.bytes_max, made.responses.bytes_max) == (
        50,
        50,
        40,
    )
    assert made.large.bytes_max == 16 << 20
    assert len({id(pool) for pool in made.pools()}) == 3
    assert made.large not in made.pools()


async def test_large_waiter_is_passed_a_thousand_times():
    pool, granted = MemoryPool(100), []

    async def acquire(size):
        await pool.acquire(size)
        granted.append(size)

    pool.take(100)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(acquire, 500)
        await wait_all_tasks_blocked()
        for _ in range(1001):
            nursery.start_soon(acquire, 100)
        await wait_all_tasks_blocked()
        for _ in range(1000):
            pool.give_back(100)
        await wait_all_tasks_blocked()
        assert granted == [100] * 1000
        pool.give_back(100)
        await wait_all_tasks_blocked()
        assert granted[1000:] == [500]
        nursery.cancel_scope.cancel()
