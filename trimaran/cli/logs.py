"""`logs dump`: prints segments and partition directories on disk as rows or tables, and checks that their files
match.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from trimaran.cli.output import Format, put, say, show_item
from trimaran.cli.progress import ProgressBar, progress
from trimaran.errors.user_error import Exit, UserError
from trimaran.inspect import log_rows
from trimaran.log.inspection import reader
from trimaran.log.inspection import verify as log_verify
from trimaran.node.text.wording import counted
from trimaran.wire.identity import Offset
from trimaran.wire.text import as_json

if TYPE_CHECKING:
    from trimaran.inspect.log_rows import LogTransactions, PartitionFiles, Row
    from trimaran.log.batches.batch import BatchView

TEXT_CHARACTERS_MAX = 200  # characters of a key or value in a table


def dump(
    *paths: Path,
    output: Format = "table",
    level: Literal["records", "batches"] = "records",
    isolation: Literal["read_uncommitted", "read_committed"] = "read_uncommitted",
    decode: Annotated[bool, Parameter(negative="")] = False,
    verify: Annotated[bool, Parameter(negative="")] = False,
    whole_segments: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Prints the contents of log segments, ours or Apache Kafka's of any version.

    Nothing is written; the directory may be in use.

    Control records (of transactions and of the quorum, never seen by consumers) are marked with their type, such as
    COMMIT. Records of the metadata log with a password or key are shown as (hidden). In JSON the names are the columns
    of Spark's kafka_log; times are in milliseconds, bytes in base64. Exit code 1 if a path has no log, if a file is
    damaged or ends within a batch, or if --verify finds a problem.

    Args:
        paths: Segments (….log), partition directories (orders-0), or log directories with all their partitions.
        level: records, or batches to show only the headers of batches.
        isolation: read_committed omits aborted transactions and control records, and ends where the oldest open
            transaction begins.
        decode: Decode the messages in records of __consumer_offsets, __transaction_state, __share_group_state and
            __cluster_metadata.
        verify: Print problems instead: wrong CRCs, offsets and epochs, damaged records, and indexes, producer snapshots
            and leader epochs that do not match the batches.
        whole_segments: Also show records before the log start offset, which were deleted but are still in the files.
    """
    sources, empty = log_rows.find_sources(paths)
    for path in empty:
        say(f"no log in {path}: {log_rows.NO_LOG}")
    if verify:
        return max(_verify(sources, output), Exit.NO if empty else Exit.OK)
    failures: list[UserError] = []
    with progress("reading partitions", len(sources), prints=True) as bar:
        for number, source in enumerate(sources):
            bar.at(number, source.directory.name)
            shown = replace(source, log_start_offset=Offset(0)) if whole_segments else source
            try:
                _print(shown, output, level, isolation, decode=decode)
            except UserError as error:
                failures.append(error)
    for failure in failures[:-1]:
        say(str(failure))
    if failures:
        raise failures[-1]
    return Exit.NO if empty else Exit.OK


def _print(
    source: PartitionFiles, output: str, level: str, isolation: str, *, decode: bool
) -> None:
    if source.segments[0].base_offset < source.log_start_offset:
        say(
            f"{source.directory} starts at offset {source.log_start_offset}; what was deleted before it is left out"
            " (--whole-segments shows it)"
        )
    transactions = log_rows.transactions_of(source) if isolation == "read_committed" else None
    if output not in ("table", "wide"):
        _print_rows(source, transactions, level, output, decode=decode)
    else:
        _print_table(source, transactions, level, decode=decode)


def _print_rows(
    source: PartitionFiles,
    transactions: LogTransactions | None,
    level: str,
    output: str,
    *,
    decode: bool,
) -> None:
    if level == "batches":
        rows = log_rows.batch_rows(source, transactions)
    else:
        rows = log_rows.record_rows(source, transactions, decoded=decode)
    for row in rows:
        show_item(row, output)


def _print_table(
    source: PartitionFiles, transactions: LogTransactions | None, level: str, *, decode: bool
) -> None:
    located = log_rows.batches_of(source, transactions)
    for segment, batches in groupby(located, key=lambda found: found[0]):
        put(segment.path)
        for _, position, batch in batches:
            put(f"  {_batch_line(position, batch)}")
            if level == "records":
                for row in log_rows.rows_of_batch(source, segment, position, batch, decoded=decode):
                    put(f"    {_record_line(row)}")


def _batch_line(position: int, batch: BatchView) -> str:
    parts = [
        f"batch {batch.base_offset} to {batch.last_offset} at {position}: {counted(batch.count, 'record')}",
        f"{batch.size} bytes",
        f"v{batch.magic} {batch.compression.name.lower()}",
    ]
    if batch.leader_epoch >= 0:
        parts.append(f"epoch {batch.leader_epoch}")
    if batch.producer_id >= 0:
        parts.append(
            f"producer {batch.producer_id} epoch {batch.producer_epoch} sequence {batch.base_sequence}"
        )
    parts += ["transactional"] if batch.is_transactional else []
    parts += (
        [f"control {log_rows.control_type_of(batch) or ''}".rstrip()] if batch.is_control else []
    )
    if batch.delete_horizon_ms is not None:
        parts.append(f"deletes from {_when(batch.delete_horizon_ms)}")
    return ", ".join(parts)


def _record_line(row: Row) -> str:
    """Returns a line with offset, time, headers, then key and value, or their decoded form."""
    head = f"{row['offset']:>8}  {_when(row['timestamp'])}"
    if "control_type" in row:
        return f"{head}  control {row['control_type']}{_fields_text(row['control'])}"
    headers = "".join(f" {h['key']}={_text(h['value'])}" for h in row["headers"])
    if row.get("decoded") is not None:
        return f"{head}  {_decoded_text(row['decoded'])}{headers}"
    value = row["value"] if row["value"] == as_json.HIDDEN else _text(row["value"])
    return f"{head}  {_text(row['key'])} -> {value}{headers}"


def _fields_text(fields: dict[str, Any] | None) -> str:
    return "".join(f" {name}={value}" for name, value in (fields or {}).items())


def _decoded_text(decoded: dict[str, Any]) -> str:
    if "error" in decoded:
        return f"cannot be decoded: {decoded['error']}"
    fields = " ".join(f"{name}={value}" for name, value in (decoded.get("key") or {}).items())
    value = decoded["value"]
    shown = "-" if value is None else " ".join(f"{name}={part}" for name, part in value.items())
    return f"{decoded['type']} {fields} -> {shown}" if fields else f"{decoded['type']} {shown}"


def _text(encoded: str | None) -> str:
    """Returns bytes as text, with unprintable characters escaped, shortened if long."""
    if encoded is None:
        return "null"
    text = base64.b64decode(encoded).decode(errors="backslashreplace")
    text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return text if len(text) <= TEXT_CHARACTERS_MAX else f"{text[:TEXT_CHARACTERS_MAX]}…"


def _when(timestamp_ms: int) -> str:
    """Returns a time in UTC, or - if there is none."""
    if not 0 <= timestamp_ms < 253_402_300_800_000:  # the first millisecond of the year 10000
        return "-" if timestamp_ms < 0 else f"{timestamp_ms} ms"
    seconds, milliseconds = divmod(timestamp_ms, 1000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{milliseconds:03d}Z"


def _verify(sources: list[PartitionFiles], output: str) -> int:
    """Checks the whole directory of a segment, and omits problems in other segments."""
    found = 0
    with progress("reading partitions", len(sources)) as bar:
        for file, position, what in _problems(sources, bar):
            found += 1
            if not show_item({"file": file, "position": position, "problem": what}, output):
                put(f"{file}{'' if position is None else f', position {position}'}: {what}")
    say(f"{counted(len(sources), 'partition')}, {counted(found, 'problem')}")
    return Exit.NO if found else Exit.OK


def _problems(
    sources: list[PartitionFiles], bar: ProgressBar
) -> Iterator[tuple[str, int | None, str]]:
    for number, source in enumerate(sources):
        bar.at(number, source.directory.name)
        is_part = len(source.segments) < len(reader.list_segments(source.directory))
        stems = {Path(segment.path).stem for segment in source.segments}
        for problem in log_verify.verify(source.directory):
            if not is_part or Path(problem.file).stem in stems:
                yield problem
