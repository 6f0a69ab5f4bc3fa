"""What a Produce request brings, checked before any of it is appended: at once, or in a thread where that would hold the loop.

In a thread goes what is over budget (`log.validation.validate.Budget`: 2 MiB of records, decompressed, in one request) and message sets of
v0 and v1, which are converted. Requests of a connection keep their order: what it sends while one of its requests is in a
thread follows that one there (`Threaded`).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from broker.metadata.internal_topics import INTERNAL_TOPICS
from log.batches.batch import MAGIC, BatchView, iter_batches
from log.old_formats.message_sets import MAGIC_POSITION
from log.old_formats.up_conversion import convert_produced
from log.validation.validate import Budget, ProduceRules, validate_produced
from node.runtime.threads import run_computing
from wire.errors import ErrorCode, KafkaError
from wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from wire.outgoing import records_view
from wire.primitives import NIL_UUID

if TYPE_CHECKING:
    from broker.handlers.context import Context
    from broker.partitions.leader import LeaderEpoch
    from wire.transport.calls import ConnectionInfo

FIRST_VERSION_OF_BATCHES = 3

Checked = tuple["LeaderEpoch", list[BatchView]] | KafkaError
"""Where to append which batch (none: a message set had no whole message), or what to answer instead."""


class Threaded:
    """The connections that have requests in a thread."""

    def __init__(self) -> None:
        self._requests: dict[int, int] = {}
        self._on_close: dict[int, partial[None]] = {}

    def __contains__(self, connection: ConnectionInfo) -> bool:
        return connection.id in self._requests

    def begin(self, connection: ConnectionInfo) -> None:
        if connection.id not in self._requests:
            self._on_close[connection.id] = partial(self._forget, connection)
            connection.on_close(self._on_close[connection.id])
        self._requests[connection.id] = self._requests.get(connection.id, 0) + 1

    def end(self, connection: ConnectionInfo) -> None:
        left = self._requests.get(connection.id, 1) - 1
        if left:
            self._requests[connection.id] = left
        else:
            self._forget(connection)

    def _forget(self, connection: ConnectionInfo) -> None:
        """Also of a connection that closed: its requests may never come to their turn."""
        self._requests.pop(connection.id, None)
        if callback := self._on_close.pop(connection.id, None):
            connection.forget_on_close(callback)


def detach(request: ProduceRequest) -> None:
    """Copies the records out of the receive buffer, which a request that waits would keep."""
    for _, data in _partitions(request):
        data.records = memoryview(bytearray(records_view(data.records)))


def check_now(request: ProduceRequest, ctx: Context, version: int) -> list[Checked]:
    """What each partition is to get, in the order of the request.

    Raises:
        OverBudget: it takes too long; nothing was changed.
    """
    budget, now_ms = Budget(), ctx.now_ms()
    checked: list[Checked] = []
    for topic, data in _partitions(request):
        try:
            leader = _leader_of(topic, data, ctx)
            views = validate_produced(
                records_view(data.records),
                leader.partition.settings.rules,
                now_ms=now_ms,
                version=version,
                budget=budget,
            )
            checked.append((leader, views))
        except KafkaError as error:
            checked.append(_without_frames(error))
    return checked


async def check_in_thread(request: ProduceRequest, ctx: Context, version: int) -> list[Checked]:
    """As `check_now`, of a detached request, without budget; message sets become batches."""
    checked: list[Checked] = []
    for topic, data in _partitions(request):
        try:
            leader = _leader_of(topic, data, ctx)
            rules = leader.partition.settings.rules
            records = records_view(data.records)
            data.records = None
            views = await run_computing(_check, records, rules, ctx.now_ms(), version)
            checked.append((leader, views))
        except KafkaError as error:
            checked.append(_without_frames(error))
    return checked


def _check(records: memoryview, rules: ProduceRules, now_ms: int, version: int) -> list[BatchView]:
    """A batch of v2 may come in the old versions too: Kafka looks at the magic, not at the version."""
    is_set = len(records) <= MAGIC_POSITION or records[MAGIC_POSITION] != MAGIC
    if is_set and version < FIRST_VERSION_OF_BATCHES:
        converted = convert_produced(records, rules, now_ms=now_ms) or b""
        return list(iter_batches(bytearray(converted)))
    return validate_produced(records, rules, now_ms=now_ms, version=version)


def _without_frames(error: KafkaError) -> KafkaError:
    """Its frames hold what was decompressed, and the list that it is kept in: nothing would be freed before a collection."""
    error.__context__ = None
    return error.with_traceback(None)


def _partitions(
    request: ProduceRequest,
) -> Iterator[tuple[TopicProduceData, PartitionProduceData]]:
    for topic in request.topic_data:
        for data in topic.partition_data:
            yield topic, data


def _leader_of(topic: TopicProduceData, data: PartitionProduceData, ctx: Context) -> LeaderEpoch:
    name = topic_name(topic, ctx)
    if name in INTERNAL_TOPICS:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{name} is internal")
    return ctx.partitions.leader_of(name, data.index)


def topic_name(topic: TopicProduceData, ctx: Context) -> str:
    """Raises KafkaError UNKNOWN_TOPIC_ID."""
    return topic.name if topic.topic_id == NIL_UUID else ctx.partitions.topic_name(topic.topic_id)
