"""Converts records for Fetch v0 to v3, in a thread, because the logs only hold v2 (for Produce v0 to v2 see
`broker/producing/validate.py`).

A message costs up to 10 µs, so that a megabyte of small messages would block the event loop for a third of a second.
"""

from __future__ import annotations

from trimaran.log.old_formats.down_conversion import down_convert
from trimaran.log.old_formats.message_sets import V0, V1
from trimaran.log.segments.slices import LogSlice
from trimaran.node.runtime.threads import HEAVY_SECONDS, run_computing
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import NO_OFFSET, Offset
from trimaran.wire.messages.fetch import FetchRequest, FetchResponse, PartitionData

FIRST_FETCH_VERSION_OF_BATCHES = 4
FETCH_VERSION_OF_V1 = 2


def stored_bytes(response: FetchResponse) -> int:
    """Returns the size of the batches to convert, in bytes; uncompressed message sets have about the same size."""
    return sum(
        data.records.size
        for topic in response.responses
        for data in topic.partitions
        if isinstance(data.records, LogSlice)
    )


async def down_converted(
    response: FetchResponse, request: FetchRequest, version: int, whom: int
) -> None:
    """Replaces the batches of `response` with message sets, for the connection with the id `whom`."""
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
                await _down_convert(data, data.records, magic, offset, whom)


async def _down_convert(
    data: PartitionData, piece: LogSlice, magic: int, offset: Offset, whom: int
) -> None:
    try:
        data.records = await run_computing(
            _read_down, piece, magic, offset, whom=whom, seconds=HEAVY_SECONDS
        )
    except KafkaError as error:
        data.error_code, data.high_watermark, data.records = error.code, NO_OFFSET, b""


def _read_down(piece: LogSlice, magic: int, offset: Offset) -> bytes:
    try:
        stored = piece.read()
    except OSError as error:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
    return down_convert(stored, magic, offset)
