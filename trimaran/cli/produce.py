"""`produce`: produces lines as records, with the plain protocol."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from trimaran.cli import produced_lines
from trimaran.cli.connect import BROKERS, Brokers
from trimaran.cli.interrupt import Interrupt
from trimaran.cli.line_batches import BATCH_BYTES_MAX, LineBatches, line_batches
from trimaran.cli.output import say
from trimaran.cli.progress import ProgressBar, progress
from trimaran.cli.value_schemas import SCHEMAS, Schemas, explained
from trimaran.client import (
    idempotent_producer,
    partitioner,
    record_rows,
    topic_partitions,
    transactional_producer,
)
from trimaran.errors.user_error import Exit, UserError
from trimaran.log.batches import records as new_records
from trimaran.log.codecs import compression as codecs_compression
from trimaran.node.runtime import clock
from trimaran.node.text.wording import counted
from trimaran.wire.identity import BrokerId

if TYPE_CHECKING:
    from trimaran.client import record_values
    from trimaran.wire.blocking import BlockingClient

    Records = list[new_records.NewRecord]
    Headers = list[tuple[str, bytes | None]]


def _not_empty(_kind: object, text: str | None) -> None:
    if text == "":
        raise ValueError("has at least one character")


@Parameter(name="*")
@dataclass(frozen=True)
class Sending:
    """The options about how records are sent."""

    acks: Annotated[
        Literal["all", "1"],
        Parameter(
            name="--acks",
            help="all: all in-sync replicas have a record when it is acknowledged; 1: its leader has it.",
        ),
    ] = "all"
    compression: Annotated[
        Literal["none", "gzip", "snappy", "lz4", "zstd"],
        Parameter(name=["-z", "--compression"], help="Compression of the batches."),
    ] = "none"
    transactional_id: Annotated[
        str | None,
        Parameter(
            name="--transactional-id",
            validator=_not_empty,
            help="Send all lines in one transaction. It is committed at the end of the lines, and aborted by Ctrl-C, "
            "SIGTERM and errors. Another producer with the same id is fenced.",
        ),
    ] = None

    @property
    def delivery(self) -> idempotent_producer.SendOptions:
        if self.acks == "1" and self.transactional_id is not None:
            raise UserError(
                "--acks 1 and --transactional-id cannot be combined",
                "records of a transaction are acknowledged by all in-sync replicas",
                "leave out one of them",
                exit_code=Exit.USAGE,
            )
        return idempotent_producer.SendOptions(
            -1 if self.acks == "all" else 1,
            codecs_compression.Compression[self.compression.upper()],
        )


SENDING = Sending()


def produce(
    topic: str,
    *,
    file: Annotated[Path | None, Parameter(name=["-f", "--file"])] = None,
    input: Annotated[Literal["lines", "json"], Parameter(name=["-i", "--input"])] = "lines",  # noqa: A002
    key_separator: Annotated[
        str | None, Parameter(name=["-k", "--key-separator"], validator=_not_empty)
    ] = None,
    form: Annotated[str | None, Parameter(name="--format")] = None,
    null: str | None = None,
    header: Annotated[list[str] | None, Parameter(name=["-H", "--header"])] = None,
    partition: Annotated[int | None, Parameter(name=["-p", "--partition"])] = None,
    repartition: bool = False,
    sending: Sending = SENDING,
    schemas: Schemas = SCHEMAS,
    brokers: Brokers = BROKERS,
) -> int:
    """Produces each line as a record, by default with acks=all. From a slow pipe a line is sent within 0.1 s.

    Ctrl-C and SIGTERM end the reading; lines that were read are still sent. The number of acknowledged records is shown
    on stderr. With a schema, keys and values are JSON that is encoded by it.

    Args:
        topic: The topic to produce to; created if the brokers create topics automatically.
        file: A file with the lines; by default stdin.
        input: lines (a text), or json (an object as consume -o json prints it: the same record again, in its
            partition and with its timestamp).
        key_separator: The text before this separator is the key; a line without it has no key.
        form: The format of a line with tokens of consume -f: %k key, %s value, %h headers (a=1,b=2), %p partition, %T
            timestamp. Each takes the text up to the next text of the format: '%k|%h|%s'.
        null: A key or a value that is this word is null: a null value is a tombstone.
        header: NAME=VALUE: a header of each record; NAME alone has the value null. May be repeated.
        partition: The partition to produce to. By default a key is hashed (murmur2, as the Java client does), and each
            batch of lines without a key goes to the next partition.
        repartition: Choose partitions as for lines without one, instead of those that lines name.
    """
    codecs = schemas.codecs_for(topic)
    parse = _parser(input, key_separator, form, null, codecs)
    headers = [_header(each) for each in header or ()]
    delivery = sending.delivery
    with brokers.connected() as client, line_batches(file) as (lines, interrupt):
        leaders = topic_partitions.leaders_of(client, topic, create=True)
        topic_partitions.ensure_partitions_exist(
            topic, [] if partition is None else [partition], len(leaders)
        )
        if file is None and os.isatty(0):
            say(f"each line becomes a record of {topic}; Ctrl-D ends")
        made = _Records(topic, parse, codecs, headers, leaders, partition, repartition)
        acknowledged = 0
        total = None if file is None else file.stat().st_size or None
        try:
            with (
                _producer(client, topic, sending.transactional_id, delivery, interrupt) as producer,
                _progress(total) as bar,
            ):
                for batch in lines:
                    for target, records in made.of_batch(batch):
                        producer.send_records(target, records)
                        acknowledged += len(records)
                    bar.at(lines.bytes_read, counted(acknowledged, "record"))
        finally:
            say(_summary(lines, acknowledged))
        return Exit.OK if interrupt.number is None else 128 + interrupt.number


def _parser(
    kind: str,
    separator: str | None,
    form: str | None,
    null: str | None,
    codecs: record_values.Codecs,
) -> produced_lines.Parser:
    options = {"--key-separator": separator, "--format": form, "--null": null}
    given = [name for name, value in options.items() if value is not None]
    if kind == "json" and given:
        raise UserError(
            f"{given[0]} and --input json cannot be combined",
            "a row of JSON names its key, and null is null",
            f"leave out {given[0]}",
            exit_code=Exit.USAGE,
        )
    if form is not None and separator is not None:
        raise UserError(
            "--format and --key-separator cannot be combined",
            "both say what of a line is the key",
            "for example --format '%k:%s'",
            exit_code=Exit.USAGE,
        )
    if kind == "json":
        return record_rows.parse_row
    if form is not None:
        return produced_lines.formatted_lines(form, null, codecs)
    return produced_lines.plain_lines(separator, null, codecs)


def _header(text: str) -> tuple[str, bytes | None]:
    try:
        return produced_lines.header_of(text)
    except ValueError as error:
        raise UserError(
            "--header cannot be used",
            str(error),
            "for example -H trace=7",
            exit_code=Exit.USAGE,
        ) from None


def _progress(total: int | None) -> AbstractContextManager[ProgressBar]:
    """Shows the progress in bytes of a file; stdin has none."""
    return (
        nullcontext(ProgressBar("producing"))
        if total is None and os.isatty(0)
        else progress("producing", total)
    )


@contextmanager
def _producer(
    client: BlockingClient,
    topic: str,
    transactional_id: str | None,
    delivery: idempotent_producer.SendOptions,
    interrupt: Interrupt,
) -> Iterator[idempotent_producer.IdempotentProducer]:
    """Produces all lines, in one transaction if there is an id, and reports the outcome."""
    if transactional_id is None:
        yield idempotent_producer.IdempotentProducer(client, topic, delivery)
        return
    producer = transactional_producer.TransactionalProducer(
        client, topic, transactional_id, delivery
    )
    is_commit = False
    try:
        yield producer
        is_commit = interrupt.number is None
    finally:
        producer.end(is_commit=is_commit)
        say(f"transaction of {transactional_id} {'committed' if is_commit else 'aborted'}")


def _summary(lines: LineBatches, acknowledged: int) -> str:
    text = f"{counted(acknowledged, 'record')} acknowledged"
    if missing := lines.lines_read - acknowledged:
        text += f"; {missing} more may not have been delivered"
    if lines.unfinished_bytes:
        text += f"; {lines.unfinished_bytes} bytes of an unfinished line were not sent"
    return text


class _Records:
    """Makes the records of lines, and chooses their partitions."""

    def __init__(
        self,
        topic: str,
        parse: produced_lines.Parser,
        codecs: record_values.Codecs,
        headers: Headers,
        leaders: list[BrokerId],
        partition: int | None,
        repartition: bool,
    ) -> None:
        self._topic, self._parse, self._codecs, self._headers = topic, parse, codecs, headers
        self._count = len(leaders)
        self._partition, self._repartition = partition, repartition
        first = int.from_bytes(os.urandom(2), "big")
        self._sticky = partitioner.StickyPartitions(leaders, first)
        self._lines = 0

    def of_batch(self, lines: list[bytes]) -> Iterator[tuple[int, Records]]:
        """Yields records by partition, in the order of the lines, in batches that a broker accepts.

        Raises:
            UserError: a line is not a record; none of this batch is sent.
        """
        without_key = self._sticky.next()
        found: dict[int, Records] = {}
        for line in lines:
            self._lines += 1
            wanted, record = self._record(line)
            if self._partition is not None:
                wanted = self._partition
            elif wanted is None or self._repartition:
                key = record.key
                wanted = (
                    without_key
                    if key is None
                    else partitioner.partition_of_key(bytes(key), self._count)
                )
            found.setdefault(wanted, []).append(record)
        topic_partitions.ensure_partitions_exist(self._topic, found, self._count)
        for target, records in found.items():
            yield from ((target, batch) for batch in _cut(records))

    def _record(self, line: bytes) -> tuple[int | None, new_records.NewRecord]:
        about = f"line {self._lines}"
        try:
            row = self._parse(line)
            headers = [*row.headers, *self._headers]
            key = explained(lambda: record_rows.encoded(row.key, self._codecs.key, headers), about)
            value = explained(
                lambda: record_rows.encoded(row.value, self._codecs.value, headers), about
            )
        except ValueError as error:
            raise UserError(
                f"{about} is no record",
                str(error),
                "correct it, and produce it and the lines after it; those before it are not affected",
                exit_code=Exit.USAGE,
            ) from None
        timestamp_ms = clock.now_ms() if row.timestamp_ms is None else row.timestamp_ms
        return row.partition, new_records.NewRecord(key, value, timestamp_ms, headers)


def _cut(records: Records) -> Iterator[Records]:
    """Splits records into batches of `BATCH_BYTES_MAX`: headers and schemas may make them longer than their lines."""
    batch: Records = []
    size = 0
    for record in records:
        own = len(record.key or b"") + len(record.value or b"")
        own += sum(len(name) + len(value or b"") for name, value in record.headers)
        if batch and size + own > BATCH_BYTES_MAX:
            yield batch
            batch, size = [], 0
        batch.append(record)
        size += own
    yield batch
