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

OFFSETS = {("t", 0): 42, ("t", 1): 7, ("a.longer_name", 12): 10**12}


def written(path: Path, data: bytes) -> Path:
    (path / "checkpoint").write_bytes(data)
    return path / "checkpoint"


@pytest.mark.parametrize("offsets", [{}, {("t", 0): 0}, OFFSETS])
def test_written_checkpoint_is_read_back(tmp_path, offsets):
    assert read_offsets(written(tmp_path, format_offsets(offsets))) == offsets


def test_no_flipped_bit_is_read_as_another_checkpoint(tmp_path):
    text = format_offsets(OFFSETS)
    for position in range(len(text)):
        for bit in range(8):
            flipped = bytearray(text)
            flipped[position] ^= 1 << bit
            with suppress(CheckpointDamaged):  # or it is in blanks, which are ignored
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
def test_no_lost_end_is_read_as_another_checkpoint(tmp_path, fill):
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
