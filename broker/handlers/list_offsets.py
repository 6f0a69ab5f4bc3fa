"""ListOffsets (2): finds offsets by timestamp, including special timestamps.

-1 latest (high watermark, or last stable offset with read_committed; log end for followers), -2 earliest, -3 the record
with the largest timestamp (KIP-734, v7), -4 earliest local (KIP-405, v8), -5 last tiered (KIP-1005, v9) and -6 earliest
not yet uploaded (KIP-1023, v11): without tiered storage, -4 equals -2, and -5 and -6 find nothing. Version 0 requests
the first offsets of segments last written before a given time. Source: `ReplicaManager.fetchOffset`,
`Partition.fetchOffsetForTimestamp`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from trimaran.broker.fetching.fetch import READ_COMMITTED
from trimaran.broker.handlers.context import DataContext
from trimaran.broker.partitions.leader import PartitionLeader
from trimaran.broker.partitions.lookups import in_steps, resolve_timestamp
from trimaran.broker.partitions.opening import opening
from trimaran.broker.partitions.watermark_waits import pending_flushes, wait_for_flushes
from trimaran.log.partitions.timestamps import TimestampOffset
from trimaran.log.steps import Steps
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import NO_LEADER_EPOCH, NO_OFFSET, NO_TIMESTAMP, Offset, TopicPartition
from trimaran.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import topics
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import PARTITIONS_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Handling, Wait

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6

# The request version that introduced each special timestamp.
_SINCE = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
# Timestamps whose offset does not depend on the end of the log.
_WHATEVER_THE_END = frozenset({EARLIEST, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD})
_NOTHING = TimestampOffset(NO_TIMESTAMP, NO_OFFSET, NO_LEADER_EPOCH)
LEADER_EPOCH_VERSION = 4


class Requester(NamedTuple):
    """The sender of a request: a client (possibly of committed transactions only), or a follower."""

    is_client: bool
    reads_committed: bool

    def end_of(self, leader: PartitionLeader) -> Offset:
        """Returns the end of the log as this reader sees it."""
        if not self.is_client:
            return leader.log.log_end_offset
        watermark = leader.high_watermark.offset
        return leader.log.last_stable_offset(watermark) if self.reads_committed else watermark


class Lookup(NamedTuple):
    """The part of a lookup that is the same for all partitions of a request."""

    ctx: DataContext
    version: int
    reader: Requester
    named: Mapping[TopicPartition, int]
    """How often the request names each partition."""
    late: Collection[TopicPartition]
    """Partitions whose flush did not end in time."""


def _fail(request: ListOffsetsRequest, code: ErrorCode, _message: str) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name, partitions=[_refused(wanted, code) for wanted in topic.partitions]
            )
            for topic in request.topics
        ]
    )


@handles(
    ListOffsetsRequest,
    versions="0-11",
    access=topics(Operation.DESCRIBE, "topics.name", "topics"),
    on_error=_fail,
    elements_max=PARTITIONS_ELEMENTS_MAX,
)
def list_offsets(
    request: ListOffsetsRequest, ctx: DataContext, call: Call
) -> Handling[ListOffsetsResponse]:
    reader = Requester(request.replica_id < 0, request.isolation_level == READ_COMMITTED)
    named, near_the_end = Counter[TopicPartition](), []
    for topic in request.topics:
        for wanted in topic.partitions:
            key = TopicPartition(topic.name, wanted.partition_index)
            named[key] += 1
            if reader.is_client and wanted.timestamp not in _WHATEVER_THE_END:
                near_the_end.append(key)
            yield None
    yield from opening(ctx.partitions, list(named), for_writing=reader.reads_committed)
    flushes = yield from pending_flushes(ctx.partitions, near_the_end)
    late = (yield Wait(partial(wait_for_flushes, flushes))) if flushes else ()
    lookup = Lookup(ctx, call.header.api_version, reader, named, late)
    topics = []
    for topic in request.topics:
        partitions = []
        for wanted in topic.partitions:
            key = TopicPartition(topic.name, wanted.partition_index)
            partitions.append((yield from _offset(key, wanted, lookup)))
            yield None
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=partitions))
        yield None  # a topic may have no partition
    return ListOffsetsResponse(topics=topics)


def _offset(
    key: TopicPartition, wanted: ListOffsetsPartition, lookup: Lookup
) -> Handling[ListOffsetsPartitionResponse]:
    ctx, version, reader = lookup.ctx, lookup.version, lookup.reader
    if lookup.named[key] > 1:
        return _refused(wanted, ErrorCode.INVALID_REQUEST)
    response = ListOffsetsPartitionResponse(partition_index=key.partition)
    try:
        leader = ctx.partitions.leader_of(key, wanted.current_leader_epoch)
        if key in lookup.late:
            raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE)
        if version == 0:
            offsets = yield from in_steps(_segment_offsets(wanted, leader, ctx.now_ms()), leader)
            response.old_style_offsets = _visible(offsets, wanted, leader, reader)
        else:
            found = yield from _find(leader, wanted.timestamp, version, reader)
            response.timestamp, response.offset, epoch = found
            if version >= LEADER_EPOCH_VERSION:
                response.leader_epoch = epoch
    except KafkaError as error:
        return _refused(wanted, _in_version(error.code, version))
    return response


def _segment_offsets(
    wanted: ListOffsetsPartition, leader: PartitionLeader, now_ms: int
) -> Steps[list[Offset]]:
    if wanted.timestamp == EARLIEST:
        return [leader.log.log_start_offset]
    is_latest = wanted.timestamp == LATEST or wanted.timestamp >= now_ms
    return (yield from leader.log.offsets_before(None if is_latest else wanted.timestamp))


def _visible(
    offsets: Sequence[Offset],
    wanted: ListOffsetsPartition,
    leader: PartitionLeader,
    reader: Requester,
) -> list[Offset]:
    visible = list(offsets[: max(0, wanted.max_num_offsets)])
    watermark = leader.high_watermark.offset
    if reader.is_client and visible and visible[0] > watermark:
        return [watermark, *(offset for offset in visible if offset < watermark)]
    return visible


def _refused(wanted: ListOffsetsPartition, code: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=wanted.partition_index, error_code=code)


def _in_version(code: ErrorCode, version: int) -> ErrorCode:
    if code is ErrorCode.OFFSET_NOT_AVAILABLE and version < 5:
        return ErrorCode.LEADER_NOT_AVAILABLE
    return code


def _find(
    leader: PartitionLeader, timestamp: int, version: int, reader: Requester
) -> Handling[TimestampOffset]:
    if timestamp < EARLIEST and version < _SINCE.get(timestamp, 0x7FFF):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    log = leader.log
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        start = log.log_start_offset
        epoch = log.epochs.epoch_for(start)
        return TimestampOffset(NO_TIMESTAMP, start, epoch)
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return _NOTHING
    if timestamp == LATEST:
        _check_caught_up(leader, reader.is_client)
        return TimestampOffset(NO_TIMESTAMP, reader.end_of(leader), leader.epoch)
    steps = (
        log.look_up_max_timestamp()
        if timestamp == MAX_TIMESTAMP
        else log.look_up_timestamp(timestamp)
    )
    return _below_end((yield from resolve_timestamp(steps, leader)), leader, reader)


def _below_end(
    found: TimestampOffset | None, leader: PartitionLeader, reader: Requester
) -> TimestampOffset:
    if found is None or found.offset >= reader.end_of(leader):
        _check_caught_up(leader, reader.is_client)
        return _NOTHING
    return found


def _check_caught_up(leader: PartitionLeader, is_client: bool) -> None:
    """Raises KafkaError while a new leader does not know what was committed before it: clients must not see the end
    move backwards (KIP-207).
    """
    if is_client and not leader.knows_committed:
        raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE)
