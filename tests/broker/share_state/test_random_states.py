"""Random requests to share partitions against a naive twin with an entry for each record: also across reloads."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.broker.share_state.driver import (
    ACKNOWLEDGED,
    ARCHIVED,
    AVAILABLE,
    KEY,
    OTHER,
    TOPIC_ID,
    Driver,
    code,
)
from trimaran.broker.share_state.limits import ShareLimits
from trimaran.broker.share_state.memory import held_bytes
from trimaran.broker.share_state.states import StateBatch
from trimaran.wire.errors import ErrorCode

E = ErrorCode
keys = st.sampled_from([KEY, OTHER])
epochs = st.integers(0, 3)
starts = st.one_of(st.none(), st.integers(0, 12))
some_batches = st.lists(
    st.builds(
        lambda first, count, state, deliveries: StateBatch(first, first + count, state, deliveries),
        st.integers(0, 12),
        st.integers(0, 4),
        st.sampled_from([AVAILABLE, ACKNOWLEDGED, ARCHIVED]),
        st.integers(1, 3),
    ),
    max_size=4,
)
ACTS = st.one_of(
    st.tuples(st.just("initialize"), keys, epochs, starts),
    st.tuples(st.just("read"), keys, epochs),
    st.tuples(st.just("write"), keys, epochs, epochs, starts, st.integers(0, 9), some_batches),
    st.tuples(st.just("delete"), keys),
    st.tuples(st.just("time")),
    st.tuples(st.just("reload")),
    st.tuples(st.just("topic deleted")),
)


class Partition:
    """`records` has the (count, state) of each record."""

    def __init__(self):
        self.state_epoch = self.leader_epoch = self.highest_leader = 0
        self.start = self.count = -1
        self.records = {}


class Twin:
    def __init__(self):
        self.partitions = {}

    def initialize(self, key, state_epoch, start):
        before = self.partitions.get(key)
        if before is not None and before.state_epoch > state_epoch:
            return E.FENCED_STATE_EPOCH
        after = self.partitions[key] = Partition()
        after.state_epoch = state_epoch
        after.start, after.count = (-1, -1) if start is None else (start, 0)
        after.highest_leader = 0 if before is None else before.highest_leader
        return E.NONE

    def read(self, key, leader_epoch):
        one = self.partitions.get(key)
        if one is None:
            return E.INVALID_REQUEST
        if one.highest_leader > leader_epoch:
            return E.FENCED_LEADER_EPOCH
        if one.highest_leader != leader_epoch:
            one.leader_epoch = one.highest_leader = leader_epoch
        return E.NONE

    def write(self, key, state_epoch, leader_epoch, start, count, batches):
        one = self.partitions.get(key)
        if one is None:
            return E.INVALID_REQUEST
        if one.highest_leader > leader_epoch:
            return E.FENCED_LEADER_EPOCH
        if one.state_epoch > state_epoch:
            return E.FENCED_STATE_EPOCH
        start = -1 if start is None else start
        if start > one.start:
            one.start, one.count = start, count
        elif start == one.start:
            one.count = max(count, one.count)
        for first, last, state, deliveries in batches:
            for offset in range(first, last + 1):
                new = deliveries, state
                one.records[offset] = max(one.records.get(offset, new), new)
        one.records = {at: each for at, each in one.records.items() if at >= one.start}
        return E.NONE

    def delete(self, key):
        self.partitions.pop(key, None)
        return E.NONE


def shown(driver):
    """Returns all states, record by record."""
    found = {}
    for key in (KEY, OTHER):
        entry = driver.shard._entries.get(key)
        if entry is not None:
            state = entry.state
            found[key] = (
                state.state_epoch,
                state.start_offset,
                state.delivery_complete_count,
                {
                    at: (count, each)
                    for first, last, each, count in state.batches
                    for at in range(first, last + 1)
                },
            )
    return found


def check_sums(shard):
    """Checks the shard's totals: the memory, the cold states, and the keys of each topic."""
    entries = shard._entries
    assert shard.account.bytes == sum(
        held_bytes(key, entry.state) for key, entry in entries.items()
    )
    assert shard._cold == sum(entry.is_cold for entry in entries.values())
    assert {key for keys in shard._by_topic.values() for key in keys} == entries.keys()
    assert all(shard._by_topic.values())
    snapshots = [entry.snapshot_offset for entry in entries.values()]
    assert snapshots == sorted(snapshots)


def expected(twin):
    return {
        key: (one.state_epoch, one.start, one.count, one.records)
        for key, one in twin.partitions.items()
    }


@given(st.lists(ACTS, max_size=30), st.integers(0, 3))
def test_random_requests_agree_with_naive_twin(acts, updates_per_snapshot):
    driver, twin = Driver(ShareLimits(updates_per_snapshot=updates_per_snapshot)), Twin()
    for name, *args in acts:
        if name == "time":
            driver.advance(300)
            driver.prune()
        elif name == "reload":
            driver.reload()
            for key, one in twin.partitions.items():
                # The former leaders are known only from the remaining records.
                one.highest_leader = driver.shard._entries[key].leader_epoch
        elif name == "topic deleted":
            driver.shard.topics_deleted([TOPIC_ID], driver.at)
            driver.advance(0)
            twin.partitions.clear()
        else:
            assert code(lambda: asked(driver, name, args)) is getattr(twin, name)(*args)  # noqa: B023
        assert shown(driver) == expected(twin)
        check_sums(driver.shard)
    states = shown(driver)
    driver.reload()
    assert shown(driver) == states


def asked(driver, name, args):
    shard, at = driver.shard, driver.at
    if name == "write":
        key, state_epoch, leader_epoch, start_offset, count, batches = args
        driver.write(
            *batches,
            key=key,
            state_epoch=state_epoch,
            leader_epoch=leader_epoch,
            start_offset=start_offset,
            count=count,
        )
    elif name == "delete":
        driver.submit(shard.delete(*args))
    else:
        driver.submit(getattr(shard, name)(*args, at))
