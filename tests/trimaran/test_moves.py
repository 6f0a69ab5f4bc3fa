"""The output of `partitions list` and `reassign` for given responses and plans."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimaran.cli.reassign import read_plan, state_of_move
from trimaran.cli.reassign_plan import as_plan, propose
from trimaran.client.partitions import (
    is_at_min_isr,
    is_not_preferred,
    is_offline,
    is_under_min_isr,
    is_under_replicated,
    rows_of,
)
from trimaran.errors.user_error import Exit, UserError
from trimaran.wire.errors import KafkaError
from trimaran.wire.messages.metadata import MetadataResponsePartition, MetadataResponseTopic


def partition(index, leader, replicas, isr):
    return MetadataResponsePartition(
        partition_index=index,
        leader_id=leader,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=[],
    )


TOPIC = MetadataResponseTopic(
    name="t",
    partitions=[
        partition(2, -1, [1, 2], [1]),
        partition(0, 1, [1, 2], [1, 2]),
        partition(1, 2, [1, 2], [1, 2]),
    ],
)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ([], [0, 1, 2]),
        ([is_under_replicated], [2]),
        ([is_offline], [2]),
        ([is_not_preferred], [1]),
        ([is_offline, is_not_preferred], [1, 2]),
    ],
)
def test_problematic_partitions_are_selected(wanted, expected):
    assert [row["partition"] for row in rows_of([TOPIC], wanted)] == expected


def test_plan_is_readable_by_kafkas_tool(tmp_path):
    path = tmp_path / "plan.json"
    path.write_text(
        '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2],"log_dirs":["any","any"]}]}'
    )
    assert read_plan(path) == {("t", 0): [1, 2]}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"partitions": [{"topic": "t"}]}',
        '{"partitions": [{"topic": "t", "partition": "x", "replicas": []}]}',
        '{"partitions": [{"topic":"t","partition":0,"replicas":[1]},{"topic":"t","partition":0,"replicas":[2]}]}',
    ],
)
def test_invalid_plan_is_refused(tmp_path, text):
    path = tmp_path / "plan.json"
    path.write_text(text)
    with pytest.raises(UserError) as caught:
        read_plan(path)
    assert caught.value.exit_code is Exit.USAGE


def test_move_state_depends_on_replicas():
    assert state_of_move([1, 2], [1, 2], False) == "reassignment complete"
    assert state_of_move([1, 2], [1, 2], True) == "reassignment in progress"
    assert (
        state_of_move([1, 2], [2, 1], False) == "no reassignment in progress, replicas are [1, 2]"
    )
    assert state_of_move(None, [2, 1], False) == "no such partition"


@pytest.mark.parametrize(
    ("minimum", "at", "under"),
    [(1, [2], []), (2, [0, 1], [2]), (5, [0, 1], [2])],
    ids=["one is enough", "all must be in step", "more than there are replicas"],
)
def test_partitions_at_and_under_their_minimum(minimum, at, under):
    def found(test):
        return [row["partition"] for row in rows_of([TOPIC], [test], {"t": minimum})]

    assert found(is_at_min_isr) == at
    assert found(is_under_min_isr) == under


@given(
    st.dictionaries(st.sampled_from("abc"), st.integers(1, 12), min_size=1),
    st.integers(1, 3),
    st.integers(3, 7),
    st.integers(1, 3),
    st.randoms(use_true_random=False),
)
def test_plan_covers_partitions_and_spreads_over_racks(topics, factor, size, racks, prng):
    current = {
        (name, index): [1] * factor for name, count in topics.items() for index in range(count)
    }
    brokers = {i: f"r{i % racks}" for i in range(1, size + 1)}
    proposed = propose(current, brokers, prng)
    assert proposed.keys() == current.keys()
    for replicas in proposed.values():
        assert len(set(replicas)) == factor
        assert set(replicas) <= set(brokers)
        # Kafka's placement uses as many racks as there are replicas
        assert len({brokers[i] for i in replicas}) == min(factor, racks)
    for name, count in topics.items():
        leaders = Counter(proposed[name, index][0] for index in range(count))
        assert max(leaders.values()) <= -(-count // size) + 2 * racks


def test_plan_needs_brokers_and_uniform_racks():
    with pytest.raises(UserError, match="rack"):
        propose({("t", 0): [1]}, {1: "a", 2: None}, random.Random(1))
    with pytest.raises(KafkaError, match="replication factor"):
        propose({("t", 0): [1, 2, 3]}, {1: None, 2: None}, random.Random(1))


def test_printed_plan_can_be_applied(tmp_path):
    path = tmp_path / "plan.json"
    path.write_text(as_plan({("t", 1): (2, 1), ("t", 0): [1, 2]}))
    assert read_plan(path) == {("t", 0): [1, 2], ("t", 1): [2, 1]}
