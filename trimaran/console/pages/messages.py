"""Records of a topic: older and newer ones, those that contain a text, and the newest as they arrive."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from trimaran.client.offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, out_of_range
from trimaran.client.positions import Position, parse_position
from trimaran.client.record_window import (
    Positions,
    RecordWindows,
    parse_positions,
    positions_text,
)
from trimaran.console.page import NotHere, Page, PageRequest, Row
from trimaran.console.pages.topic import described
from trimaran.console.record_view import DECODED, FORMATS, RecordView
from trimaran.errors.user_error import Exit, UserError
from trimaran.wire.identity import TopicPartition
from trimaran.wire.records.registry import COORDINATOR_RECORDS

if TYPE_CHECKING:
    from trimaran.log.batches.records import Record
    from trimaran.wire.blocking import BlockingClient

ISOLATIONS = ("read_committed", "read_uncommitted")
PARTS = ("anything", "key", "value", "headers")
RECORDS_MAX = 200
# Some records of each partition are read; in topics with more partitions, one must be chosen.
PARTITIONS_MAX = 100
READ_SECONDS = 10.0
ALL = "all"


def view(question: PageRequest) -> dict[str, Any]:
    name = question.path["topic"]
    forms = forms_of(question, name)
    form, isolation = question.choice("as", forms), question.choice("isolation", ISOLATIONS)
    limit = question.number("limit", 50, 1, RECORDS_MAX)
    find, part = question.text("find"), question.choice("in", PARTS)
    is_tail = question.text("tail") == "1"
    begin_text = question.text("from").strip() or ("start" if find else f"-{limit}")
    begin = parse_position(begin_text)
    with question.cluster.client() as client:
        available = sorted(
            each_partition.partition_index for each_partition in described(client, name).partitions
        )
        partition = question.text("partition") or (ALL if len(available) <= PARTITIONS_MAX else "0")
        chosen = _chosen(partition, available, name)
        windows = RecordWindows(
            client,
            chosen,
            is_committed=isolation == ISOLATIONS[0],
            before_round=_deadline(name),
        )
        shown = _read(question, client, windows, begin, limit, find, part, is_tail=is_tail)
    found = shown.pop("found")
    show = RecordView(name, form, question.cluster.codecs)
    return {
        "topic": name,
        "partitions": available,
        "partition": partition,
        "begin": begin_text,
        "shape": form,
        "formats": forms,
        "isolation": isolation,
        "isolations": ISOLATIONS,
        "limit": limit,
        "find": find,
        "part": part,
        "parts": PARTS,
        "tail": is_tail,
        "silent": [each.partition for each in windows.silent],
        "rows": [row_of(show, where, record) for where, record in found],
        **shown,
    }


def forms_of(question: PageRequest, topic: str) -> tuple[str, ...]:
    """Returns the forms in which the records of a topic can be shown, the usual one first."""
    can_decode = topic in COORDINATOR_RECORDS or any(question.cluster.codecs)
    return (DECODED, *FORMATS) if can_decode else FORMATS


def _chosen(partition: str, available: list[int], name: str) -> list[TopicPartition]:
    if partition == ALL:
        if len(available) > PARTITIONS_MAX:
            raise UserError(
                f"{name} has {len(available)} partitions, too many to read at once",
                f"some records of each are read, and at most {PARTITIONS_MAX} partitions are read at once",
                "choose one partition",
                exit_code=Exit.USAGE,
            )
        return [TopicPartition(name, index) for index in available]
    if not partition.isdecimal() or int(partition) not in available:
        raise _no_partition(name, partition, len(available))
    return [TopicPartition(name, int(partition))]


def ensure_partition(client: BlockingClient, where: TopicPartition) -> None:
    """Raises NotHere if there is no such topic or partition."""
    available = [each.partition_index for each in described(client, where.topic).partitions]
    if where.partition not in available:
        raise _no_partition(where.topic, str(where.partition), len(available))


def _no_partition(topic: str, partition: str, count: int) -> NotHere:
    return NotHere(
        f"topic {topic} has no partition {partition[:20]} (it has {count})",
        "partitions are counted from 0",
        "the page of the topic shows them",
    )


def _deadline(topic: str) -> Callable[[], None]:
    deadline = time.monotonic() + READ_SECONDS

    def check_time() -> None:
        if time.monotonic() > deadline:
            raise UserError(
                f"reading {topic} takes too long",
                f"the records did not come within {READ_SECONDS:.0f} s",
                "choose one partition, or an offset closer to the records",
                exit_code=Exit.TIMEOUT,
            )

    return check_time


def _read(
    question: PageRequest,
    client: BlockingClient,
    windows: RecordWindows,
    begin: Position,
    limit: int,
    find: str,
    part: str,
    *,
    is_tail: bool,
) -> dict[str, Any]:
    """Returns the records `found`, the positions of older and newer ones, and how far a search is."""
    topic = question.path["topic"]
    older, newer = _positions(question, "before", topic), _positions(question, "after", topic)
    if find:
        at = newer if newer is not None else _begin(client, windows, begin)
        step = windows.scan(at, limit, _matcher(find, part))
        return {
            "found": step.records,
            "older": None,
            "newer": None if step.is_over else positions_text(step.after.items()),
            "scanned": step.scanned,
            "scanned_bytes": step.bytes,
            "share": windows.share_before(step.after),
            "is_over": step.is_over,
            "is_cut": False,
        }
    if older is not None:
        window = windows.before(older, limit)
    elif newer is not None:
        window = windows.after(newer, limit)
    elif is_tail or begin.before_end is not None:
        count = limit if is_tail or begin.before_end is None else min(limit, begin.before_end)
        window = windows.before(windows.ends, count)
    else:
        window = windows.after(_begin(client, windows, begin), limit)
    starts, ends = windows.clipped(windows.starts), windows.clipped(windows.ends)
    return {
        "found": window.records,
        "older": positions_text(window.before.items()) if dict(window.before) != starts else None,
        "newer": positions_text(window.after.items()) if dict(window.after) != ends else None,
        "scanned": None,
        "scanned_bytes": 0,
        "share": 1.0,
        "is_over": True,
        "is_cut": window.is_cut,
    }


def _positions(question: PageRequest, name: str, topic: str) -> Positions | None:
    text = question.query.get(name, "")
    if not text:
        return None
    try:
        return parse_positions(text, topic)
    except ValueError as error:
        raise UserError(
            f"{name}={text[:80]} in the address is wrong",
            str(error),
            "begin again at the page of the topic",
            exit_code=Exit.USAGE,
        ) from None


def _begin(client: BlockingClient, windows: RecordWindows, begin: Position) -> Positions:
    """Returns the offsets of a position. Raises KafkaError for an offset that is not in the only partition."""
    if begin.timestamp_ms == EARLIEST_TIMESTAMP:
        return windows.starts
    if begin.timestamp_ms == LATEST_TIMESTAMP:
        return windows.ends
    found = {each: begin.offset_in(client, each) for each in windows.partitions}
    if begin.offset is not None and len(found) == 1:
        (where,) = found
        start, end = windows.starts[where], windows.ends[where]
        if not start <= begin.offset <= end:
            raise out_of_range(where, begin.offset, start, end)
    return found


def _matcher(text: str, part: str) -> Callable[[Record], bool]:
    """Returns a function that looks for a text, as it is written, in a part of a record."""
    needle = text.encode()

    def in_headers(record: Record) -> bool:
        return any(
            needle in header.key.encode() or needle in bytes(header.value or b"")
            for header in record.headers
        )

    if part == "key":
        return lambda record: needle in bytes(record.key or b"")
    if part == "value":
        return lambda record: needle in bytes(record.value or b"")
    if part == "headers":
        return in_headers
    return lambda record: (
        needle in bytes(record.value or b"")
        or needle in bytes(record.key or b"")
        or in_headers(record)
    )


def row_of(show: RecordView, where: TopicPartition, record: Record) -> Row:
    """Returns the row of a record."""
    key, value = show.parts(record)
    return {
        "partition": where.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "key": key.text,
        "value": value.text,
        "bytes": len(record.value or b""),
        "headers": [list(header) for header in show.headers(record)],
        "key_note": key.note,
        "value_note": value.note,
    }


PAGE = Page("/topics/{topic}/messages", "Messages", "messages.html", view)
