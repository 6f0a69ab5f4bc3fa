"""mD3: a replica with a damaged topic id among intact ones, and how the broker's directories treat it."""

import os

import pytest

from tests.log.helpers import SMALL, fill
from trimaran.broker.storage.directories import LogDirectories
from trimaran.log.directories.directory import LogDirectory
from trimaran.log.directories.meta_properties import MetaProperties
from trimaran.quorum.metadata.image import LOST_DIRECTORY, UNASSIGNED_DIRECTORY
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicPartition

TOPIC_ID = bytes(range(100, 116))
ELSEWHERE = bytes([7]) * 16


def flip(path):
    data = bytearray((path / "partition.metadata").read_bytes())
    data[25] ^= 1
    (path / "partition.metadata").write_bytes(data)


def lose(path):
    (path / "partition.metadata").unlink()


def cut(path):
    os.truncate(path / "partition.metadata", 20)


def hide(path):
    """Makes it a link to a missing file."""
    path.rename(path.parent / "hidden")
    path.symlink_to("nowhere")


@pytest.fixture(params=[flip, lose, cut, hide], ids=lambda damage: damage.__name__)
def directories(tmp_path, request):
    """Returns directories with the replicas t-0, which is damaged, and t-1."""
    MetaProperties("Vk_zJvdfRf6PsrkaTDAJ-A", 11, bytes([1]) * 16).save(tmp_path)
    directory = LogDirectory(tmp_path)
    for index in (0, 1):
        fill(directory.create_log(TopicPartition("t", index), TOPIC_ID, SMALL), 3)
    directory.close(broker_epoch=1)
    request.param(tmp_path / "t-0")
    directories = LogDirectories([LogDirectory(tmp_path)])
    yield directories
    assert directories.offline is None
    directories.close(broker_epoch=1, high_watermarks={})


def files_of(directories):
    [directory] = directories.all
    return {str(path.relative_to(directory.path)) for path in directory.path.rglob("*")}


async def test_damaged_replica_is_kept_unserved_and_reported(directories, caplog):
    before = files_of(directories)
    told = []
    directories.on_placed = lambda *placed: told.append(placed)
    for _ in range(3):
        with pytest.raises(KafkaError) as refused:
            directories.open_log(TopicPartition("t", 0), TOPIC_ID, SMALL)
        assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        with pytest.raises(KafkaError):
            await directories.check_log(TopicPartition("t", 0), TOPIC_ID, SMALL)
    assert set(told) == {((TOPIC_ID, 0), LOST_DIRECTORY)}
    assert files_of(directories) == before
    lines = [record.getMessage() for record in caplog.records if "t-0" in record.getMessage()]
    assert len(lines) == 1
    assert "partition.metadata" in lines[0]
    assert directories.open_log(TopicPartition("t", 1), TOPIC_ID, SMALL).log_end_offset == 9


async def test_as_a_follower_it_is_lost_too(directories):
    told = []
    directories.on_placed = lambda *placed: told.append(placed)
    for index in (0, 1):
        directories.claim(TopicPartition("t", index), TOPIC_ID, ELSEWHERE, may_begin_anew=True)
    assert told == [
        ((TOPIC_ID, 0), LOST_DIRECTORY),
        ((TOPIC_ID, 1), directories.all[0].directory_id),
    ]


async def test_damaged_replica_survives_topic_deletion(directories):
    before = files_of(directories)
    directories.delete_log(TopicPartition("t", 0), TOPIC_ID)
    await directories.purge()
    assert files_of(directories) == before
    directories.delete_log(TopicPartition("t", 1), TOPIC_ID)
    await directories.purge()
    assert not [name for name in files_of(directories) if name.startswith("t-1")]


@pytest.mark.parametrize("directories", [flip, cut, hide], indirect=True)
async def test_damaged_replica_is_no_stray(directories):
    await directories.drop_strays(())
    names = {name for name in files_of(directories) if "/" not in name}
    assert "t-0" in names
    assert "t-1" not in names
    with pytest.raises(KafkaError):
        directories.open_log(TopicPartition("t", 0), bytes([9]) * 16, SMALL, UNASSIGNED_DIRECTORY)
