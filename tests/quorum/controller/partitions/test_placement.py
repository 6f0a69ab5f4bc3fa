"""Guarantees of replica placement, each checked with many seeds."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.quorum.metadata.build import broker, changed_broker, image_of, uid
from trimaran.quorum.controller.partitions.placement import place_replicas
from trimaran.wire.errors import ErrorCode, KafkaError


def brokers(*records):
    return list(image_of(*records).cluster.brokers.values())


def place(listed, count, factor, seed=1):
    return list(place_replicas(listed, count, factor, random.Random(seed)))


def test_leaders_are_striped_over_brokers():
    listed = brokers(*(broker(i) for i in range(1, 7)))
    for seed in range(20):
        placed = place(listed, 6, 3, seed)
        assert sorted(replicas[0] for replicas in placed) == [1, 2, 3, 4, 5, 6]
        assert set(Counter(replica for replicas in placed for replica in replicas).values()) == {3}


def test_replicas_spread_over_available_racks():
    racks = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c", 6: "c"}
    listed = brokers(*(broker(i, rack=r) for i, r in racks.items()))
    for seed in range(20):
        for replicas in place(listed, 12, 3, seed):
            assert {racks[replica] for replica in replicas} == {"a", "b", "c"}


def test_first_replica_is_active_fenced_come_last():
    listed = brokers(broker(1), broker(2), broker(3, fenced=True))
    for seed in range(20):
        for replicas in place(listed, 4, 2, seed):
            assert 3 not in replicas
        for replicas in place(listed, 4, 3, seed):
            assert replicas[2] == 3


def test_replicas_are_consecutive_brokers_and_begin_anywhere():
    listed = brokers(*(broker(i) for i in range(5)))
    first = set()
    for seed in range(40):
        one, *_ = place(listed, 1, 3, seed)
        assert one == (one[0], (one[0] + 1) % 5, (one[0] + 2) % 5)
        first.add(one[0])
    assert first == set(range(5))


def test_fenced_brokers_get_replicas_too():
    listed = brokers(broker(0), *(broker(i, fenced=True) for i in (1, 2, 3)))
    assert {place(listed, 1, 2, seed)[0][1] for seed in range(40)} == {1, 2, 3}


def test_first_leader_may_be_in_any_rack():
    listed = brokers(broker(0), broker(1, rack="a"), broker(2, rack="b"))
    assert {place(listed, 1, 1, seed)[0][0] for seed in range(40)} == {0, 1, 2}


def test_placement_ignores_order_of_brokers():
    racks = ("b", None, "a", "b", None, "a")
    listed = brokers(*(broker(i, rack=rack) for i, rack in enumerate(racks)))
    for seed in range(20):
        assert place(listed, 6, 3, seed) == place(listed[::-1], 6, 3, seed)


def test_rack_of_fenced_brokers_holds_replicas():
    listed = brokers(broker(1, rack="a", fenced=True), broker(2, rack="b"), broker(3, rack="b"))
    for seed in range(20):
        assert all(replicas[1] == 1 for replicas in place(listed, 4, 2, seed))


@pytest.mark.parametrize(
    ("nodes", "factor"),
    [
        ([broker(1), broker(2)], 1),
        ([broker(1), broker(2), broker(3)], 1),
        ([broker(1), broker(2), broker(3, fenced=True), broker(4, fenced=True)], 3),
    ],
)
def test_placement_pattern_does_not_repeat(nodes, factor):
    """Otherwise every few partitions would have all replicas on the same brokers."""
    up = sum(not node.fenced for node in nodes)
    for seed in range(20):
        last = [replicas[-1] for replicas in place(brokers(*nodes), 4 * up, factor, seed)]
        if last != last[:up] * 4:
            return
    raise AssertionError("it repeats with every seed")


class CountingPrng(random.Random):
    """Counts the lists that are shuffled."""

    shuffled = 0

    def shuffle(self, x):
        self.shuffled += 1
        super().shuffle(x)


def test_order_is_shuffled_once_every_broker_has_led():
    listed, prng = brokers(broker(1), broker(2), broker(3)), CountingPrng(1)
    # Each time three lists are shuffled: the racks, and the active and the fenced brokers of the only rack.
    counts = [prng.shuffled // 3 for _ in place_replicas(listed, 10, 1, prng)]
    assert counts == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3]


def test_adjacency_of_racks_varies():
    listed = brokers(broker(1, rack="a"), broker(2, rack="b"), broker(3, rack="c"))
    in_turn = {(1, 2, 3), (2, 3, 1), (3, 1, 2)}
    assert set(place(listed, 3, 3)) == in_turn
    assert any(set(place(listed, 9, 3, seed)) > in_turn for seed in range(20))


def test_consecutive_partitions_begin_in_consecutive_racks():
    racks = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c", 6: "c"}
    listed = brokers(*(broker(i, rack=r) for i, r in racks.items()))
    for seed in range(20):
        assert {racks[replicas[0]] for replicas in place(listed, 3, 1, seed)} == {"a", "b", "c"}


def test_next_rack_leads_in_place_of_failed():
    listed = brokers(
        broker(1, rack="a", fenced=True),
        *(broker(i, rack="b") for i in (2, 3)),
        *(broker(i, rack="c") for i in (4, 5)),
    )
    for seed in range(20):
        leaders = Counter(replicas[0] in (2, 3) for replicas in place(listed, 3, 1, seed))
        assert leaders == {True: 2, False: 1}


def test_broker_without_named_directories_has_none_cordoned():
    """This is the case for brokers before 3.7."""
    assert place(brokers(broker(1, log_dirs=[])), 1, 1) == [(1,)]


def test_placement_without_brokers_is_refused():
    with pytest.raises(KafkaError) as caught:
        place([], 1, 1)
    assert caught.value.code is ErrorCode.INVALID_REPLICATION_FACTOR


def test_sole_active_broker_leads_everything():
    listed = brokers(broker(1), broker(2, fenced=True))
    assert place(listed, 5, 2) == [(1, 2)] * 5


def test_stopping_and_cordoned_brokers_get_no_replicas():
    listed = brokers(
        broker(1),
        broker(2),
        changed_broker(2, in_controlled_shutdown=1),
        broker(3),
        changed_broker(3, cordoned_log_dirs=[uid(503)]),
    )
    assert place(listed, 2, 1) == [(1,), (1,)]


def test_stopped_broker_is_placed_like_fenced_ones():
    """A topic with three replicas can be created while one of three brokers restarts (as in Kafka's
    `BrokerHeartbeatManager.usableBrokers`).
    """
    listed = brokers(
        broker(1),
        broker(2),
        broker(3),
        changed_broker(3, in_controlled_shutdown=1),
        changed_broker(3, fenced=1),
    )
    for seed in range(5):
        for replicas in place(listed, 4, 3, seed):
            assert replicas[2] == 3


@pytest.mark.parametrize("factor", [-1, 0, 3])
def test_impossible_replication_factors_are_refused(factor):
    with pytest.raises(KafkaError) as caught:
        place(brokers(broker(1), broker(2)), 1, factor)
    assert caught.value.code is ErrorCode.INVALID_REPLICATION_FACTOR


def test_placement_without_active_brokers_is_refused():
    with pytest.raises(KafkaError):
        place(brokers(broker(1, fenced=True)), 1, 1)


@given(
    st.lists(
        st.tuples(st.sampled_from([None, "a", "b", "c"]), st.booleans()), min_size=1, max_size=8
    ),
    st.integers(1, 20),
    st.integers(0, 1000),
    st.data(),
)
def test_replicas_are_distinct_and_led_by_active_broker(nodes, count, seed, data):
    listed = brokers(
        *(broker(i, rack=rack, fenced=fenced) for i, (rack, fenced) in enumerate(nodes))
    )
    up = {broker.id for broker in listed if not broker.fenced}
    factor = data.draw(st.integers(1, len(listed)))
    if not up:
        return
    for replicas in place(listed, count, factor, seed):
        assert len(replicas) == factor == len(set(replicas))
        assert replicas[0] in up
