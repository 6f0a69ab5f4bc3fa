"""`metadata dump|tail`: the records of the metadata log, from files or from a running quorum."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from trimaran.cli.connect import CONTROLLERS, DEFAULT_DATA, Controllers, Data
from trimaran.cli.output import Format, put, show_item, text_of
from trimaran.cli.progress import progress
from trimaran.client import offsets, positions
from trimaran.errors.user_error import Exit, UserError
from trimaran.inspect.metadata import live_quorum, records
from trimaran.local import state_file
from trimaran.log.inspection import reader
from trimaran.quorum.raft_log import partition
from trimaran.wire.identity import Offset

if TYPE_CHECKING:
    from trimaran.wire.blocking import BlockingClient


def dump(
    path: Path | None = None,
    *,
    kind: Annotated[list[str] | None, Parameter(name="--type")] = None,
    data: Data = DEFAULT_DATA,
    output: Format = "table",
) -> None:
    """Prints the records of a metadata log on disk.

    Args:
        path: A segment, a snapshot, a __cluster_metadata-0 directory or a node's directory; by default that of the
            first controller of the local cluster.
        kind: Only records of this type, such as TopicRecord. May be repeated.
    """
    files = _files(path or _first_controller(data))
    with progress("reading segments", len(files), prints=True) as bar:
        for number, file in enumerate(files):
            bar.at(number, file.name)
            _print(_records_of_file(file), kind, output)


def _first_controller(data: Path) -> Path:
    state = state_file.read(data)
    return Path(next(n.dir for n in state.nodes if n.role == "controller"))


def _files(path: Path) -> list[Path]:
    """Returns the segments in the order of their offsets, or the single file."""
    if path.suffix in (".log", ".checkpoint") and path.is_file():
        return [path]

    folder = path / partition.DIRECTORY_NAME if (path / partition.DIRECTORY_NAME).is_dir() else path
    files = sorted(folder.glob("*.log"))
    if not files:
        raise UserError(
            f"no metadata log in {path}",
            f"there is no .log file in {folder}"
            if folder.is_dir()
            else "it is neither a directory nor a .log or .checkpoint file",
            "name a controller's directory, or a .log or .checkpoint file",
            exit_code=Exit.USAGE,
        )
    return files


def _records_of_file(file: Path) -> Iterator[dict[str, Any]]:
    for _, batch in reader.scan_batches(file):
        yield from records.record_rows(batch)


def _print(rows: Iterable[dict[str, Any]], kinds: list[str] | None, output: str) -> None:
    for row in rows:
        if kinds and row["type"] not in kinds:
            continue
        if show_item(row, output):
            continue
        when = time.strftime("%H:%M:%S", time.localtime(row["timestamp_ms"] / 1000))
        fields = " ".join(
            f"{name}={text_of(value)}"
            for name, value in row["payload"].items()
            if value is not None
        )
        put(
            f"{row['offset']:>8} {row['epoch']:>4} {when}  {row['type']:<28} {fields}".rstrip(),
            flush=True,
        )


def tail(
    *,
    follow: Annotated[bool, Parameter(name=["-f", "--follow"])] = False,
    start: str = "0",
    kind: Annotated[list[str] | None, Parameter(name="--type")] = None,
    every: Annotated[bool, Parameter(name=["-a", "--all"], negative=())] = False,
    controllers: Controllers = CONTROLLERS,
    output: Format = "table",
) -> None:
    """Prints the committed records of a running quorum, ours or Apache Kafka's.

    Args:
        follow: Wait for more records until Ctrl-C; by default stop at the high watermark.
        start: The first offset, or end, -10 (ten before the end), @2026-11-23T12:00, @-15m. If it is older than the
            log, the oldest record that is kept comes first.
        kind: Only records of this type, such as TopicRecord. May be repeated.
        every: Also print NoOpRecords, of which the leader writes two per second.
    """
    with controllers.connected() as client:
        rows = _committed(client, positions.parse_position(start), follow=follow)
        hidden = () if every or kind else ("NoOpRecord",)
        _print((row for row in rows if row["type"] not in hidden), kind, output)


def _committed(
    client: BlockingClient, start: positions.Position, *, follow: bool
) -> Iterator[dict[str, Any]]:
    quorum = live_quorum.LiveSource(client, "the quorum")
    offset, since_ms = start.offset or Offset(0), start.timestamp_ms or 0
    if start.before_end is not None or since_ms == offsets.LATEST_TIMESTAMP:
        offset = max(Offset(0), quorum.high_watermark() - (start.before_end or 0))
    for batch in quorum.batches(offset, follow=follow):
        for row in records.record_rows(batch):
            if row["offset"] >= offset and row["timestamp_ms"] >= since_ms:
                yield row
