"""A snapshot fetched from the leader: checked as a whole when its last chunk arrives, then put in place of the log.

Source: KIP-630, Kafka's `KafkaRaftClient.handleFetchSnapshotResponse`.
"""

from __future__ import annotations

import logging

from trimaran.node.runtime.threads import run_blocking, run_computing
from trimaran.quorum import events
from trimaran.quorum.raft import messages as core
from trimaran.quorum.raft.ready import SnapshotChunk
from trimaran.quorum.raft.types import OffsetAndEpoch, ensure
from trimaran.quorum.raft_log.memory_log import MemoryLog
from trimaran.quorum.raft_log.metadata_log import MetadataLog
from trimaran.quorum.raft_log.snapshot_format import (
    CheckedSnapshot,
    SnapshotDamaged,
    check_snapshot,
)
from trimaran.quorum.replica.appliers import Applier

log = logging.getLogger(__name__)

# A snapshot of a million partitions is about 100 MB; one that is ten times larger is refused, because it is checked in
# memory.
SNAPSHOT_BYTES_MAX = 1 << 30


class SnapshotReceiver:
    """The fetch of one snapshot: `check` is called for each response, `take` for each chunk that the core orders to
    write.
    """

    def __init__(self, metadata_log: MetadataLog | MemoryLog, applier: Applier) -> None:
        self._log = metadata_log
        self._applier = applier
        self._verified: CheckedSnapshot | None = None

    async def check(self, response: core.FetchSnapshotResponse) -> core.FetchSnapshotResponse:
        """Checks a response. A last chunk is accepted only if the whole snapshot is valid; otherwise the leader counts
        as not having it.
        """
        if response.size > SNAPSHOT_BYTES_MAX:
            events.SNAPSHOT_TOO_LARGE.log(log, bytes=response.size)
            return core.not_found(response)
        if response.snapshot_id is None or response.position + len(response.data) < response.size:
            return response
        whole = await run_blocking(self._log.snapshot_part, response.snapshot_id, response.position)
        whole += response.data  # in place: a snapshot of a million partitions is 120 MB
        try:
            self._verified = await run_computing(_verify, response.snapshot_id, whole)
        except SnapshotDamaged as error:
            events.SNAPSHOT_DAMAGED.log(log, error=error)
            return core.not_found(response)
        return response

    async def take(self, chunk: SnapshotChunk) -> None:
        loaded = self._verified if chunk.is_last else None
        is_verified = loaded is not None and loaded.id == chunk.snapshot_id
        ensure(
            is_verified or not chunk.is_last,
            "R9 only a checked snapshot is taken over",
            chunk.snapshot_id,
        )
        if isinstance(self._log, MemoryLog):
            self._log.write_snapshot_part(chunk.position, chunk.data)
            if loaded is not None:
                self._log.start_at_snapshot(chunk.snapshot_id)
                self._applier.replace(loaded)
            return
        files = self._log.snapshots
        await run_blocking(files.write_part, chunk.snapshot_id, chunk.position, chunk.data)
        if loaded is not None:
            await run_blocking(files.finish_part, chunk.snapshot_id)
            gone = self._log.start_at_snapshot(chunk.snapshot_id)
            self._applier.replace(loaded)
            await run_blocking(files.unlink, gone)


def _verify(snapshot_id: OffsetAndEpoch, data: bytearray) -> CheckedSnapshot:
    """Checks a snapshot, which is invalid if any record cannot be read: the records are decoded here, and again when
    they are applied.
    """
    checked = check_snapshot(snapshot_id, data)
    for _ in checked.records():
        pass
    return checked
