"""`consume`: prints records as lines. Any Kafka client can do more."""

from __future__ import annotations

import select
import sys
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter, validators

from trimaran.cli import share_records
from trimaran.cli.connect import BROKERS, Brokers
from trimaran.cli.output import Format, show_item
from trimaran.cli.progress import progress
from trimaran.cli.record_format import compiled
from trimaran.client import positions, topic_partitions
from trimaran.client import reader as client_reader
from trimaran.errors.user_error import Exit, UserError
from trimaran.wire import identity

if TYPE_CHECKING:
    from collections.abc import Callable

    from trimaran.log.batches.records import Record

Isolation = Literal["read_uncommitted", "read_committed"]
NOT_NEGATIVE = validators.Number(gte=0)


def consume(
    topic: str,
    *,
    partition: Annotated[list[int] | None, Parameter(name=["-p", "--partition"])] = None,
    offset: str | None = None,
    count: Annotated[int | None, Parameter(name=["-n", "--count"], validator=NOT_NEGATIVE)] = None,
    exit_at_end: Annotated[bool, Parameter(name=["-e", "--exit"])] = False,
    until: str | None = None,
    isolation: Isolation | None = None,
    share_group: Annotated[str | None, Parameter(name=["-g", "--share-group"])] = None,
    reject: Annotated[bool, Parameter(negative="")] = False,
    release: Annotated[bool, Parameter(negative="")] = False,
    key_separator: Annotated[str | None, Parameter(name=["-k", "--key-separator"])] = None,
    form: Annotated[str | None, Parameter(name=["-f", "--format"])] = None,
    brokers: Brokers = BROKERS,
    output: Format = "table",
) -> int:
    r"""Prints the records of a topic: by default from the beginning, each value as a line; JSON has whole records.

    With --share-group it joins a share group, which decides what it reads: each record goes to one member. A record is
    acknowledged when it was printed. Ctrl-C ends after the current record; others that were fetched are given back.

    Args:
        topic: The topic to consume; no offsets are committed.
        partition: Only this partition; by default all. May be repeated.
        offset: Where to begin in each partition: start, end, an offset, -10 (ten before the end), @2026-11-23T12:00,
            @-15m, or @MILLISECONDS; by default start.
        count: Stop after this many records.
        exit_at_end: Stop at the end instead of waiting for more records. In a share group: after the records that were
            there at the start, or when none has arrived for two seconds.
        until: The position at which to stop in each partition, at the latest at its end. Written like --offset: @-5m is
            five minutes ago.
        isolation: read_committed omits aborted transactions, and ends where the oldest open one begins; by default
            read_uncommitted. A share group has it as its config share.isolation.level.
        share_group: Join this share group. Its config share.auto.offset.reset says where a new group begins; by default
            at the end.
        reject: Reject the records instead of accepting them: they are not delivered again, except to a dead-letter
            queue.
        release: Only look at the records: each is printed once, and all are given back at the end, at the latest before
            their locks end. That counts as one delivery of the limit.
        key_separator: Print the key too, followed by this separator and the value.
        form: Print records in a format with kcat's tokens: %t topic, %p partition, %o offset, %T timestamp, %k key, %s
            value, %h headers, %K and %S lengths. Write the line break, too: '%k %s\n'.
    """
    text_of = _formatted(form, key_separator)

    def show(where: identity.TopicPartition, record: Record, **more: int) -> None:
        if output in ("table", "wide"):
            sys.stdout.buffer.write(text_of(where, record))
            sys.stdout.buffer.flush()
        else:
            show_item({**_row(where, record), **more}, output)

    if share_group is not None:
        share_records.ensure_group_decides(
            share_group, partition=partition, offset=offset, until=until, isolation=isolation
        )
        kind = share_records.kind_of(reject=reject, release=release)
        ends = share_records.Ends(count, exit_at_end, ensure_reader)
        return share_records.consume_shared(brokers, topic, share_group, kind, ends, show)
    share_records.ensure_of_groups(reject=reject, release=release)
    begin = positions.parse_position(offset or "start")
    end = None if until is None else positions.parse_position(until)
    with brokers.connected() as client:
        available = len(topic_partitions.leaders_of(client, topic))
        partitions = sorted(set(partition)) if partition else list(range(available))
        topic_partitions.ensure_partitions_exist(topic, partitions, available)
        reader = client_reader.TopicReader(
            client, topic, partitions, is_committed=isolation == "read_committed"
        )
        found = reader.records(begin, exit_at_end, before_round=ensure_reader, until=end)
        with progress("consuming", count, unit="record", prints=True) as bar:
            for number, (index, record) in enumerate(islice(found, count), 1):
                show(identity.TopicPartition(topic, index), record)
                bar.at(number)
    return Exit.OK


def _formatted(
    form: str | None, key_separator: str | None
) -> Callable[[identity.TopicPartition, Record], bytes]:
    """Returns a record as text; without a format, the value and a line break."""
    if form is not None:
        if key_separator is not None:
            raise UserError(
                "--format and --key-separator cannot be combined",
                "both say how a record is printed; a format prints the key where it has %k",
                r"for example -f '%k:%s\n'",
                exit_code=Exit.USAGE,
            )
        return compiled(form)
    if key_separator is None:
        return compiled(r"%s\n")
    between = key_separator.replace("\\", "\\\\").replace("%", "%%")
    return compiled(rf"%k{between}%s\n")


def _row(where: identity.TopicPartition, record: Record) -> dict[str, Any]:
    return {
        "topic": where.topic,
        "partition": where.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "key": _text(record.key),
        "value": _text(record.value),
        "headers": [[h.key, _text(h.value)] for h in record.headers],
    }


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "backslashreplace")


def ensure_reader() -> None:
    """Raises BrokenPipeError if stdout no longer has a reader (`consume … | head`), which would go unnoticed without
    new records.
    """
    output = select.poll()
    output.register(1, 0)
    if any(event & select.POLLERR for _, event in output.poll(0)):
        raise BrokenPipeError
