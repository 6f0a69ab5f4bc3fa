"""`produce`: produces lines as records, with the plain protocol. Any Kafka client can do more."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from trimaran.cli.connect import BROKERS, Brokers
from trimaran.cli.interrupt import Interrupt
from trimaran.cli.line_batches import LineBatches, line_batches
from trimaran.cli.output import say
from trimaran.cli.progress import ProgressBar, progress
from trimaran.client import (
    idempotent_producer,
    partitioner,
    topic_partitions,
    transactional_producer,
)
from trimaran.errors.user_error import Exit
from trimaran.node.text.wording import counted
from trimaran.wire.identity import BrokerId

if TYPE_CHECKING:
    from collections.abc import Callable

    from trimaran.wire.blocking import BlockingClient


def _not_empty(_kind: object, text: str | None) -> None:
    if text == "":
        raise ValueError("has at least one character")


def produce(
    topic: str,
    *,
    file: Annotated[Path | None, Parameter(name=["-f", "--file"])] = None,
    key_separator: Annotated[
        str | None, Parameter(name=["-k", "--key-separator"], validator=_not_empty)
    ] = None,
    partition: Annotated[int | None, Parameter(name=["-p", "--partition"])] = None,
    transactional_id: Annotated[str | None, Parameter(validator=_not_empty)] = None,
    brokers: Brokers = BROKERS,
) -> int:
    """Produces each line as a record, with acks=all. From a slow pipe each line is sent within a tenth of a second.

    Ctrl-C and SIGTERM end the reading; lines that were read are still sent. The number of acknowledged records is shown
    on stderr.

    Args:
        topic: The topic to produce to; created if the brokers create topics automatically.
        file: A file with the lines; by default stdin.
        key_separator: The text before this separator is the key; a line without it has no key.
        partition: The partition to produce to. By default a key is hashed (murmur2, as the Java client does), and each
            batch of lines without a key goes to the next partition.
        transactional_id: Send all lines in one transaction. It is committed at the end of the lines, and aborted by
            Ctrl-C, SIGTERM and errors. Another producer with the same id is fenced.
    """
    with brokers.connected() as client, line_batches(file) as (lines, interrupt):
        leaders = topic_partitions.leaders_of(client, topic, create=True)
        topic_partitions.ensure_partitions_exist(
            topic, [] if partition is None else [partition], len(leaders)
        )
        if file is None and os.isatty(0):
            say(f"each line becomes a record of {topic}; Ctrl-D ends")
        choose = _partitioner(leaders, partition)
        acknowledged = 0
        total = None if file is None else file.stat().st_size or None
        try:
            with (
                _producer(client, topic, transactional_id, interrupt) as producer,
                _progress(total) as bar,
            ):
                for batch in lines:
                    for target, share in _spread(batch, key_separator, choose()).items():
                        producer.send(target, share)
                        acknowledged += len(share)
                    bar.at(lines.bytes_read, counted(acknowledged, "record"))
        finally:
            say(_summary(lines, acknowledged))
        return Exit.OK if interrupt.number is None else 128 + interrupt.number


def _progress(total: int | None) -> AbstractContextManager[ProgressBar]:
    """Shows the progress in bytes of a file; stdin has none."""
    return (
        nullcontext(ProgressBar("producing"))
        if total is None and os.isatty(0)
        else progress("producing", total)
    )


@contextmanager
def _producer(
    client: BlockingClient, topic: str, transactional_id: str | None, interrupt: Interrupt
) -> Iterator[idempotent_producer.IdempotentProducer]:
    """Produces all lines, in one transaction if there is an id, and reports the outcome."""
    if transactional_id is None:
        yield idempotent_producer.IdempotentProducer(client, topic)
        return
    producer = transactional_producer.TransactionalProducer(client, topic, transactional_id)
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


def _partitioner(
    leaders: list[BrokerId], partition: int | None
) -> Callable[[], Callable[[bytes | None], int]]:
    """Returns a function that is called for each batch and returns a function from a key to a partition."""
    if partition is not None:
        return lambda: lambda _key: partition
    sticky = partitioner.StickyPartitions(leaders, int.from_bytes(os.urandom(2), "big"))

    def for_batch() -> Callable[[bytes | None], int]:
        without_key = sticky.next()
        return lambda key: (
            without_key if key is None else partitioner.partition_of_key(key, len(leaders))
        )

    return for_batch


def _spread(
    lines: list[bytes], separator: str | None, partition_of: Callable[[bytes | None], int]
) -> dict[int, idempotent_producer.Lines]:
    """Returns the records by partition, in the order of the lines."""
    found: dict[int, idempotent_producer.Lines] = {}
    for line in lines:
        key, value = _split(line, separator)
        found.setdefault(partition_of(key), []).append((key, value))
    return found


def _split(line: bytes, separator: str | None) -> tuple[bytes | None, bytes]:
    if separator is None:
        return None, line
    key, found, value = line.partition(separator.encode())
    return (key, value) if found else (None, line)
