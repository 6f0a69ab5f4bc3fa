"""Shared helpers of the tests in this folder."""

from itertools import pairwise
from pathlib import Path

from trimaran.log.batches.batch import BatchView, iter_batches
from trimaran.log.batches.records import NewRecord, build_batch
from trimaran.log.codecs.compression import Compression
from trimaran.log.config import LogConfig
from trimaran.log.disk.files import REAL_FILES
from trimaran.log.inspection.reader import segment_boundaries
from trimaran.log.partitions.opening import LastRun
from trimaran.log.partitions.partition_log import PartitionLog

SMALL = LogConfig(segment_bytes=2000, index_interval_bytes=150, retention_ms=-1)


def batch_bytes(count=1, *, value=b"v" * 20, timestamp_ms=1000, step_ms=1, **fields):
    records = [NewRecord(b"k%d" % i, value, timestamp_ms + i * step_ms) for i in range(count)]
    return bytearray(build_batch(records, **fields))


def view_of(data) -> BatchView:
    [view] = iter_batches(memoryview(data))
    return view


def open_log(
    directory: Path,
    config=SMALL,
    *,
    recovery_point=0,
    clean=False,
    files=REAL_FILES,
    log_start_offset=0,
):
    directory.mkdir(exist_ok=True)
    return PartitionLog.open(
        directory,
        config,
        LastRun(
            recovery_point=recovery_point, clean_shutdown=clean, log_start_offset=log_start_offset
        ),
        now_ms=0,
        files=files,
    )


def append(log, count=1, *, epoch=0, now_ms=0, **fields):
    data = memoryview(batch_bytes(count, **fields))
    return log.append_as_leader(data, list(iter_batches(data)), leader_epoch=epoch, now_ms=now_ms)


def fill(log, batches=20, *, count=3, epoch=0, **fields):
    for _ in range(batches):
        append(log, count, epoch=epoch, timestamp_ms=1000 + log.log_end_offset, **fields)
    return log


def read_all(log):
    """Returns every batch from the log's start to its end, by consecutive reads."""
    offset, batches = log.log_start_offset, []
    while offset < log.log_end_offset:
        data = log.read_bytes(offset, 300, upto_offset=log.log_end_offset)
        views = list(iter_batches(data, allow_old=True))
        assert views, offset
        batches += [bytes(view.buffer) for view in views]
        offset = views[-1].next_offset
    return batches


__all__ = [
    "SMALL",
    "Compression",
    "append",
    "batch_bytes",
    "fill",
    "open_log",
    "read_all",
    "view_of",
]


def ranges_between(segment, target_bytes):
    """Returns ranges [start, end) of positions that begin at batches about `target_bytes` apart."""
    starts = [start.position for start in segment_boundaries(segment, target_bytes)]
    return list(pairwise([*starts, segment.size]))
