"""Checkpoint files: Kafka reads ours, we read Kafka's, and no single flipped bit changes the content of ours."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

import pytest

from trimaran.log.disk.checkpoints import (
    CheckpointDamaged,
    format_offsets,
    parse_checkpoint,
    read_offsets,
)
from trimaran.log.disk.leader_epochs import LeaderEpochs
from trimaran.wire.identity import TopicPartition

OFFSETS = {("t", 0): 42, ("t", 1): 7, ("a.longer_name", 12): 10**12}


def written(path: Path, data: bytes) -> Path:
    (path / "checkpoint").write_bytes(data)
    return path / "checkpoint"


@pytest.mark.parametrize("offsets", [{}, {("t", 0): 0}, OFFSETS])
def test_written_checkpoint_is_read_back(tmp_path, offsets):
    assert read_offsets(written(tmp_path, format_offsets(offsets))) == offsets


def test_entries_are_written_in_order(tmp_path):
    offsets = {TopicPartition("t", 1): 7, TopicPartition("t", 0): 42, TopicPartition("s", 9): 0}
    text = format_offsets(offsets)
    assert [line.strip() for line in text.splitlines()] == [
        b"0",
        b"3",
        b"s 9 0",
        b"t 0 42",
        b"t 1 7",
    ]
    assert list(read_offsets(written(tmp_path, text))) == [("s", 9), ("t", 0), ("t", 1)]


@pytest.mark.parametrize(
    ("text", "is_empty_valid", "expected"),
    [
        (None, True, {}),
        (None, False, {}),
        (b"", True, {}),
        (b"", False, "cut, its last line has no end"),
        (b"0\n0\n", False, {}),
        (b"0\n1\nt 0 0\n", False, {("t", 0): 0}),
        (b"0\n2\nt 0 5\nt 1 -1\n", True, "a negative offset"),
        (b"0\n2\nt 0 5\nt 0 6\n", True, "a partition stands there twice"),
        (b"0\n2\nt 0 5\n", True, "version 0, 2 entries announced, 1 present"),
        (b"1\n1\nt 0 5\n", True, "version 1, 1 entries announced, 1 present"),
        (b"0\n1\nt 0\n", True, "not enough values"),
        (b"0\n1\nt 0 x\n", True, "invalid literal"),
        (b"directory", True, "cannot be read: not a regular file"),
    ],
)
def test_checkpoint_is_read_missing_or_damaged(tmp_path, text, is_empty_valid, expected):
    path = tmp_path / "checkpoint"
    if text == b"directory":
        path.mkdir()
    elif text is not None:
        path.write_bytes(text)
    if isinstance(expected, str):
        with pytest.raises(CheckpointDamaged, match=rf"{path}.*{expected}"):
            read_offsets(path, may_be_empty=is_empty_valid)
    else:
        assert read_offsets(path, may_be_empty=is_empty_valid) == expected


def test_flipped_bit_yields_no_other_content(tmp_path):
    text = format_offsets(OFFSETS)
    for position in range(len(text)):
        for bit in range(8):
            flipped = bytearray(text)
            flipped[position] ^= 1 << bit
            with suppress(CheckpointDamaged):  # or the bit is in blanks, which are ignored
                assert read_offsets(written(tmp_path, bytes(flipped))) == OFFSETS


def test_flipped_bit_never_yields_other_leader_epochs():
    epochs = LeaderEpochs([(3, 0), (5, 17), (6, 200)])
    text = epochs.format()
    for position in range(len(text)):
        for bit in range(8):
            flipped = bytearray(text)
            flipped[position] ^= 1 << bit
            with suppress(CheckpointDamaged):
                found = LeaderEpochs.parse(Path("epochs"), bytes(flipped))
                assert found.entries() == epochs.entries()


@pytest.mark.parametrize("fill", [b"", b"\0"], ids=["cut", "zeros"])
def test_truncated_checkpoint_yields_no_other_content(tmp_path, fill):
    text = format_offsets(OFFSETS)
    for size in range(1, len(text)):
        left = text[:size] + fill * (len(text) - size)
        with pytest.raises(CheckpointDamaged):
            read_offsets(written(tmp_path, left))


def test_kafkas_file_has_no_checksum(tmp_path):
    assert read_offsets(written(tmp_path, b"0\n2\nt 0 42\nt 1 7\n")) == {("t", 0): 42, ("t", 1): 7}


def test_kafka_reads_over_the_checksum():
    """`Pattern.split` omits trailing empty strings; version and count are whole lines."""
    version, count, *lines = format_offsets(OFFSETS).decode().split("\n")
    assert (version, count, lines.pop()) == ("0", "3", "")
    for line in lines:
        parts = re.split(r"\s+", line)
        while parts[-1] == "":
            parts.pop()
        topic, partition, offset = parts
        assert OFFSETS[topic, int(partition)] == int(offset)


def test_edited_checkpoint_without_checksum_is_accepted():
    text = format_offsets(OFFSETS).replace(b" 42", b" 41")
    with pytest.raises(CheckpointDamaged, match="remove the blanks at its end"):
        parse_checkpoint(Path("checkpoint"), text)
    edited = text.rstrip() + b"\n"
    assert ["t", "0", "41"] in parse_checkpoint(Path("checkpoint"), edited)
