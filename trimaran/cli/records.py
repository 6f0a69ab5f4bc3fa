"""`consume`: records as lines, with nothing but the protocol. For more, use any Kafka client."""

from __future__ import annotations

import select
import sys
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter, validators

from trimaran.cli.connect import BROKERS, Brokers, check
from trimaran.cli.groups import end_offset
from trimaran.cli.output import Format, show_json_line
from trimaran.cli.topic_partitions import ensure_partitions_exist, leaders_of
from trimaran.errors import Exit

if TYPE_CHECKING:
    from log.batches.records import Record
    from wire.blocking import BlockingClient

FETCH_BYTES_MAX = 1 << 20
FETCH_WAIT_MS = 500
EARLIEST_TIMESTAMP = -2
NOT_NEGATIVE = validators.Number(gte=0)


def consume(
    topic: str,
    *,
    partition: Annotated[list[int] | None, Parameter(name=["-p", "--partition"])] = None,
    offset: Annotated[int | None, Parameter(validator=NOT_NEGATIVE)] = None,
    count: Annotated[int | None, Parameter(name=["-n", "--count"], validator=NOT_NEGATIVE)] = None,
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
        available = len(leaders_of(client, topic))
        partitions = sorted(set(partition)) if partition else list(range(available))
        ensure_partitions_exist(topic, partitions, available)
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
        _ensure_reader()
        for index in waiting:
            for record in _fetch(client, topic, index, positions[index], wait=not exit_at_end):
                positions[index] = record.offset + 1
                yield index, record
        waiting = [p for p in partitions if not exit_at_end or positions[p] < ends[p]]


def _ensure_reader() -> None:
    """Raises BrokenPipeError when nobody reads stdout any more (`consume … | head`): without new records we would not
    notice.
    """
    output = select.poll()
    output.register(1, 0)
    if any(event & select.POLLERR for _, event in output.poll(0)):
        raise BrokenPipeError


def _earliest(client: BlockingClient, topic: str, partition: int) -> int:
    return end_offset(client, topic, partition, EARLIEST_TIMESTAMP)


def _fetch(
    client: BlockingClient, topic: str, partition: int, offset: int, *, wait: bool
) -> Iterator[Record]:
    from log.batches.batch import iter_batches
    from log.batches.records import decode_records
    from wire.client.answers import the_one
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
    found = the_one(the_one(answer, "topic").partitions, "partition")
    check(found.error_code, f"{topic}-{partition} at offset {offset}")
    for batch in iter_batches(found.records or b"", allow_partial_tail=True):
        if not batch.is_control:
            yield from (record for record in decode_records(batch) if record.offset >= offset)
