"""DescribeLogDirs (35): this broker's log directories, including failed ones, and the sizes of the replicas in them.

Versions: 3 a top-level error, 4 volume sizes, 5 cordoned directories. The size of a log that has not been opened since
startup is the size of its files; a replica without files yet is listed where it will be created.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter

from trimaran.broker.handlers.context import DirectoryContext
from trimaran.broker.partitions.partition import Partition
from trimaran.log.directories.directory import LogDirectory
from trimaran.log.disk.files import Volume
from trimaran.log.partitions.partition_log import PartitionLog
from trimaran.node.runtime.threads import run_blocking
from trimaran.quorum.metadata import versions
from trimaran.wire.codec.declarations import EncodedArray
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import TopicPartition
from trimaran.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.memory.room import OBJECT_BYTES
from trimaran.wire.transport.requests.access import cluster
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import PARTITIONS_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.requests.once import Once
from trimaran.wire.transport.scheduling.effects import Handling, Wait


def _fail(
    _request: DescribeLogDirsRequest, code: ErrorCode, _message: str
) -> DescribeLogDirsResponse:
    """Returns the error; versions without a top-level error list no directory, as in Kafka."""
    return DescribeLogDirsResponse(error_code=code, results=[])


@handles(
    DescribeLogDirsRequest,
    versions="0-5",
    access=cluster(Operation.DESCRIBE),
    on_error=_fail,
    elements_max=PARTITIONS_ELEMENTS_MAX,
    once=Once("topics.partitions", attrgetter("topic")),
)
def describe_log_dirs(
    request: DescribeLogDirsRequest, ctx: DirectoryContext, call: Call
) -> Handling[DescribeLogDirsResponse]:
    directories, room = ctx.directories, call.room()
    room.expect(_count(request, ctx) * OBJECT_BYTES)
    yield None
    found = {online: _Found(online) for online in directories.online}
    for partition in _wanted(request, ctx):
        yield None
        if partition is None:
            continue
        assigned = partition.state.directory_of(ctx.node_id)
        directory = directories.where(partition.topic_partition, assigned)
        if directory in found:
            found[directory].replicas.append((partition, _open_size(partition)))
        move = ctx.moves.of(partition)
        if move is not None and move.target in found:
            found[move.target].add_copy(partition, move.copy)
    is_told = ctx.metadata.image.features.metadata_version >= versions.CORDONED_LOG_DIRS
    cordoned = directories.cordoned() if is_told else ()
    for online, facts in found.items():
        facts.is_cordoned = online.path in cordoned
    results = EncodedArray()
    for facts in found.values():
        result = yield Wait(partial(run_blocking, facts.measure))
        results.append((yield from room.encoding_with(result, "topics", result.topics)))
    failed = [each.path for each in directories.all if each.offline is not None]
    results += [
        room.encoded(_failed(str(path))) for path in (*failed, *directories.failed_at_start)
    ]
    return DescribeLogDirsResponse(results=results)


def _failed(path: str) -> DescribeLogDirsResult:
    return DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=path, topics=[])


def _count(request: DescribeLogDirsRequest, ctx: DirectoryContext) -> int:
    if request.topics is None:
        return len(ctx.partitions)
    return sum(len(topic.partitions) for topic in request.topics)


def _wanted(request: DescribeLogDirsRequest, ctx: DirectoryContext) -> Iterable[Partition | None]:
    if request.topics is None:
        yield from ctx.partitions
        return
    for topic in request.topics:
        yield None
        for index in topic.partitions:
            yield ctx.partitions.find(TopicPartition(topic.topic, index))


def _open_size(partition: Partition) -> int | None:
    return None if partition.open_log is None else partition.open_log.size_bytes


@dataclass(slots=True)
class _Found:
    """The replicas of one directory; they are collected in the event loop and measured in a thread."""

    directory: LogDirectory
    replicas: list[tuple[Partition, int | None]] = field(default_factory=list)
    topics: dict[str, DescribeLogDirsTopic] = field(default_factory=dict)
    is_cordoned: bool = False

    def add_copy(self, partition: Partition, copy: PartitionLog | None) -> None:
        """Adds a replica that is moving to this directory; a copy from a previous run counts only after its check."""
        size, end_offset = (0, 0) if copy is None else (copy.size_bytes, copy.log_end_offset)
        log = partition.open_log
        behind = 0 if log is None else max(0, log.log_end_offset - end_offset)
        self._add(partition, size, behind, is_future=True)

    def measure(self) -> DescribeLogDirsResult:
        """Returns the directory with the sizes of its replicas. Blocks on file access."""
        try:
            for partition, size in self.replicas:
                log = partition.open_log
                lag = 0 if log is None else max(0, partition.high_watermark - log.log_end_offset)
                self._add(partition, self._size_of_files(partition) if size is None else size, lag)
            volume = self.directory.volume()
        except OSError:
            return _failed(str(self.directory.path))
        return self._result(volume)

    def _size_of_files(self, partition: Partition) -> int:
        files = self.directory.segment_files(partition.topic_partition)
        return sum(file.size for file in files)

    def _add(self, partition: Partition, size: int, lag: int, *, is_future: bool = False) -> None:
        topic = self.topics.setdefault(
            partition.topic, DescribeLogDirsTopic(name=partition.topic, partitions=[])
        )
        topic.partitions.append(
            DescribeLogDirsPartition(
                partition_index=partition.index,
                partition_size=size,
                offset_lag=lag,
                is_future_key=is_future,
            )
        )

    def _result(self, volume: Volume) -> DescribeLogDirsResult:
        return DescribeLogDirsResult(
            log_dir=str(self.directory.path),
            topics=list(self.topics.values()),
            total_bytes=volume.total,
            usable_bytes=volume.usable,
            is_cordoned=self.is_cordoned,
        )
