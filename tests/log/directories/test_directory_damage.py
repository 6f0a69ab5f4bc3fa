"""mD3, mD4, mD7: a partition's file is replaced by something else, or a call fails. The file is rebuilt, or refused
with a reason; its content is never guessed.
"""

import errno
import os
import shutil
from random import Random

import pytest

from tests.log.faulty_files import FaultyFiles
from tests.log.helpers import SMALL, append, fill, read_all
from trimaran.log.directories.directory import LogDirectory
from trimaran.log.directories.meta_properties import MetaProperties
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicPartition

TOPIC_ID = bytes(range(100, 116))
FILES = ["00000000000000000000.index", "00000000000000000000.timeindex", "leader-epoch-checkpoint"]


@pytest.fixture
def path(tmp_path):
    MetaProperties("Vk_zJvdfRf6PsrkaTDAJ-A", 11, bytes(range(16))).save(tmp_path)
    return tmp_path


def written(path, batches=40):
    directory = LogDirectory(path)
    log = fill(directory.create_log(TopicPartition("t", 0), TOPIC_ID, SMALL), batches)
    found = read_all(log)
    directory.close(broker_epoch=1)
    return found


def reopened(path):
    directory = LogDirectory(path)
    try:
        return read_all(directory.open_log(TopicPartition("t", 0), SMALL))
    finally:
        directory.close(broker_epoch=None)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    "damage",
    [
        "missing",
        "empty",
        "short",
        "long",
        "zeros",
        "reversed",
        "another's",
        "garbage",
        "negative",
        "beyond",
    ],
)
def test_small_file_is_rebuilt_from_the_log(path, name, damage, clean):
    batches = written(path)
    file = path / "t-0" / name
    data = file.read_bytes()
    replaced = {
        "empty": b"",
        "short": data[: len(data) // 2 + 1],
        "long": data + b"\1" * 11,
        "zeros": bytes(len(data)),
        "reversed": data[::-1],
        "another's": bytes(reversed(range(1, 97))),
        "garbage": Random(7).randbytes(len(data)),
        "negative": b"\xff" * len(data),
        "beyond": b"\x7f" * len(data),
    }
    file.unlink()
    if damage != "missing":
        file.write_bytes(replaced[damage])
    if not clean:
        (path / ".kafka_cleanshutdown").unlink()
    assert reopened(path) == batches


@pytest.mark.parametrize("what", ["directory", "fifo", "dangling link"])
@pytest.mark.parametrize("name", ["00000000000000000000.log", *FILES, "partition.metadata"])
def test_non_regular_file_is_refused_by_name(path, name, what):
    batches = written(path)
    file = path / "t-0" / name
    file.unlink()
    match what:
        case "directory":
            file.mkdir()
        case "fifo":
            os.mkfifo(file)
        case "dangling link":
            file.symlink_to("nowhere")
    directory = LogDirectory(path)
    refused = None
    try:
        topic_id = directory.topic_id(TopicPartition("t", 0))
        found = read_all(directory.open_log(TopicPartition("t", 0), SMALL))
    except KafkaError as error:
        refused = error
    directory.close(broker_epoch=None)
    if refused is None:  # not needed here, or treated as missing: the log is intact
        assert found == batches
        assert (topic_id is None) == (name == "partition.metadata")
    else:
        assert refused.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert "t-0" in str(refused)


@pytest.mark.parametrize("error", ["EACCES", "ENOSPC", "EROFS", "EMFILE", "EIO"])
@pytest.mark.parametrize(
    "call",
    ["open", "pwrite", "pread", "fdatasync", "truncate", "rename", "unlink", "mkdir", "list_directory",
     "fsync_directory"],
)  # fmt: skip
def test_failed_call_takes_directory_offline_with_reason(path, call, error):
    files = FaultyFiles()
    directory = LogDirectory(path, files=files)
    log = fill(directory.create_log(TopicPartition("t", 0), TOPIC_ID, SMALL), 30)
    log.flush()
    acknowledged = read_all(log)
    files.fail_at(call, error=getattr(errno, error), sticky=True)

    def work():
        append(log)
        read_all(log)
        log.roll(0)
        log.flush()
        log.truncate_to(45)
        directory.create_log(TopicPartition("u", 0), TOPIC_ID, SMALL)
        directory.delete_log(TopicPartition("t", 0))
        directory.purge()
        directory.save_checkpoints()

    with pytest.raises(KafkaError) as raised:
        work()
    assert raised.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert os.strerror(getattr(errno, error)) in directory.offline
    directory.close(broker_epoch=3)
    assert not (path / ".kafka_cleanshutdown").exists()
    again = LogDirectory(path)
    if ("t", 0) in again:
        kept = read_all(again.open_log(TopicPartition("t", 0), SMALL))
        whole = min(len(kept), len(acknowledged))
        assert kept[:whole] == acknowledged[:whole]
        assert whole >= 15, "what was not truncated is there"
    again.close(broker_epoch=None)


def test_log_refused_after_crash_stays_refused_after_stop(path):
    """A clean start checks only the end: damage in the middle would be served."""
    directory = LogDirectory(path)
    fill(directory.create_log(TopicPartition("t", 0), TOPIC_ID, SMALL), 3).flush()
    directory.save_checkpoints()
    directory.close(broker_epoch=None)
    segment = path / "t-0" / f"{0:020d}.log"
    data = bytearray(segment.read_bytes())
    data[16] ^= 1  # the magic byte of the first batch
    segment.write_bytes(data)
    reasons = set()
    for epoch in (1, 2, 3):
        directory = LogDirectory(path)
        with pytest.raises(KafkaError) as refused:
            directory.open_log(TopicPartition("t", 0), SMALL)
        reasons.add(refused.value.message)
        directory.close(broker_epoch=epoch)
    assert len(reasons) == 1


def segment_files(folder, base):
    return sorted(path for path in folder.iterdir() if path.name.startswith(f"{base:020d}."))


@pytest.mark.parametrize("stage", range(6))
def test_either_cleaned_segment_or_its_sources_survive(path, stage):
    """KAFKA-12520: a .cleaned file is ignored; with .swap the new one is complete, whichever old files remain."""
    batches = written(path)
    folder = path / "t-0"
    first, second = sorted(int(path.stem) for path in folder.glob("*.log"))[:2]
    old = segment_files(folder, first) + segment_files(folder, second)
    merged = b"".join((folder / f"{base:020d}.log").read_bytes() for base in (first, second))
    suffix = ".cleaned" if stage == 0 else ".swap"
    for segment_file in segment_files(folder, first):
        shutil.copy(segment_file, segment_file.with_name(segment_file.name + suffix))
    (folder / f"{first:020d}.log{suffix}").write_bytes(merged)
    for number, entry in enumerate(old):
        if stage == 2:  # every second name has changed
            entry.rename(entry.with_name(entry.name + ".deleted")) if number % 2 else None
        elif stage == 3:
            entry.rename(entry.with_name(entry.name + ".deleted"))
        elif stage == 4:
            entry.unlink()
    if stage == 5:  # the log has its name, its indexes do not yet
        for item in old:
            item.unlink()
        (folder / f"{first:020d}.log.swap").rename(folder / f"{first:020d}.log")
    (path / ".kafka_cleanshutdown").unlink()
    assert reopened(path) == batches
    names = sorted(os.listdir(folder))
    assert not [name for name in names if name.endswith((".cleaned", ".swap", ".deleted"))]
    assert (f"{second:020d}.log" in names) == (stage == 0), "one of the two, never both"
