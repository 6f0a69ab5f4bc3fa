"""What `partitions list` and `reassign` make of answers and plans."""

import pytest

from trimaran.cli.partitions import is_not_preferred, is_offline, is_under_replicated, rows_of
from trimaran.cli.reassign import read_plan, state_of_move
from trimaran.errors import Exit, UserError
from wire.messages.metadata import MetadataResponsePartition, MetadataResponseTopic


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
def test_partitions_that_need_a_look(wanted, expected):
    assert [row["partition"] for row in rows_of([TOPIC], wanted)] == expected


def test_a_plan_is_what_kafkas_tool_reads(tmp_path):
    path = tmp_path / "plan.json"
    path.write_text(
        '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2],"log_dirs":["any","any"]}]}'
    )
    assert read_plan(path) == [("t", 0, [1, 2])]


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
def test_what_is_no_plan(tmp_path, text):
    path = tmp_path / "plan.json"
    path.write_text(text)
    with pytest.raises(UserError) as caught:
        read_plan(path)
    assert caught.value.exit_code is Exit.USAGE


def test_how_far_a_move_is():
    assert state_of_move([1, 2], [1, 2], False) == "there"
    assert state_of_move([1, 2], [1, 2], True) == "moving"
    assert state_of_move([1, 2], [2, 1], False) == "not moving, and on [1, 2]"
    assert state_of_move(None, [2, 1], False) == "there is no such partition"
