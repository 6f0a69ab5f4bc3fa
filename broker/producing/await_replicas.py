"""The stage `await_replicas` of Produce: a request with acks=all is answered when the high watermarks have passed the
records.

With other acks (`await_disk`), a client that outruns the disk is held until its writes are flushed. Kafka does not wait
here: the kernel stops a writer that is too fast, and then the fsyncs of all clients wait for all records of that
writer.

Source: `DelayedProduce` of Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

import trio

from trimaran.broker.metadata.endpoints import leader_endpoints
from trimaran.broker.partitions.leader import PartitionLeader
from trimaran.broker.partitions.registry import Partitions
from trimaran.broker.partitions.watermark_waits import FLUSH_SECONDS_MAX
from trimaran.broker.producing.partition_append import PartitionAppend
from trimaran.node.runtime.errors import NotLeaderError
from trimaran.quorum.metadata.image import ClusterImage
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import Offset
from trimaran.wire.messages.produce import LeaderIdAndEpoch, NodeEndpoint, ProduceResponse
from trimaran.wire.transport.scheduling.deadlines import PendingCall
from trimaran.wire.transport.scheduling.effects import Handling, Wait


def await_replicas(parts: Sequence[PartitionAppend], timeout_ms: int) -> Handling[None]:
    """Waits until all parts are replicated, at most for `timeout_ms`, and sets the errors of the rest. The caller must
    no longer refer to the request.
    """
    if not replicated(parts):
        for part in parts:
            part.release()
        wait = _Replication(parts, max(0, timeout_ms) / 1000)
        yield Wait(wait.wait, wait.ready, holds_request=False, when_ready=wait.when_ready)
    for part in parts:
        if part.leader is not None and part.required_offset is not None:
            code = _outcome(part.leader, part.required_offset)
            if code:
                part.refuse(code)


def replicated(parts: Iterable[PartitionAppend]) -> bool:
    """Returns whether the wait is over: each watermark has passed the records, or never will."""
    for part in parts:
        if part.leader is not None and part.required_offset is not None:
            watermark = part.leader.high_watermark
            if watermark.offset < part.required_offset and not watermark.closed:
                return False
    return True


class _Replication:
    """Waits until all of `parts` are replicated, at most for `seconds` after the wait began."""

    __slots__ = ("_deadline", "_parts", "_seconds")

    def __init__(self, parts: Sequence[PartitionAppend], seconds: float) -> None:
        self._parts = parts
        self._seconds = seconds
        self._deadline: float | None = None

    def ready(self) -> bool:
        return replicated(self._parts)

    def when_ready(self, call: Callable[[], object]) -> PendingCall | None:
        """Calls `call` when the first late part is replicated, or at the deadline."""
        for part in self._parts:
            if not replicated((part,)):
                assert part.leader is not None
                assert part.required_offset is not None
                watermark = part.leader.high_watermark
                return watermark.when_reached(part.required_offset, call, self._ends_at())
        return None

    async def wait(self) -> None:
        deadline = self._ends_at()
        for part in self._parts:
            if replicated((part,)):
                continue
            assert part.leader is not None
            assert part.required_offset is not None
            watermark = part.leader.high_watermark
            try:
                await watermark.wait_reached(part.required_offset, deadline)
            except NotLeaderError:
                continue  # `_outcome` returns the error
            if watermark.offset < part.required_offset:
                return  # timed out

    def _ends_at(self) -> float:
        if self._deadline is None:
            self._deadline = trio.current_time() + self._seconds
        return self._deadline


def _outcome(leader: PartitionLeader, required_offset: Offset) -> ErrorCode:
    """Returns NONE, or the error for records that stay in the log and may still be committed."""
    watermark = leader.high_watermark
    if watermark.offset < required_offset:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if watermark.closed else ErrorCode.REQUEST_TIMED_OUT
    # After the epoch has ended, this broker does not know the ISR; the records were committed, which is sufficient.
    if watermark.closed or leader.satisfies_min_isr:
        return ErrorCode.NONE
    return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


def await_disk(parts: Sequence[PartitionAppend]) -> Handling[None]:
    """Waits for the appended records in directories whose unflushed bytes exceed the limit, at most
    `FLUSH_SECONDS_MAX`.
    """
    late = [
        part
        for part in parts
        if part.leader is not None
        and part.required_offset is not None
        and part.leader.disk_is_behind
    ]
    if late:
        for part in parts:
            part.release()
        # The request still counts as held although its records are dropped: this bounds the unflushed bytes of one
        # connection.
        yield Wait(partial(_wait_flushed, late), partial(_on_disk, late))


def _on_disk(parts: Iterable[PartitionAppend]) -> bool:
    return all(
        part.leader is None
        or part.required_offset is None
        or part.leader.log.flushed_offset >= part.required_offset
        for part in parts
    )


async def _wait_flushed(parts: Sequence[PartitionAppend]) -> None:
    with trio.move_on_after(FLUSH_SECONDS_MAX):
        for part in parts:
            if part.leader is not None and part.required_offset is not None:
                await part.leader.wait_flushed(part.required_offset)


def name_current_leaders(
    response: ProduceResponse,
    parts: Iterable[PartitionAppend],
    partitions: Partitions,
    cluster: ClusterImage,
    listener: str,
) -> None:
    """Adds to a `response` of version 10 or later the leaders of partitions that other brokers lead, and their
    addresses on `listener`: the client need not request metadata first (KIP-951).
    """
    named = []
    for part in parts:
        if part.response.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            state = partitions.state_of(part.key)
            if state is not None:
                part.response.current_leader = LeaderIdAndEpoch(
                    leader_id=state.leader, leader_epoch=state.leader_epoch
                )
                named.append(part.response.current_leader)
    if named:
        response.node_endpoints = leader_endpoints(NodeEndpoint, named, cluster, listener)
