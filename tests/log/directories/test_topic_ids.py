"""The topic of a replica's directory: the id, the owner, or a refusal, for each state of its files."""

from __future__ import annotations

import pytest

from trimaran.log.directories.topic_ids import TopicIds, belongs, has_records, topic_id_in
from trimaran.log.disk.checkpoints import LEADER_EPOCHS
from trimaran.log.disk.files import REAL_FILES
from trimaran.log.disk.partition_metadata import FILE_NAME, format_partition_metadata
from trimaran.log.durability.health import DirectoryHealth
from trimaran.wire.buffers.primitives import uuid_from_text
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicPartition

OURS = uuid_from_text("AAAAAAAAAAAAAAAAAAAAAQ")
ONE_CHARACTER = uuid_from_text("BAAAAAAAAAAAAAAAAAAAAQ")
TWO_CHARACTERS = uuid_from_text("BBAAAAAAAAAAAAAAAAAAAQ")
WHOLE = format_partition_metadata(OURS)
# The first is the content of a file that was never synced, the second that of a file that a disk has changed.
TORN, CHANGED = WHOLE[:-1], WHOLE.replace(b"topic", b"tipoc")
FIRST, LATER = "00000000000000000000.log", "00000000000000000007.log"
KEY = TopicPartition("t", 0)


@pytest.fixture
def health():
    return DirectoryHealth()


def replica(path, *, metadata=None, segments=(), is_flushed=False):
    """Returns a directory; segments are pairs of a name and a size."""
    directory = path / "t-0"
    directory.mkdir()
    if metadata is not None:
        (directory / FILE_NAME).write_bytes(metadata)
    for name, size in segments:
        (directory / name).write_bytes(bytes(size))
    if is_flushed:
        (directory / LEADER_EPOCHS).write_bytes(b"0\n0\n")
    return directory


def refused(caught, health):
    """Asserts that only the replica is out of service, with advice for the operator."""
    error = caught.value
    advice = "write it again: a line `version: 0` and a line `topic_id: ID`"
    return (
        error.code is ErrorCode.KAFKA_STORAGE_ERROR
        and advice in error.message
        and not (health.offline)
    )


@pytest.mark.parametrize(
    ("segments", "expected"),
    [
        ((), False),
        (((FIRST, 0),), False),
        (((FIRST, 1),), True),
        (((LATER, 0),), True),
        (((FIRST, 0), (LATER, 0)), True),
        ((("0.log", 5), ("leader-epoch-checkpoint", 5)), False),
    ],
)
def test_log_with_bytes_or_later_start_has_records(tmp_path, segments, expected):
    assert has_records(replica(tmp_path, segments=segments), REAL_FILES) is expected


@pytest.mark.parametrize("is_flushed", [False, True])
@pytest.mark.parametrize("segments", [(), ((FIRST, 0),), ((FIRST, 1),)])
@pytest.mark.parametrize("metadata", [None, WHOLE, TORN, CHANGED])
def test_id_is_read_refused_or_missing(tmp_path, health, metadata, segments, is_flushed):
    """A damaged file matters if there are records; a torn one only if they were flushed."""
    directory = replica(tmp_path, metadata=metadata, segments=segments, is_flushed=is_flushed)
    has_any = segments == ((FIRST, 1),)
    must_refuse = has_any and (metadata == CHANGED or (metadata == TORN and is_flushed))
    if must_refuse:
        with pytest.raises(KafkaError) as caught:
            topic_id_in(directory, REAL_FILES, health)
        assert refused(caught, health)
    else:
        expected = OURS if metadata == WHOLE else None
        assert topic_id_in(directory, REAL_FILES, health) == expected


def test_missing_directory_is_refused(tmp_path, health):
    with pytest.raises(KafkaError, match="is missing, with its directory") as caught:
        topic_id_in(tmp_path / "t-0", REAL_FILES, health)
    assert refused(caught, health)


@pytest.mark.parametrize(
    ("found", "expected"),
    [(OURS, True), (ONE_CHARACTER, None), (TWO_CHARACTERS, False)],
    ids=["ours", "one", "two"],
)
def test_id_that_nearly_matches_is_damaged(tmp_path, health, found, expected):
    directory = replica(tmp_path)
    if expected is None:
        with pytest.raises(KafkaError, match=r"it says BAA.*, the topic is AAA") as caught:
            belongs(directory, found, OURS, REAL_FILES, health)
        assert refused(caught, health)
    else:
        assert belongs(directory, found, OURS, REAL_FILES, health) is expected


@pytest.mark.parametrize("is_flushed", [False, True])
@pytest.mark.parametrize("size", [0, 1])
def test_lost_id_of_flushed_records_is_refused(tmp_path, health, size, is_flushed):
    directory = replica(tmp_path, segments=((FIRST, size),), is_flushed=is_flushed)
    if size and is_flushed:
        with pytest.raises(KafkaError, match="is missing") as caught:
            belongs(directory, None, OURS, REAL_FILES, health)
        assert refused(caught, health)
    else:
        assert belongs(directory, None, OURS, REAL_FILES, health) is False


def test_ids_are_read_once_until_forgotten(tmp_path, health):
    directory = replica(tmp_path, metadata=WHOLE)
    ids = TopicIds(REAL_FILES, health, lambda key: tmp_path / str(key))
    assert ids.get(KEY) == OURS
    (directory / FILE_NAME).write_bytes(format_partition_metadata(TWO_CHARACTERS))
    assert (ids.get(KEY), ids.is_of(KEY, OURS), ids.is_of(KEY, TWO_CHARACTERS)) == (
        OURS,
        True,
        False,
    )
    ids.forget(KEY)
    ids.forget(KEY)
    assert (ids.get(KEY), ids.is_of(KEY, TWO_CHARACTERS)) == (TWO_CHARACTERS, True)
    ids.put(KEY, None)
    assert (ids.get(KEY), ids.is_of(KEY, TWO_CHARACTERS)) == (None, False)
