"""ListOffsets (2): offsets by timestamp, and the special ones.

-1 latest (high watermark, or last stable offset with read_committed; log end for followers), -2 earliest, -3 that of
the largest timestamp (KIP-734, v7), -4 earliest local (KIP-405, v8), -5 last tiered (KIP-1005, v9) and -6 earliest not
yet uploaded (KIP-1023, v11): nothing is tiered here, so the first two mean the same and the last two find nothing.
Version 0 asks where segments begin that were last written before a time.
Source: `ReplicaManager.fetchOffset`, `Partition.fetchOffsetForTimestamp`.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from trimaran.broker.fetching.fetch import READ_COMMITTED
from trimaran.broker.handlers.context import DataContext
from trimaran.broker.partitions.awaiting import (
    pending_flushes,
    pending_flushes_in_turns,
    wait_for_flushes,
)
from trimaran.broker.partitions.leader import PartitionLeader
from trimaran.broker.partitions.lookups import in_steps, resolve_timestamp
from trimaran.broker.partitions.opening import (
    open_leaders,
    takes_one_turn,
    unopened,
    unopened_of_many,
)
from trimaran.log.steps import Steps, TakesLong, at_once
from trimaran.node.runtime.turns import in_turns
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import Offset, TopicPartition
from trimaran.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import topics
from trimaran.wire.transport.requests.calls import Call, DeferredResponse
from trimaran.wire.transport.requests.elements import PARTITIONS_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.compute_thread import run_apart

# Partitions looked up between two checkpoints: 3 ms of work, if they must be searched.
LOOKUPS_PER_TURN = 100
# Of a log's headers read for one of them, or of its segments looked at; where there are more, it is finished later.
HEADERS_AT_ONCE = 100

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6

# In which version of the request a special timestamp came; before, it is one that nobody can mean.
_SINCE = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
# What is answered the same wherever the log ends.
_WHATEVER_THE_END = frozenset({EARLIEST, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD})
_NOTHING = (-1, -1, -1)
LEADER_EPOCH_VERSION = 4

Found = tuple[int, int, int]  # timestamp, offset, leader epoch


class Reader(NamedTuple):
    """Who asks: a client (of committed transactions only), or a follower."""

    is_client: bool
    reads_committed: bool

    def end_of(self, leader: PartitionLeader) -> int:
        """Where the reader's log ends."""
        if not self.is_client:
            return leader.log.log_end_offset
        watermark = leader.high_watermark.offset
        return leader.log.last_stable_offset(watermark) if self.reads_committed else watermark


class Unfinished(NamedTuple):
    """A look-up that takes long, and the answer that it completes."""

    wanted: ListOffsetsPartition
    leader: PartitionLeader
    answer: ListOffsetsPartitionResponse


class Lookup(NamedTuple):
    """What holds for all partitions of one request."""

    ctx: DataContext
    version: int
    reader: Reader
    named: Mapping[TopicPartition, int]
    """How often each partition is."""
    late: set[TopicPartition]
    """Whose flush was waited for in vain."""
    unfinished: list[Unfinished]
    whom: int
    """The id of the connection that asks."""


def _fail(request: ListOffsetsRequest, code: ErrorCode, _message: str) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name, partitions=[_refused(one, code) for one in topic.partitions]
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
) -> ListOffsetsResponse | DeferredResponse[ListOffsetsResponse]:
    reader = Reader(request.replica_id < 0, request.isolation_level == READ_COMMITTED)
    if call.heavy:
        return DeferredResponse(lambda: _of_many(request, ctx, call, reader))
    keys, named = _keys(request)
    unopened_logs = unopened(ctx.partitions, keys, for_writing=reader.reads_committed)
    if len(keys) > LOOKUPS_PER_TURN or not takes_one_turn(unopened_logs):
        return DeferredResponse(lambda: _of_many(request, ctx, call, reader))
    lookup = Lookup(ctx, call.header.api_version, reader, named, set(), [], call.connection.id)
    response = ListOffsetsResponse(topics=[])
    answers = _answer(request, lookup, response)
    flushes = pending_flushes(ctx.partitions, _keys_near_the_end(request, reader))
    if not flushes:
        deque(answers, maxlen=0)
        if not lookup.unfinished:
            return response

    async def finish() -> ListOffsetsResponse:
        if flushes:
            await open_leaders(unopened_logs)
            lookup.late.update(await wait_for_flushes(flushes))
            await in_turns(answers, LOOKUPS_PER_TURN)
        await _finish(lookup)
        return response

    return DeferredResponse(finish)


async def _of_many(
    request: ListOffsetsRequest, ctx: DataContext, call: Call, reader: Reader
) -> ListOffsetsResponse:
    keys, named = await run_apart(_keys, request)
    await open_leaders(
        await unopened_of_many(ctx.partitions, keys, for_writing=reader.reads_committed)
    )
    near_the_end = await run_apart(_keys_near_the_end, request, reader)
    late = await wait_for_flushes(await pending_flushes_in_turns(ctx.partitions, near_the_end))
    response = ListOffsetsResponse(topics=[])
    lookup = Lookup(ctx, call.header.api_version, reader, named, late, [], call.connection.id)
    await in_turns(_answer(request, lookup, response), LOOKUPS_PER_TURN)
    await _finish(lookup)
    return response


def _keys(request: ListOffsetsRequest) -> tuple[list[TopicPartition], Counter[TopicPartition]]:
    """The partitions asked for, and how often each is named."""
    keys = [
        TopicPartition(topic.name, wanted.partition_index)
        for topic in request.topics
        for wanted in topic.partitions
    ]
    return keys, Counter(keys)


def _keys_near_the_end(request: ListOffsetsRequest, reader: Reader) -> list[TopicPartition]:
    """Where a client asks for the end of its log, or for what may be near it."""
    if not reader.is_client:
        return []
    return [
        TopicPartition(topic.name, wanted.partition_index)
        for topic in request.topics
        for wanted in topic.partitions
        if wanted.timestamp not in _WHATEVER_THE_END
    ]


def _answer(
    request: ListOffsetsRequest, lookup: Lookup, response: ListOffsetsResponse
) -> Iterator[None]:
    """Completes `response`, a topic or one partition at each step."""
    for topic in request.topics:
        answer = ListOffsetsTopicResponse(name=topic.name, partitions=[])
        response.topics.append(answer)
        yield
        for wanted in topic.partitions:
            is_once = lookup.named[TopicPartition(topic.name, wanted.partition_index)] == 1
            answer.partitions.append(
                _offset(topic.name, wanted, lookup)
                if is_once
                else _refused(wanted, ErrorCode.INVALID_REQUEST)
            )
            yield


def _offset(
    topic: str, wanted: ListOffsetsPartition, lookup: Lookup
) -> ListOffsetsPartitionResponse:
    ctx, version, reader = lookup.ctx, lookup.version, lookup.reader
    answer = ListOffsetsPartitionResponse(partition_index=wanted.partition_index)
    try:
        leader = ctx.partitions.leader_of(
            topic, wanted.partition_index, wanted.current_leader_epoch
        )
        if (topic, wanted.partition_index) in lookup.late:
            raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE)
        try:
            if version == 0:
                steps = _segment_offsets(wanted, leader, ctx.now_ms())
                offsets = at_once(steps, HEADERS_AT_ONCE)
                answer.old_style_offsets = _visible(offsets, wanted, leader, reader)
            else:
                _tell(answer, _find(leader, wanted.timestamp, version, reader), version)
        except TakesLong:
            lookup.unfinished.append(Unfinished(wanted, leader, answer))
    except KafkaError as error:
        return _refused(wanted, _in_version(error.code, version))
    return answer


async def _finish(lookup: Lookup) -> None:
    """Completes the answers that take longer than a turn of the loop."""
    ctx, version, reader = lookup.ctx, lookup.version, lookup.reader
    for wanted, leader, answer in lookup.unfinished:
        log = leader.log
        try:
            if version == 0:
                offsets = await in_steps(_segment_offsets(wanted, leader, ctx.now_ms()), leader)
                answer.old_style_offsets = _visible(offsets, wanted, leader, reader)
                continue
            steps = (
                log.look_up_max_timestamp()
                if wanted.timestamp == MAX_TIMESTAMP
                else log.look_up_timestamp(wanted.timestamp)
            )
            found = await resolve_timestamp(steps, leader, lookup.whom)
            _tell(answer, _below_end(found, leader, reader), version)
        except KafkaError as error:
            answer.error_code = _in_version(error.code, version)


def _tell(answer: ListOffsetsPartitionResponse, found: Found, version: int) -> None:
    answer.timestamp, answer.offset, epoch = found
    if version >= LEADER_EPOCH_VERSION:
        answer.leader_epoch = epoch


def _segment_offsets(
    wanted: ListOffsetsPartition, leader: PartitionLeader, now_ms: int
) -> Steps[list[Offset]]:
    if wanted.timestamp == EARLIEST:
        return [leader.log.log_start_offset]
    is_latest = wanted.timestamp == LATEST or wanted.timestamp >= now_ms
    return (yield from leader.log.offsets_before(None if is_latest else wanted.timestamp))


def _visible(
    offsets: Sequence[Offset], wanted: ListOffsetsPartition, leader: PartitionLeader, reader: Reader
) -> list[int]:
    visible = list[int](offsets[: max(0, wanted.max_num_offsets)])
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


def _find(leader: PartitionLeader, timestamp: int, version: int, reader: Reader) -> Found:
    if timestamp < EARLIEST and version < _SINCE.get(timestamp, 0x7FFF):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    log = leader.log
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        start = log.log_start_offset
        epoch = log.epochs.epoch_for(start)
        return -1, start, epoch
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return _NOTHING
    if timestamp == LATEST:
        _check_caught_up(leader, reader.is_client)
        return -1, reader.end_of(leader), leader.epoch
    found = (
        log.max_timestamp_offset(HEADERS_AT_ONCE)
        if timestamp == MAX_TIMESTAMP
        else log.offset_for_timestamp(timestamp, HEADERS_AT_ONCE)
    )
    return _below_end(found, leader, reader)


def _below_end(found: Found | None, leader: PartitionLeader, reader: Reader) -> Found:
    if found is None or found[1] >= reader.end_of(leader):
        _check_caught_up(leader, reader.is_client)
        return _NOTHING
    return found


def _check_caught_up(leader: PartitionLeader, is_client: bool) -> None:
    """A new leader does not know yet what was committed before it: no client may see the end go back (KIP-207)."""
    if is_client and not leader.knows_committed:
        raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE)
