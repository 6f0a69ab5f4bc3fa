"""Some records of a topic, as text, JSON or hex, with headers, from an offset or a time on."""

from __future__ import annotations

import json
import time
from itertools import islice
from typing import TYPE_CHECKING, Any

from trimaran.client.positions import Position, parse_position
from trimaran.client.reader import PartitionReader
from trimaran.console.page import NotHere, Page, PageRequest, Row
from trimaran.console.pages.topic import described
from trimaran.errors.user_error import Exit, UserError
from trimaran.node.text.escaping import bounded
from trimaran.wire.identity import TopicPartition

if TYPE_CHECKING:
    from trimaran.log.batches.records import Record
    from trimaran.wire.blocking import BlockingClient

FORMATS = ("text", "json", "hex")
ISOLATIONS = ("read_committed", "read_uncommitted")
RECORDS_MAX = 200
# The longest key, value or header on the page; longer ones are shortened, with their full size.
SHOWN_BYTES_MAX = 4096
# Each partition returns up to 1 MiB; in topics with more partitions, one must be chosen.
PARTITIONS_MAX = 16
READ_SECONDS = 10.0
ALL = "all"


def view(question: PageRequest) -> dict[str, Any]:
    name = question.path["topic"]
    form, isolation = question.choice("as", FORMATS), question.choice("isolation", ISOLATIONS)
    limit = question.number("limit", 50, 1, RECORDS_MAX)
    begin_text = question.text("from", f"-{limit}").strip() or f"-{limit}"
    begin = parse_position(begin_text)
    with question.cluster.client() as client:
        available = sorted(
            each_partition.partition_index for each_partition in described(client, name).partitions
        )
        partition = question.text("partition") or (ALL if len(available) <= PARTITIONS_MAX else "0")
        chosen = _chosen(partition, available, name)
        found = _read(client, name, chosen, begin, limit, isolation)
    rows = [_row(index, record, form) for index, record in found]
    return {
        "topic": name,
        "partitions": available,
        "partition": partition,
        "begin": begin_text,
        "shape": form,
        "formats": FORMATS,
        "isolation": isolation,
        "isolations": ISOLATIONS,
        "limit": limit,
        "rows": rows,
        "next": _next(found, chosen, limit),
    }


def _chosen(partition: str, available: list[int], name: str) -> list[int]:
    if partition == ALL:
        if len(available) > PARTITIONS_MAX:
            raise UserError(
                f"{name} has {len(available)} partitions, too many to read at once",
                f"up to 1 MiB of each is read, and at most {PARTITIONS_MAX} are read at once",
                "choose one partition",
                exit_code=Exit.USAGE,
            )
        return available
    if not partition.isdecimal() or int(partition) not in available:
        raise NotHere(
            f"topic {name} has no partition {partition[:20]} (it has {len(available)})",
            "partitions are counted from 0",
            "the page of the topic shows them",
        )
    return [int(partition)]


def _read(
    client: BlockingClient,
    topic: str,
    partitions: list[int],
    begin: Position,
    limit: int,
    isolation: str,
) -> list[tuple[int, Record]]:
    """Returns at most `limit` records by time: the last ones if the position is relative to the end, else the first
    ones.
    """
    deadline = time.monotonic() + READ_SECONDS

    def check_time() -> None:
        if time.monotonic() > deadline:
            raise UserError(
                f"reading {topic} takes too long",
                f"the records did not come within {READ_SECONDS:.0f} s",
                "choose one partition, or an offset closer to the records",
                exit_code=Exit.TIMEOUT,
            )

    found: list[tuple[int, Record]] = []
    for index in partitions:
        where = TopicPartition(topic, index)
        reader = PartitionReader(client, [where], is_committed=isolation == ISOLATIONS[0])
        read = islice(reader.records(begin, exit_at_end=True, before_round=check_time), limit)
        found += [(index, record) for _, record in read]
    found.sort(key=lambda one: (one[1].timestamp_ms, one[0], one[1].offset))
    return found[-limit:] if begin.before_end is not None else found[:limit]


def _next(found: list[tuple[int, Record]], chosen: list[int], limit: int) -> int | None:
    """Returns the offset of the next page, if one partition is read and there may be more records."""
    return found[-1][1].offset + 1 if len(chosen) == 1 and len(found) == limit else None


def _row(partition: int, record: Record, form: str) -> Row:
    return {
        "partition": partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "key": shown(record.key, form),
        "value": shown(record.value, form),
        "bytes": len(record.value or b""),
        "headers": [[header.key, shown(header.value, "text")] for header in record.headers],
    }


def shown(data: bytes | memoryview | None, form: str) -> str | None:
    """Returns bytes in the wanted form: bytes that are not JSON become text, and those that are not UTF-8 are
    escaped.
    """
    if data is None:
        return None
    some = bytes(data[:SHOWN_BYTES_MAX])
    if form == "hex":
        return bounded_bytes(some.hex(" "), len(data))
    if form == "json" and len(data) <= SHOWN_BYTES_MAX:
        try:
            text = json.dumps(json.loads(some), indent=2, ensure_ascii=False)
        except (ValueError, RecursionError):
            pass
        else:
            return bounded(text, 2 * SHOWN_BYTES_MAX)
    return bounded_bytes(some.decode("utf-8", "backslashreplace"), len(data))


def bounded_bytes(text: str, size: int) -> str:
    more = size - SHOWN_BYTES_MAX
    return text if more <= 0 else f"{text}… ({more} more bytes)"


PAGE = Page("/topics/{topic}/messages", "Messages", "messages.html", view)
