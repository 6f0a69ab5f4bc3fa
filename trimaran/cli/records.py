"""`produce` and `consume`: lines in, lines out, with nothing but the protocol. For more, use any Kafka client."""

from __future__ import annotations

import sys
import time
import zlib
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from trimaran.cli.connect import BROKERS, Brokers, check
from trimaran.cli.groups import end_offset
from trimaran.cli.output import Format, say, show_json_line
from trimaran.errors import Exit

if TYPE_CHECKING:
    from log.batches.records import Record
    from wire.blocking import BlockingClient

BATCH_RECORDS = 500  # lines sent in one request
TIMEOUT_MS = 30_000
FETCH_BYTES_MAX = 1 << 20
FETCH_WAIT_MS = 500
EARLIEST_TIMESTAMP = -2


def produce(
    topic: str,
    *,
    file: Annotated[Path | None, Parameter(name=["-f", "--file"])] = None,
    key_separator: Annotated[str | None, Parameter(name=["-k", "--key-separator"])] = None,
    partition: Annotated[int | None, Parameter(name=["-p", "--partition"])] = None,
    brokers: Brokers = BROKERS,
) -> int:
    """Produces lines with acks=all: a record a line.

    Args:
        topic: where to; created if the brokers do so.
        file: the lines; stdin when not given.
        key_separator: what stands before it in a line is the key.
        partition: the one to produce to; by default lines with a key go by its hash, others in turn.
    """
    count = 0
    with brokers.connected() as client:
        partitions = _partition_count(client, topic)
        for number, lines in enumerate(_chunks(_lines(file), BATCH_RECORDS)):
            for target, share in _spread(
                lines, key_separator, partition, partitions, number
            ).items():
                _send(client, topic, target, share)
                count += len(share)
    say(f"{count} records acknowledged")
    return Exit.OK


def _lines(file: Path | None) -> Iterator[bytes]:
    if file is None:
        yield from (line.rstrip(b"\r\n") for line in sys.stdin.buffer)
        return
    with file.open("rb") as opened:
        yield from (line.rstrip(b"\r\n") for line in opened)


def _chunks(lines: Iterable[bytes], size: int) -> Iterator[list[bytes]]:
    iterator = iter(lines)
    while chunk := list(islice(iterator, size)):
        yield chunk


def _spread(
    lines: list[bytes], separator: str | None, partition: int | None, partitions: int, turn: int
) -> dict[int, list[tuple[bytes | None, bytes]]]:
    """Records by partition, in the order of the lines."""
    found: dict[int, list[tuple[bytes | None, bytes]]] = {}
    for line in lines:
        key, value = _split(line, separator)
        target = partition
        if target is None:
            target = (turn if key is None else zlib.crc32(key)) % partitions
        found.setdefault(target, []).append((key, value))
    return found


def _split(line: bytes, separator: str | None) -> tuple[bytes | None, bytes]:
    if separator is None:
        return None, line
    key, found, value = line.partition(separator.encode())
    return (key, value) if found else (None, line)


def _partition_count(client: BlockingClient, topic: str) -> int:
    from wire.messages.metadata import MetadataRequest, MetadataRequestTopic

    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=True
    )
    answer = client.call(None, request).topics[0]
    check(answer.error_code, f"topic {topic}")
    return len(answer.partitions)


def _send(
    client: BlockingClient, topic: str, partition: int, records: list[tuple[bytes | None, bytes]]
) -> None:
    from log.batches.records import NewRecord, build_batch
    from wire.client.destinations import Leader
    from wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

    now_ms = time.time_ns() // 1_000_000
    batch = build_batch([NewRecord(key, value, now_ms) for key, value in records])
    produced = PartitionProduceData(index=partition, records=batch)
    request = ProduceRequest(
        acks=-1,
        timeout_ms=TIMEOUT_MS,
        topic_data=[TopicProduceData(name=topic, partition_data=[produced])],
    )
    answer = client.call(Leader(topic, partition), request, version=9)
    result = answer.responses[0].partition_responses[0]
    check(result.error_code, result.error_message)


def consume(
    topic: str,
    *,
    partition: Annotated[list[int] | None, Parameter(name=["-p", "--partition"])] = None,
    offset: int | None = None,
    count: Annotated[int | None, Parameter(name=["-n", "--count"])] = None,
    exit_at_end: Annotated[bool, Parameter(name=["-e", "--exit"])] = False,
    brokers: Brokers = BROKERS,
    output: Format = "table",
) -> int:
    """Prints records from the beginning: their values a line each, or JSON with all that is known.

    Args:
        topic: what to read.
        partition: only these partitions.
        offset: the first offset of each partition instead of its beginning.
        count: stop after so many records.
        exit_at_end: stop at the end instead of waiting for more.
        output: table for values only, json for whole records, one object a line.
    """
    with brokers.connected() as client:
        partitions = partition or list(range(_partition_count(client, topic)))
        for index, record in islice(_read(client, topic, partitions, offset, exit_at_end), count):
            _show(topic, index, record, output)
    return Exit.OK


def _show(topic: str, partition: int, record: Record, output: str) -> None:
    if output == "json":
        show_json_line(
            {
                "topic": topic,
                "partition": partition,
                "offset": record.offset,
                "timestamp_ms": record.timestamp_ms,
                "key": _text(record.key),
                "value": _text(record.value),
                "headers": [[h.key, _text(h.value)] for h in record.headers],
            }
        )
        return
    sys.stdout.buffer.write((record.value or b"") + b"\n")
    sys.stdout.buffer.flush()


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "backslashreplace")


def _read(
    client: BlockingClient, topic: str, partitions: list[int], start: int | None, exit_at_end: bool
) -> Iterator[tuple[int, Record]]:
    """Records of the partitions in turn, each partition in order."""
    client.refresh([topic])
    positions = {p: _earliest(client, topic, p) if start is None else start for p in partitions}
    ends = {p: end_offset(client, topic, p) for p in partitions} if exit_at_end else {}
    waiting = partitions
    while waiting:
        for index in waiting:
            for record in _fetch(client, topic, index, positions[index], wait=not exit_at_end):
                positions[index] = record.offset + 1
                yield index, record
        waiting = [p for p in partitions if not exit_at_end or positions[p] < ends[p]]


def _earliest(client: BlockingClient, topic: str, partition: int) -> int:
    return end_offset(client, topic, partition, EARLIEST_TIMESTAMP)


def _fetch(
    client: BlockingClient, topic: str, partition: int, offset: int, *, wait: bool
) -> Iterator[Record]:
    from log.batches.batch import iter_batches
    from log.batches.records import decode_records
    from wire.client.destinations import Leader
    from wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic

    wanted = FetchPartition(
        partition=partition, fetch_offset=offset, partition_max_bytes=FETCH_BYTES_MAX
    )
    request = FetchRequest(
        max_wait_ms=FETCH_WAIT_MS if wait else 0,
        min_bytes=1,
        max_bytes=FETCH_BYTES_MAX,
        topics=[FetchTopic(topic=topic, partitions=[wanted])],
    )
    answer = client.call(Leader(topic, partition), request, version=12).responses
    if not answer:
        return
    found = answer[0].partitions[0]
    check(found.error_code, f"{topic}-{partition} at offset {offset}")
    for batch in iter_batches(found.records or b"", allow_partial_tail=True):
        if not batch.is_control:
            yield from (record for record in decode_records(batch) if record.offset >= offset)
