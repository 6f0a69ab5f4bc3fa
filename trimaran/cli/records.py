"""`consume`: prints records as lines. Any Kafka client can do more."""

from __future__ import annotations

import json
import re
import select
import sys
import time
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter, validators

from trimaran.cli import group_records, share_records
from trimaran.cli.connect import BROKERS, Brokers
from trimaran.cli.output import Format, show_item
from trimaran.cli.progress import progress
from trimaran.cli.record_format import compiled
from trimaran.cli.value_schemas import SCHEMAS, Schemas, explained
from trimaran.client import partitions as client_partitions
from trimaran.client import positions, record_rows, record_values, topic_partitions
from trimaran.client import reader as client_reader
from trimaran.errors.user_error import Exit, UserError
from trimaran.wire import identity

if TYPE_CHECKING:
    from collections.abc import Callable

    from trimaran.log.batches.records import Record
    from trimaran.wire.blocking import BlockingClient

    Show = Callable[..., None]

Isolation = Literal["read_uncommitted", "read_committed"]
NOT_NEGATIVE = validators.Number(gte=0)
RATE = validators.Number(gte=1)


def consume(
    *topics: str,
    include: str | None = None,
    partition: Annotated[list[int] | None, Parameter(name=["-p", "--partition"])] = None,
    offset: str | None = None,
    count: Annotated[int | None, Parameter(name=["-n", "--count"], validator=NOT_NEGATIVE)] = None,
    exit_at_end: Annotated[bool, Parameter(name=["-e", "--exit"])] = False,
    until: str | None = None,
    isolation: Isolation | None = None,
    group: Annotated[str | None, Parameter(name=["-G", "--group"])] = None,
    share_group: Annotated[str | None, Parameter(name=["-g", "--share-group"])] = None,
    reject: Annotated[bool, Parameter(negative="")] = False,
    release: Annotated[bool, Parameter(negative="")] = False,
    key_separator: Annotated[str | None, Parameter(name=["-k", "--key-separator"])] = None,
    form: Annotated[str | None, Parameter(name=["-f", "--format"])] = None,
    on_error: Literal["fail", "null"] = "fail",
    rate: Annotated[int | None, Parameter(validator=RATE)] = None,
    schemas: Schemas = SCHEMAS,
    brokers: Brokers = BROKERS,
    output: Format = "table",
) -> int:
    r"""Prints the records of topics: by default from the beginning, each value as a line; JSON has whole records.

    With --group it joins a consumer group, which assigns partitions to its members. A record is committed when it was
    printed. With --share-group it joins a share group, which decides what it reads: each record goes to one member. A
    record is acknowledged when it was printed. Ctrl-C ends after the current record; in a share group others that were
    fetched are given back.

    Args:
        topics: The topics to consume. Without a group no offsets are committed.
        include: A regular expression that whole names of topics match, in place of names. In a group the coordinator
            matches it, also with topics that are created later; otherwise internal topics are left out.
        partition: Only this partition; by default all. May be repeated.
        offset: Where to begin in each partition: start, end, an offset, -10 (ten before the end), @2026-11-23T12:00,
            @-15m, or @MILLISECONDS; by default start. In a group: in partitions without a committed offset.
        count: Stop after this many records.
        exit_at_end: Stop at the end instead of waiting for more records. In a group: after the records that were there
            at the start; in a share group also when none has arrived for two seconds.
        until: The position at which to stop in each partition, at the latest at its end. Written like --offset: @-5m is
            five minutes ago.
        isolation: read_committed omits aborted transactions, and ends at the beginning of the oldest open one; by
            default read_uncommitted. For a share group, its config share.isolation.level decides.
        group: Join this consumer group (KIP-848).
        share_group: Join this share group. Its config share.auto.offset.reset says where a new group begins; by default
            at the end.
        reject: Reject the records instead of accepting them: they are not delivered again, except to a dead-letter
            queue.
        release: Only look at the records: each is printed once, and all are given back at the end, at the latest before
            their locks end. This counts as one delivery of each record.
        key_separator: Print the key too, followed by this separator and the value.
        form: Print records in a format with kcat's tokens: %t topic, %p partition, %o offset, %T timestamp, %k key, %s
            value, %h headers, %K and %S lengths. Write the line break, too: '%k %s\n'.
        on_error: For a key or value that cannot be decoded: fail ends the command; null prints it as null, and -o json
            has the reason, and the bytes in base64.
        rate: The most records per second; by default as many as the cluster serves.
    """
    codecs = schemas.codecs
    show = _printer(output, _formatted(form, key_separator), codecs, on_error, RecordPace(rate))
    if share_group is not None:
        share_records.ensure_group_decides(
            share_group,
            group=group,
            partition=partition,
            offset=offset,
            until=until,
            isolation=isolation,
            include=include,
        )
        kind = share_records.kind_of(reject=reject, release=release)
        ends = share_records.Ends(count, exit_at_end, ensure_reader)
        return share_records.consume_shared(
            brokers, _only_topic(topics), share_group, kind, ends, show
        )
    share_records.ensure_of_groups(reject=reject, release=release)
    _ensure_named(topics, include)
    begin = positions.parse_position(offset or "start")
    is_committed = isolation == "read_committed"
    if group is not None:
        group_records.ensure_group_assigns(partition=partition, until=until)
        reading = group_records.GroupReading(topics, include, begin, is_committed)
        ends = share_records.Ends(count, exit_at_end, ensure_reader)
        return group_records.consume_in_group(brokers, group, reading, ends, show)
    end = None if until is None else positions.parse_position(until)
    with brokers.connected() as client:
        chosen = _chosen(client, topics, include, partition)
        reader = client_reader.PartitionReader(client, chosen, is_committed=is_committed)
        found = reader.records(begin, exit_at_end, before_round=ensure_reader, until=end)
        with progress("consuming", count, unit="record", prints=True) as bar:
            for number, (where, record) in enumerate(islice(found, count), 1):
                show(where, record)
                bar.at(number)
    return Exit.OK


def _ensure_named(topics: Sequence[str], include: str | None) -> None:
    if bool(topics) == (include is not None):
        raise UserError(
            "name topics, or a pattern with --include",
            "both are given" if topics else "neither is given",
            "for example trimaran consume orders payments, or --include 'orders-.*'",
            exit_code=Exit.USAGE,
        )


def _only_topic(topics: Sequence[str]) -> str:
    if len(topics) != 1:
        raise UserError(
            "a member of a share group reads one topic here",
            f"{len(topics)} topics are given",
            "name one topic; other members of the group may read others",
            exit_code=Exit.USAGE,
        )
    return topics[0]


def _chosen(
    client: BlockingClient,
    topics: Sequence[str],
    include: str | None,
    partition: list[int] | None,
) -> list[identity.TopicPartition]:
    """Returns the partitions of the topics; the chosen ones must exist in each topic."""
    names = topics if include is None else _matching(client, include)
    found = []
    for name in dict.fromkeys(names):
        available = len(topic_partitions.leaders_of(client, name))
        wanted = sorted(set(partition)) if partition else range(available)
        topic_partitions.ensure_partitions_exist(name, wanted, available)
        found += [identity.TopicPartition(name, index) for index in wanted]
    return found


def _matching(client: BlockingClient, include: str) -> list[str]:
    try:
        pattern = re.compile(include)
    except re.error as error:
        raise UserError(
            f"--include {include!r} is no regular expression",
            str(error),
            "for example --include 'orders-.*'",
            exit_code=Exit.USAGE,
        ) from None
    known = client_partitions.topics_of(client, None)
    names = sorted(topic.name for topic in known if topic.name and not topic.is_internal)
    found = [name for name in names if pattern.fullmatch(name)]
    if not found:
        raise UserError(
            f"no topic matches {include!r}",
            f"it is compared with the whole names of {len(names)} topics",
            "trimaran topics list shows all topics",
            exit_code=Exit.REFUSED,
        )
    return found


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


def _printer(
    output: str,
    text_of: Callable[[identity.TopicPartition, Record], bytes],
    codecs: record_values.Codecs,
    on_error: str,
    pace: RecordPace,
) -> Show:
    """Returns a function that prints a record, decoded if there are codecs."""

    def show(where: identity.TopicPartition, record: Record, **more: int) -> None:
        pace.wait()
        about = f"{where} at offset {record.offset}"
        content = explained(
            lambda: record_rows.decoded(record, codecs, fails=on_error == "fail"), about
        )
        if output in ("table", "wide"):
            shown = record._replace(
                key=_text(content.key, content.key_error),
                value=_text(content.value, content.value_error),
            )
            sys.stdout.buffer.write(text_of(where, shown))
            sys.stdout.buffer.flush()
        else:
            show_item({**record_rows.row_of(where, record, content), **more}, output)

    return show


def _text(content: record_rows.PartContent, error: str) -> bytes | None:
    """Returns bytes as they are, and a decoded value as one line of JSON."""
    if error:
        return None
    if isinstance(content, record_values.JsonValue):
        return json.dumps(content.value, ensure_ascii=False).encode("utf-8", "backslashreplace")
    return content


def ensure_reader() -> None:
    """Raises BrokenPipeError if stdout no longer has a reader (`consume … | head`), which would go unnoticed without
    new records.
    """
    output = select.poll()
    output.register(1, 0)
    if any(event & select.POLLERR for _, event in output.poll(0)):
        raise BrokenPipeError


class RecordPace:
    """Allows at most `rate` turns a second, evenly spaced; None means no limit. Missed turns are not made up for."""

    def __init__(
        self,
        rate: int | None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._seconds = 0.0 if rate is None else 1 / rate
        self._clock, self._sleep = clock, sleep
        self._next = 0.0

    def wait(self) -> None:
        """Waits for the next turn."""
        if not self._seconds:
            return
        now = self._clock()
        if now < self._next:
            self._sleep(self._next - now)
            now = self._next
        self._next = now + self._seconds
