"""`partition.metadata`: its exact bytes, Kafka's form, and the damage that an unsynced file may have."""

from __future__ import annotations

import pytest

from tests.log.recorded_files import RecordedFiles
from trimaran.log.disk.files import REAL_FILES
from trimaran.log.disk.partition_metadata import (
    FILE_NAME,
    PartitionMetadataDamaged,
    format_partition_metadata,
    make_partition_directory,
    read_partition_metadata,
)
from trimaran.wire.buffers.primitives import uuid_from_text

TEXT = "AAECAwQFBgcICQoLDA0ODw"
TOPIC_ID = bytes(range(16))
OURS = b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw\ncrc32c: 491ca7be\n"
KAFKAS = OURS[: OURS.index(b"crc32c")]


def read(path, text):
    (path / FILE_NAME).write_bytes(text)
    return read_partition_metadata(path)


def test_file_is_kafkas_with_a_checksum(tmp_path):
    assert uuid_from_text(TEXT) == TOPIC_ID
    assert format_partition_metadata(TOPIC_ID) == OURS
    assert read(tmp_path, OURS) == TOPIC_ID


@pytest.mark.parametrize(
    "text",
    [
        KAFKAS,
        KAFKAS[:-1],
        KAFKAS.replace(b"0", b"12", 1),
        KAFKAS + b"a later line\n",
    ],
)
def test_file_without_checksum_is_kafkas(tmp_path, text):
    assert read(tmp_path, text) == TOPIC_ID


def test_missing_file_is_no_damage(tmp_path):
    assert read_partition_metadata(tmp_path) is None
    assert read_partition_metadata(tmp_path / "missing") is None


WHOLE = format_partition_metadata(TOPIC_ID)
FLIPPED = WHOLE.replace(b"AAEC", b"BAEC")


@pytest.mark.parametrize(
    ("text", "may_be_torn"),
    [
        (b"", True),
        (WHOLE[:30], True),
        (WHOLE[:-1], True),
        (bytes(len(WHOLE)), True),
        (bytes(4096), True),
        (FLIPPED, False),
        (WHOLE + b"\n", False),
        (WHOLE.replace(b"version", b"virsion"), False),
        (WHOLE.replace(b"crc32c: ", b"crc32c; "), False),
        (format_partition_metadata(bytes(16)), False),
    ],
)
def test_damage_is_torn_only_if_short_or_zero(tmp_path, text, may_be_torn):
    with pytest.raises(PartitionMetadataDamaged, match=FILE_NAME) as caught:
        read(tmp_path, text)
    assert caught.value.may_be_torn is may_be_torn


def test_unreadable_file_is_not_torn(tmp_path):
    (tmp_path / FILE_NAME).mkdir()
    with pytest.raises(PartitionMetadataDamaged) as caught:
        read_partition_metadata(tmp_path)
    assert caught.value.may_be_torn is False


@pytest.mark.parametrize("topic_id", [None, TOPIC_ID])
def test_new_directory_has_its_id_unsynced(tmp_path, topic_id):
    files, directory = RecordedFiles(), tmp_path / "t-0"
    make_partition_directory(directory, topic_id, files)
    assert [path.name for path in directory.iterdir()] == ([FILE_NAME] if topic_id else [])
    assert read_partition_metadata(directory, REAL_FILES) == topic_id
    assert not [line for line in files.taken() if line.startswith("sync")]
