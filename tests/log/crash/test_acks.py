"""P6: an offset is reported durable only after its bytes and names are; waiting appends share one fdatasync."""

import errno
from collections import defaultdict
from dataclasses import replace
from random import Random

import pytest
import trio

from tests.log.durability.held_syncs import HeldSyncs
from tests.log.faulty_files import FaultyFiles
from tests.log.helpers import append
from tests.log.power_loss import Style
from trimaran.log.config import LogConfig
from trimaran.log.durability.group_commit import GroupCommit
from trimaran.log.durability.health import DirectoryHealth, StorageFailure
from trimaran.log.durability.syncing import use
from trimaran.log.partitions.opening import LastRun
from trimaran.log.partitions.partition_log import PartitionLog

CONFIG = LogConfig(segment_bytes=1000, index_interval_bytes=150, retention_ms=-1)
PARTITIONS, WRITERS, APPENDS = 3, 8, 6


def make_logs(root, files, health):
    logs = []
    for number in range(PARTITIONS):
        directory = root / f"t-{number}"
        files.mkdir(directory)
        logs.append(
            PartitionLog.open(
                directory,
                CONFIG,
                LastRun(clean_shutdown=True),
                now_ms=0,
                files=files,
                health=health,
            )
        )
    return logs


def durable_bytes(files, log):
    """Returns all segments of the log as a power loss would leave them now."""
    tree = files.disk.after(Style.LOST, Random(0))
    inside = str(log.directory) + "/"
    return b"".join(
        content
        for path, content in sorted(tree.items())
        if path.startswith(inside) and path.endswith(".log") and content
    )


class RecordedSyncs(HeldSyncs):
    """Syncs immediately and reports it some turns later."""

    def __init__(self, files):
        super().__init__()
        files.kernel_syncs = True
        self._files = files

    def submit(self, descriptors):
        for descriptor in descriptors:
            self._files.kernel_sync(descriptor)
        return super().submit(descriptors)

    async def complete_all(self):
        told = 0
        while True:
            for _ in range(3):
                await trio.lowlevel.checkpoint()
            if told < len(self.submitted):
                for _ in self.submitted[told]:
                    self.complete(told)
                told += 1


@pytest.mark.parametrize("by_kernel", [False, True])
async def test_acks_follow_and_share_the_flush(tmp_path, nursery, by_kernel):
    files, health = FaultyFiles(), DirectoryHealth()
    files.watch(tmp_path)
    if by_kernel:
        kernel = RecordedSyncs(files)
        use(kernel)
        nursery.start_soon(kernel.complete_all)
    logs = make_logs(tmp_path, files, health)
    commit = GroupCommit(health)
    acked, written = [], defaultdict(list)

    async def write(number):
        log = logs[number % PARTITIONS]
        for turn in range(APPENDS):
            before = log.log_end_offset
            info = append(log, 2, value=b"%d" % number * 40)
            data = log.read_bytes(before, 1, upto_offset=log.log_end_offset)
            if number % 2 == 0 and (turn % 3 == 2 or not by_kernel):
                log.roll(0)  # between the append and its flush
            told = trio.Event()

            written[log].append((info.last_offset, data))

            def on_flushed(offset, told=told, info=info, log=log):
                below = [batch for last, batch in written[log] if last < offset]
                durable = durable_bytes(files, log)
                assert all(batch in durable for batch in below)
                if offset > info.last_offset:
                    told.set()

            commit.mark_dirty(log, on_flushed)
            await told.wait()
            acked.append(info.last_offset)

    async with trio.open_nursery() as running:
        running.start_soon(commit.run)
        async with trio.open_nursery() as writers:
            for number in range(WRITERS):
                writers.start_soon(write, number)
        running.cancel_scope.cancel()
    assert len(acked) == WRITERS * APPENDS
    assert not by_kernel or len(kernel.submitted) > PARTITIONS
    # For each log, callbacks are registered by appends before the next flush or by those that share the one after it.
    assert commit.flushes <= PARTITIONS * (2 * APPENDS + 1), "those who wait share a flush"
    assert all(len(log.segment_base_offsets) > 2 for log in logs)


async def test_failed_fsync_acks_nothing_and_is_not_retried(tmp_path):
    files, health = FaultyFiles(), DirectoryHealth()
    logs = make_logs(tmp_path, files, health)
    commit = GroupCommit(health)
    acked = []
    for log in logs:
        append(log)
        commit.mark_dirty(log, acked.append)
    files.fail_at("fdatasync", error=errno.EIO, sticky=True)
    with pytest.raises(StorageFailure, match="fsync failed"):
        await commit.run()
    assert acked == []
    assert health.offline is not None
    syncs = files.calls["fdatasync"]
    with pytest.raises(OSError, match="fsync"):
        logs[0].prepare_flush()
    assert files.calls["fdatasync"] == syncs


async def test_write_behind_acks_at_once(tmp_path):
    files, health = FaultyFiles(), DirectoryHealth()
    [log, *_] = make_logs(tmp_path, files, health)
    commit = GroupCommit(health, fsync=False)
    acked = []
    append(log, 3)
    commit.mark_dirty(log, acked.append)
    assert acked == [3]
    assert files.calls["fdatasync"] == 0
    assert not log.must_flush


@pytest.mark.parametrize("why", ["a segment was rolled", "flush.messages"])
async def test_write_behind_syncs_enough(tmp_path, why):
    files, health = FaultyFiles(), DirectoryHealth()
    [log, *_] = make_logs(tmp_path, files, health)
    log.config = replace(CONFIG, flush_messages=4)
    commit = GroupCommit(health, fsync=False)
    append(log, 3)
    if why == "a segment was rolled":
        log.roll(0)
    else:
        append(log, 1)
    end = log.log_end_offset
    async with trio.open_nursery() as nursery:
        nursery.start_soon(commit.run)
        commit.mark_dirty(log, lambda _offset: None)
        while log.flushed_offset < end:
            await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()
    assert commit.flushes == 1
    assert not log.must_flush
