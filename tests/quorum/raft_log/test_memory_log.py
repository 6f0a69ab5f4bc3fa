"""The log of an observer without a disk behaves like the log on a disk."""

import pytest

from tests.log.helpers import open_log
from trimaran.log.batches.records import NewRecord, build_batch
from trimaran.quorum.raft.types import OffsetAndEpoch
from trimaran.quorum.raft_log.memory_log import MemoryLog
from trimaran.quorum.raft_log.metadata_log import MetadataLog
from trimaran.quorum.raft_log.snapshot_files import SnapshotFiles
from trimaran.quorum.raft_log.snapshot_format import encode_snapshot

SNAPSHOT = OffsetAndEpoch(100, 5)


@pytest.fixture
def logs(tmp_path):
    directory = tmp_path / "__cluster_metadata-0"
    directory.mkdir()
    return MemoryLog(), MetadataLog(open_log(directory), SnapshotFiles(directory))


def begin_at_snapshot(logs):
    memory, disk = logs
    data = b"".join(encode_snapshot(SNAPSHOT, [], appended_at_ms=1, now_ms=1))
    memory.write_snapshot_part(0, data)
    memory.start_at_snapshot(SNAPSHOT)
    disk.snapshots.write(SNAPSHOT, [data])
    disk.start_at_snapshot(SNAPSHOT)


def append(logs, offset, epoch):
    data = build_batch([NewRecord(None, b"x", 1)], base_offset=offset, leader_epoch=epoch)
    for log in logs:
        log.append_fetched(data)


def known(log):
    epochs = [log.end_offset_for_epoch(epoch) for epoch in (5, 7, 8) if log.last_epoch]
    return log.start_offset, log.end_offset, log.last_epoch, epochs


@pytest.mark.parametrize("begins_at", [0, SNAPSHOT.offset])
@pytest.mark.parametrize("kept", [0, 1])
def test_uncommitted_records_are_forgotten_with_their_epoch(logs, begins_at, kept):
    """Otherwise the observer requests what follows that epoch again, and the leader returns the same point of
    divergence.
    """
    if begins_at:
        begin_at_snapshot(logs)
    append(logs, begins_at, 5)
    append(logs, begins_at + 1, 7)
    memory, disk = logs
    assert known(memory) == known(disk)
    for log in logs:
        log.truncate_to(begins_at + kept)
    assert memory.last_epoch == (5 if begins_at or kept else 0)
    assert known(memory) == known(disk)
