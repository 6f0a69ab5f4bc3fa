"""The output of all commands: tables for users, JSON and YAML for scripts, and the text of Kafka's tools.

stdout carries data only (`put`); everything else goes to stderr (`say`). Names and texts are chosen by clients and
peers, so characters that would move the cursor of the terminal are escaped here, for every command.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, Literal

import yaml
from cyclopts import Parameter

from trimaran.node.text.escaping import one_line, printable
from trimaran.node.text.wording import counted

_NAMES = ["-o", "--output"]
_HELP = "Format: table, wide (all columns), json, jsonl (one object per line) or yaml"
Format = Annotated[
    Literal["table", "wide", "json", "jsonl", "yaml"], Parameter(name=_NAMES, help=f"{_HELP}.")
]
KafkaFormat = Annotated[
    Literal["table", "wide", "json", "jsonl", "yaml", "kafka"],
    Parameter(name=_NAMES, help=f"{_HELP}; kafka for the text of Apache Kafka's own tool."),
]
# A table with more rows does not fit on a screen, so their number is printed, too.
ROWS_OF_A_SCREEN = 59
_is_quiet = False
_kept: list[str] | None = None


def be_quiet(quiet: bool) -> None:
    """Prints only data and errors from now on."""
    global _is_quiet  # noqa: PLW0603 - one process is one command
    _is_quiet = quiet


def is_quiet() -> bool:
    return _is_quiet


def show_rows(
    rows: Sequence[Mapping[str, Any]],
    output: str,
    *,
    columns: Sequence[str] | None = None,
    noun: str = "row",
    kafka: Callable[[], str] | None = None,
) -> None:
    """Prints rows of one shape.

    Args:
        rows: the rows, all with the same keys.
        output: the format; `kafka` only if `kafka` is given.
        columns: the columns of the table, in order; all other formats have every column.
        noun: the name of a row, for the number of rows.
        kafka: the text of Kafka's tool.
    """
    if output == "kafka" and kafka is not None:
        put(kafka())
        return
    if show_data(list(rows), output):
        return
    names = list(rows[0] if rows and output == "wide" else columns or (rows[0] if rows else ()))
    if len(rows) > ROWS_OF_A_SCREEN:
        say(counted(len(rows), noun))
    for line in aligned(rows, names):
        put(line)


def aligned(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> list[str]:
    """Returns the lines of a table, the first with the titles of the columns."""
    cells = [[title(name) for name in columns]]
    cells += [[text_of(row[name]) for name in columns] for row in rows]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in cells
    ]


def title(column: str) -> str:
    return column.upper().replace("_", "-")


def show_fields(fields: Mapping[str, Any], output: str) -> None:
    """Prints one object, one line per field."""
    if show_data(fields, output):
        return
    width = max(len(name) for name in fields)
    for name, value in fields.items():
        put(f"{name.ljust(width)}  {text_of(value)}")


def show_data(value: Any, output: str) -> bool:
    """Prints `value` if the format is for programs; otherwise returns False, and the caller prints a table."""
    if output == "json":
        show_json(value)
    elif output == "jsonl":
        for item in value if isinstance(value, list) else [value]:
            show_json_line(item)
    elif output == "yaml":
        print(_yaml(value), end="")
    else:
        return False
    return True


def show_item(value: Mapping[str, Any], output: str) -> bool:
    """Prints one object of a stream immediately, in the formats of `show_data`: as a line of JSON or a document of
    YAML.
    """
    if output == "yaml":
        print(f"---\n{_yaml(value)}", end="", flush=True)
        return True
    return show_data(value, "jsonl" if output == "json" else output)


def show_json(value: Any) -> None:
    print(json.dumps(value, indent=2, default=str))


def show_json_line(value: Any) -> None:
    """Prints one object of a stream immediately, on a line of its own."""
    print(json.dumps(value, default=str), flush=True)


def _yaml(value: Any) -> str:
    # Values of types that JSON does not have are printed as text, as in the other formats.
    plain = json.loads(json.dumps(value, default=str))
    # YAML accepts characters that reverse the direction of text in a terminal; such text is escaped to ASCII.
    harmless = json.dumps(plain, ensure_ascii=False).isprintable()
    text: str = yaml.safe_dump(plain, sort_keys=False, allow_unicode=harmless, width=1 << 20)
    return text


def clock(timestamp_ms: int) -> str:
    """Returns the local time with milliseconds."""
    seconds, milliseconds = divmod(timestamp_ms, 1000)
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds)) + f".{milliseconds:03d}"


def text_of(value: Any) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case list() | tuple():
            return ",".join(text_of(item) for item in value) or "-"
        case _:
            return one_line(str(value))


def put(text: object = "", *, flush: bool = False) -> None:
    """Prints human-readable data to stdout."""
    print(printable(str(text)), flush=flush)


def say(text: str) -> None:
    """Prints a message, as opposed to data, to stderr, except with `-q`."""
    if _is_quiet:
        return
    if _kept is None:
        complain(text)
    else:
        _kept.append(text)


@contextmanager
def kept_messages() -> Iterator[list[str]]:
    """Collects the messages of `say` within the block, instead of printing them."""
    global _kept  # noqa: PLW0603 - one process is one command
    _kept = kept = list[str]()
    try:
        yield kept
    finally:
        _kept = None


def say_unknown(unknown: str, what: str = "this") -> None:
    """Warns that the output may be stale, if there are records of a later Kafka (`MetadataState.unknown`)."""
    if unknown:
        say(f"{what} may be stale: left out {unknown}")


def complain(text: object) -> None:
    """Prints an error to stderr, even with `-q`."""
    print(printable(str(text)), file=sys.stderr, flush=True)
