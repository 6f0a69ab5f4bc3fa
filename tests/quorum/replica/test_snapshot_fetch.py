"""Memory use of a fetched snapshot while its last chunk is checked."""

import tracemalloc
from itertools import count
from types import SimpleNamespace

import pytest

from tests.log.helpers import open_log
from trimaran.quorum.raft.messages import FetchSnapshotResponse
from trimaran.quorum.raft.ready import SnapshotChunk
from trimaran.quorum.raft.types import OffsetAndEpoch
from trimaran.quorum.raft_log.memory_log import MemoryLog
from trimaran.quorum.raft_log.metadata_log import MetadataLog
from trimaran.quorum.raft_log.snapshot_files import SnapshotFiles
from trimaran.quorum.raft_log.snapshot_format import encode_snapshot
from trimaran.quorum.replica.snapshot_fetch import SNAPSHOT_BYTES_MAX, SnapshotReceiver
from trimaran.wire.errors import ErrorCode
from trimaran.wire.records.metadata import encode_metadata_record
from trimaran.wire.records.topics import TopicRecord

SNAPSHOT = OffsetAndEpoch(100_000, 3)
PIECE_BYTES = 1 << 20


def snapshot():
    names = (f"{number:0200}" for number in count())
    records = (TopicRecord(name=next(names), topic_id=bytes(15) + b"\1") for _ in range(41_000))
    values = (encode_metadata_record(record, 0) for record in records)
    return b"".join(encode_snapshot(SNAPSHOT, values, appended_at_ms=5, now_ms=6))


def answer(data, position, size):
    return FetchSnapshotResponse(
        epoch=3,
        leader_id=1,
        snapshot_id=SNAPSHOT,
        size=size,
        position=position,
        data=data,
    )


@pytest.mark.parametrize("kind", ["file", "memory"])
async def test_fetched_snapshot_is_held_in_memory_once(tmp_path, kind):
    whole = snapshot()
    assert len(whole) > 8 * PIECE_BYTES
    log = MemoryLog()
    if kind == "file":
        directory = tmp_path / "__cluster_metadata-0"
        directory.mkdir()
        log = MetadataLog(open_log(directory), SnapshotFiles(directory))
    fetch = SnapshotReceiver(log, SimpleNamespace())
    *begin, last = range(0, len(whole), PIECE_BYTES)
    for position in begin:
        await fetch.take(
            SnapshotChunk(SNAPSHOT, position, whole[position : position + PIECE_BYTES], False)
        )
    ended = answer(memoryview(whole)[last:], last, len(whole))
    tracemalloc.start()
    try:
        assert await fetch.check(ended) is ended
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 1.5 * len(whole)


async def test_endless_snapshot_is_not_fetched():
    """The first chunk of an endless snapshot is refused: otherwise a follower would fill its disk, and an observer its
    memory.
    """
    fetch = SnapshotReceiver(MemoryLog(), SimpleNamespace())
    refused = await fetch.check(answer(b"x", 0, SNAPSHOT_BYTES_MAX + 1))
    assert refused.error == ErrorCode.SNAPSHOT_NOT_FOUND
    assert not refused.data
    taken = answer(b"x", 0, SNAPSHOT_BYTES_MAX)
    assert await fetch.check(taken) is taken
