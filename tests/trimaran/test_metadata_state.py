"""`metadata image|diff|cat|ls|find|verify` and `quorum history` over directories on disk."""

from __future__ import annotations

import json
import shutil

import pytest

from tests.spark.directories import (
    created_topic,
    leader_change,
    make_node,
    metadata_batch,
    write_partition,
)
from trimaran.cli import metadata_state as commands
from trimaran.cli.quorum import history
from trimaran.errors.user_error import UserError
from trimaran.inspect.metadata.diff import differences
from trimaran.wire.records.configs import ConfigRecord
from trimaran.wire.records.misc import NoOpRecord

TOPIC_ID = bytes(15) + b"\x09"
BATCHES = [
    leader_change(0, 1, 1, (1, 2, 3), 1000),
    metadata_batch(1, 1, created_topic(TOPIC_ID), 2000),
    metadata_batch(
        3,
        1,
        [ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value="1")],
        3000,
    ),
    leader_change(4, 2, 2, (1, 2, 3), 6000),
    metadata_batch(5, 2, [NoOpRecord()], 7000),
]


def node(tmp_path, node_id, batches=BATCHES, **options):
    directory = make_node(tmp_path, node_id)
    write_partition(directory, "__cluster_metadata", 0, batches, **options)
    return directory


@pytest.fixture
def directory(tmp_path):
    return node(tmp_path, 1)


@pytest.fixture
def printed(capsys):
    """Returns the output of a command: its text, or its JSON."""

    def read(as_json=True):
        text = capsys.readouterr().out
        return json.loads(text) if as_json else text

    return read


def test_state_at_an_offset_is_printed(directory, printed):
    commands.image(directory, at=2)
    state = printed()
    assert (state["offset"], list(state["topics"]), state["configs"]) == (2, ["orders"], [])
    commands.image(directory / "__cluster_metadata-0" / f"{0:020d}.log")
    state = printed()
    assert (state["offset"], state["epoch"], state["leader_id"]) == (5, 2, 2)
    assert state["configs"][0]["config"] == {"retention.ms": "1"}
    assert [voter["voter_id"] for voter in state["voters"]] == [1, 2, 3]


@pytest.mark.parametrize(("as_of", "offset"), [("2999", 2), ("3000", 3), ("@6999", 4), ("9000", 5)])
def test_state_as_of_a_time_is_printed(directory, printed, as_of, offset):
    commands.image(directory, as_of=as_of)
    assert printed()["offset"] == offset


def test_invalid_time_of_state_is_refused(directory):
    with pytest.raises(UserError, match="does not reach back to that time"):
        commands.image(directory, as_of="999")
    with pytest.raises(UserError, match="cannot be combined"):
        commands.image(directory, at=1, as_of="3000")


def test_state_is_read_over_many_segments(tmp_path, printed):
    commands.image(node(tmp_path, 1, segment_bytes=100), at=4)
    assert printed()["offset"] == 4


@pytest.mark.parametrize(("where", "at"), [("missing", None), ("", None), ("node-1", 6)])
def test_impossible_image_is_refused(tmp_path, where, at):
    node(tmp_path, 1)
    with pytest.raises(UserError):
        commands.image(tmp_path / where, at=at)


def test_log_without_beginning_needs_a_snapshot(tmp_path):
    directory = node(tmp_path, 1, segment_bytes=100)
    segments = sorted((directory / "__cluster_metadata-0").glob("*.log"))
    segments[0].unlink()
    with pytest.raises(UserError, match="does not reach back"):
        commands.image(directory)


def test_states_of_offsets_and_directories_are_compared(tmp_path, printed):
    one = node(tmp_path, 1)
    two = node(tmp_path, 2, BATCHES[:2])
    assert commands.diff("2", "3", path=one, output="json") == 1
    assert [(row["path"], row["change"]) for row in printed()] == [
        ("/configs/TOPIC:orders", "added")
    ]
    assert commands.diff(str(two), f"{one}@2", output="json") == 0
    assert printed() == []


def test_differences_name_the_deepest_paths():
    before = {"a": [{"partition": 0, "isr": [1, 2]}, {"partition": 1, "isr": [1]}], "b": 1}
    after = {"a": [{"partition": 0, "isr": [1]}], "b": 1, "c": {}}
    assert list(differences(before, after)) == [
        {"path": "/a/0/isr", "change": "changed", "before": [1, 2], "after": [1]},
        {
            "path": "/a/1",
            "change": "removed",
            "before": {"partition": 1, "isr": [1]},
            "after": None,
        },
        {"path": "/c", "change": "added", "before": None, "after": {}},
    ]


def test_moved_listener_is_a_difference():
    def state(port, *more):
        return {"controllers": {"1": {"listeners": [{"name": "CONTROLLER", "port": port}, *more]}}}

    assert list(differences(state(1), state(2))) == [
        {
            "path": "/controllers/1/listeners/CONTROLLER/port",
            "change": "changed",
            "before": 1,
            "after": 2,
        }
    ]
    assert [row["change"] for row in differences(state(1), state(1, {"nameless": 1}))] == [
        "changed"
    ]


def test_tree_has_kafkas_paths(directory, printed):
    assert commands.ls("/image/topics/byName", path=directory) == 0
    assert printed(as_json=False).split() == ["orders"]
    assert commands.cat("/image/topics/by*/*/0", path=directory) == 0
    texts = printed(as_json=False).splitlines()
    assert len(texts) == 2
    assert texts[0] == texts[1]
    assert texts[0].startswith("PartitionRegistration(replicas=[11, 12], directories=[")
    assert commands.find("/image/configs", path=directory, at=3) == 0
    assert printed(as_json=False).split() == [
        "/image/configs",
        "/image/configs/TOPIC:orders",
        "/image/configs/TOPIC:orders/retention.ms",
    ]
    for command in (commands.ls, commands.cat, commands.find):
        assert command("/image/nowhere", path=directory) == 1
    assert commands.cat("/image/topics", path=directory) == 1


def test_logs_that_match_are_verified(tmp_path, printed):
    one, two = node(tmp_path, 1), node(tmp_path, 2, BATCHES[:3])
    assert commands.verify(one, two, output="json") == 0
    result = printed()
    assert [log["end_offset"] for log in result["logs"]] == [6, 4]
    assert result["problems"] == []


def test_differing_logs_are_reported(tmp_path, printed):
    other = [*BATCHES[:2], metadata_batch(3, 1, [NoOpRecord()], 3000)]
    assert commands.verify(node(tmp_path, 1), node(tmp_path, 2, other), output="json") == 1
    (problem,) = printed()["problems"]
    assert problem["problem"] == "two logs differ"
    assert "offset 3, epoch 1" in problem["where"]


def test_damage_before_end_is_reported(tmp_path, printed):
    directory = node(tmp_path, 1, segment_bytes=100)
    segment = min((directory / "__cluster_metadata-0").glob("*.log"))
    data = bytearray(segment.read_bytes())
    data[-1] ^= 1
    segment.write_bytes(data)
    assert commands.verify(directory, output="json") == 1
    assert "damage" in {problem["problem"] for problem in printed()["problems"]}


def test_snapshot_with_other_content_is_reported(tmp_path, printed):
    one = node(tmp_path, 1)
    folder = one / "__cluster_metadata-0"
    donor = tmp_path / "donor"
    shutil.copytree(folder, donor)
    from trimaran.quorum.raft.types import OffsetAndEpoch
    from trimaran.quorum.raft_log.snapshot_format import encode_snapshot

    empty = b"".join(encode_snapshot(OffsetAndEpoch(4, 1), [], appended_at_ms=1, now_ms=1))
    (folder / f"{4:020d}-{1:010d}.checkpoint").write_bytes(empty)
    assert commands.verify(one, output="json") == 1
    (problem,) = printed()["problems"]
    assert problem["problem"] == "a snapshot is not what the log says"
    (folder / f"{4:020d}-{1:010d}.checkpoint").write_bytes(empty[:-1])
    assert commands.verify(one, output="json") == 1
    assert printed()["problems"][0]["problem"] == "a damaged snapshot"


def test_history_shows_leader_epochs_and_gaps(directory, printed):
    history(directory, output="json")
    first, second = printed()
    assert (first["epoch"], first["leader_id"], first["seconds"]) == (1, 1, 2.0)
    assert (second["epoch"], second["leader_id"], second["gap_before_ms"]) == (2, 2, 3000)


def test_foreign_file_is_refused(tmp_path):
    other = tmp_path / "controller-1.log"
    other.write_text("12:00 INFO started\n")
    for command in (commands.verify, commands.image):
        with pytest.raises(UserError, match="no metadata log in"):
            command(other)
