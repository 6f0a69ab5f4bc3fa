"""Produce v0 to v2 and Fetch v0 to v3: the logs hold v2 only, so their records are converted, in a thread.

A message costs up to 10 µs, so a megabyte of small ones would hold the loop for a third of a second. All of it is in stage two, also
what is small: requests of a connection keep their order, as no client mixes these versions with later ones.
"""

from __future__ import annotations

from broker.context import Context
from log.batch import MAGIC
from log.down_conversion import down_convert
from log.message_sets import MAGIC_POSITION, V0, V1
from log.slices import LogSlice
from log.up_conversion import convert_produced
from log.validate import ProduceRules, validate_produced
from quorum.runtime.threads import run_computing
from wire.errors import ErrorCode, KafkaError
from wire.messages.fetch import FetchRequest, FetchResponse, PartitionData
from wire.messages.produce import ProduceRequest
from wire.outgoing import records_view

FIRST_PRODUCE_VERSION_OF_BATCHES = 3
FIRST_FETCH_VERSION_OF_BATCHES = 4
FETCH_VERSION_OF_V1 = 2

Converted = bytes | KafkaError
"""A batch to append (no bytes: there is nothing to append), or what to answer instead."""


def detach(request: ProduceRequest) -> None:
    """Copies the records out of the receive buffer, which a request that waits would keep."""
    for topic in request.topic_data:
        for data in topic.partition_data:
            data.records = bytes(records_view(data.records))


async def converted_sets(request: ProduceRequest, ctx: Context, version: int) -> list[Converted]:
    """What each partition of a detached request is to get, in the order of the request."""
    found: list[Converted] = []
    for topic in request.topic_data:
        for data in topic.partition_data:
            try:
                leader = ctx.partitions.leader_of(topic.name, data.index)
                rules = leader.partition.settings.rules
                records, data.records = records_view(data.records), None
                found.append(await run_computing(_converted, records, rules, ctx.now_ms(), version))
            except KafkaError as error:
                found.append(error)
    return found


def _converted(records: memoryview, rules: ProduceRules, now_ms: int, version: int) -> bytes:
    """A batch of v2 may come in these versions too: Kafka looks at the magic, not at the version."""
    if len(records) > MAGIC_POSITION and records[MAGIC_POSITION] == MAGIC:
        (view,) = validate_produced(records, rules, now_ms=now_ms, version=version)
        return bytes(view.buffer)
    return convert_produced(records, rules, now_ms=now_ms) or b""


async def down_converted(response: FetchResponse, request: FetchRequest, version: int) -> None:
    """Puts message sets in the place of the batches of `response`."""
    offsets = {
        (topic.topic, wanted.partition): wanted.fetch_offset
        for topic in request.topics
        for wanted in topic.partitions
    }
    magic = V1 if version >= FETCH_VERSION_OF_V1 else V0
    for topic in response.responses:
        for data in topic.partitions:
            if isinstance(data.records, LogSlice):
                offset = offsets[topic.topic, data.partition_index]
                await _down_convert(data, data.records, magic, offset)


async def _down_convert(data: PartitionData, piece: LogSlice, magic: int, offset: int) -> None:
    try:
        data.records = await run_computing(_read_down, piece, magic, offset)
    except KafkaError as error:
        data.error_code, data.high_watermark, data.records = error.code, -1, b""


def _read_down(piece: LogSlice, magic: int, offset: int) -> bytes:
    try:
        stored = piece.read()
    except OSError as error:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
    return down_convert(stored, magic, offset)
