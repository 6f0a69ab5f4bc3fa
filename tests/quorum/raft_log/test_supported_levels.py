"""A member of the quorum refuses levels and records of a later Kafka version, without changing anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from trimaran.log.batches.control_records import build_control_batch
from trimaran.log.batches.records import NewRecord, build_batch
from trimaran.log.codecs.compression import Compression
from trimaran.log.segments.segment import file_name
from trimaran.quorum.raft.types import OffsetAndEpoch
from trimaran.quorum.raft_log.snapshot_files import snapshot_name
from trimaran.quorum.raft_log.snapshot_format import encode_snapshot
from trimaran.quorum.raft_log.supported_levels import MetadataTooNew, check_directory
from trimaran.quorum.raft_log.voter_records import kraft_version_record
from trimaran.wire.records.features import FeatureLevelRecord
from trimaran.wire.records.metadata import encode_metadata_record

LATER = 34  # 4.5
NAMES_BOTH = (
    r"metadata\.version is 34 at offset 1 of .*, .* knows metadata\.version up to 33 \(4\.4-IV2\)"
)


def level(name: str, value: int) -> bytes:
    return encode_metadata_record(FeatureLevelRecord(name=name, feature_level=value), 0)


def records(*values: bytes, base: int = 0, compression: Compression = Compression.NONE) -> bytes:
    made = [NewRecord(None, value, 1) for value in values]
    return build_batch(made, base_offset=base, leader_epoch=1, compression=compression)


def snapshot(end: int, *values: bytes) -> bytes:
    made = encode_snapshot(OffsetAndEpoch(end, 1), values, appended_at_ms=1, now_ms=1)
    return b"".join(made)


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def written(folder: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


NOW = level("metadata.version", 33)
LOG = file_name(0, ".log")
UPGRADED = records(NOW, level("metadata.version", LATER))
AT_5 = snapshot_name(OffsetAndEpoch(5, 1))
KRAFT_2 = build_control_batch([kraft_version_record(2)], timestamp_ms=1, leader_epoch=1)


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({LOG: UPGRADED}, NAMES_BOTH),
        (
            {LOG: records(NOW, level("metadata.version", LATER), compression=Compression.GZIP)},
            NAMES_BOTH,
        ),
        ({LOG: UPGRADED + UPGRADED[:70]}, NAMES_BOTH),  # a torn end
        ({LOG: b"", AT_5: snapshot(5, level("metadata.version", LATER))}, "metadata.version is 34"),
        (
            {LOG: records(NOW, level("share.version", 3))},
            "share.version is 3 .* share.version up to 2",
        ),
        (
            {LOG: records(NOW, level("nova.version", 1))},
            "nova.version is 1 .* nova.version up to 0",
        ),
        ({LOG: KRAFT_2}, "kraft.version is 2 .* kraft.version up to 1"),
        ({"b.checkpoint": snapshot(0, level("metadata.version", LATER))}, "metadata.version is 34"),
    ],
    ids=["tail", "compressed", "torn", "snapshot", "other", "unheard", "kraft", "bootstrap"],
)
def test_directory_above_our_level_is_refused_untouched(tmp_path, files, words):
    before = files_of(written(tmp_path, files))
    with pytest.raises(MetadataTooNew, match=words):
        check_directory(tmp_path, tmp_path / "b.checkpoint")
    assert files_of(tmp_path) == before


@pytest.mark.parametrize(
    "files",
    [
        {},
        {LOG: records(NOW, level("share.version", 1))},  # known, though not supported
        {LOG: records(NOW, level("nova.version", 0), level("kraft.version", 7))},
        # downgraded later: the newest snapshot and the log after it count
        {LOG: UPGRADED + records(NOW, NOW, NOW, base=2), AT_5: snapshot(5, NOW)},
        {LOG: records(NOW), "b.checkpoint": snapshot(0, level("metadata.version", LATER))},
        {LOG: records(NOW) + b"damage", AT_5: b"damage"},
    ],
    ids=["none", "unserved", "zero", "downgraded", "begun", "damaged"],
)
def test_directory_at_known_levels_is_accepted(tmp_path, files):
    check_directory(written(tmp_path, files), tmp_path / "b.checkpoint")
    check_directory(tmp_path / "none", tmp_path / "nowhere")
