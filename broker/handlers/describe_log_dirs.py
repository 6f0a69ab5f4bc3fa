"""DescribeLogDirs (35): sizes of the partitions in this broker's log directory.

Versions: 3 an error of the whole, 4 sizes of the volume. A log that nobody has opened since the start is measured by its files.
Not done: future replicas, cordoned directories.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from broker.context import Context
from broker.partitions.partition import Partition
from quorum.runtime.threads import run_blocking
from wire.errors import ErrorCode
from wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from wire.transport.calls import Call
from wire.transport.registry import handles


@handles(DescribeLogDirsRequest, versions="0-5")
async def describe_log_dirs(
    request: DescribeLogDirsRequest, ctx: Context, _call: Call
) -> DescribeLogDirsResponse:
    path = ctx.directories.directory.path
    if ctx.directories.offline is not None:
        failed = DescribeLogDirsResult(
            error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=str(path), topics=[]
        )
        return DescribeLogDirsResponse(results=[failed])
    wanted = list(_wanted(request, ctx))
    sizes, total_bytes, usable_bytes = await run_blocking(
        _measure, path, [(partition.name, _open_size(partition)) for partition in wanted]
    )
    result = DescribeLogDirsResult(
        log_dir=str(path),
        topics=_by_topic(zip(wanted, sizes, strict=True)),
        total_bytes=total_bytes,
        usable_bytes=usable_bytes,
    )
    return DescribeLogDirsResponse(results=[result])


def _wanted(request: DescribeLogDirsRequest, ctx: Context) -> Iterable[Partition]:
    if request.topics is None:
        yield from ctx.partitions
        return
    for topic in request.topics:
        for index in topic.partitions:
            if partition := ctx.partitions.find(topic.topic, index):
                yield partition


def _open_size(partition: Partition) -> int | None:
    return None if partition.open_log is None else partition.open_log.size_bytes


def _measure(path: Path, wanted: list[tuple[str, int | None]]) -> tuple[list[int], int, int]:
    """Sizes of the partitions, total and usable bytes of the volume. Blocks."""
    sizes = [_size_of_files(path / name) if size is None else size for name, size in wanted]
    volume = os.statvfs(path)
    return sizes, volume.f_blocks * volume.f_frsize, volume.f_bavail * volume.f_frsize


def _size_of_files(directory: Path) -> int:
    try:
        return sum(file.stat().st_size for file in directory.glob("*.log"))
    except FileNotFoundError:
        return 0


def _by_topic(sizes: Iterable[tuple[Partition, int]]) -> list[DescribeLogDirsTopic]:
    topics: dict[str, DescribeLogDirsTopic] = {}
    for partition, size in sizes:
        topic = topics.setdefault(
            partition.topic, DescribeLogDirsTopic(name=partition.topic, partitions=[])
        )
        log = partition.open_log
        lag = 0 if log is None else max(0, partition.high_watermark - log.log_end_offset)
        topic.partitions.append(
            DescribeLogDirsPartition(
                partition_index=partition.index,
                partition_size=size,
                offset_lag=lag,
                is_future_key=False,
            )
        )
    return list(topics.values())
