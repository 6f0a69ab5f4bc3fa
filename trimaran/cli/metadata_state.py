"""`metadata image|diff|cat|ls|find|verify`: the state in the metadata log at any offset."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from trimaran.cli.connect import CONTROLLERS, Controllers
from trimaran.cli.metadata_source import open_source
from trimaran.cli.output import Format, put, say, say_unknown, show_data, show_fields, show_rows
from trimaran.cli.progress import progress
from trimaran.client import positions
from trimaran.errors.user_error import Exit, UserError
from trimaran.inspect.metadata import diff as metadata_diff
from trimaran.inspect.metadata import source as metadata_source
from trimaran.inspect.metadata import tree as metadata_tree
from trimaran.inspect.metadata import verify as metadata_verify
from trimaran.node.text.wording import counted
from trimaran.quorum.metadata import as_json
from trimaran.wire import errors
from trimaran.wire.identity import Offset

if TYPE_CHECKING:
    from trimaran.inspect.metadata.source import MetadataSource
    from trimaran.quorum.metadata.replay import MetadataState

At = Annotated[int | None, Parameter(name="--at")]
AsOf = Annotated[
    str | None,
    Parameter(
        name="--as-of",
        allow_leading_hyphen=True,
        help="Show the state at a time: 2026-11-23T12:00, -15m (15 minutes ago) or milliseconds since 1970.",
    ),
]
From = Annotated[Path | None, Parameter(name=["-p", "--path"])]


def image(
    path: Path | None = None,
    *,
    at: At = None,
    as_of: AsOf = None,
    controllers: Controllers = CONTROLLERS,
    output: Format = "json",
) -> None:
    """Prints the whole cluster state: topics, configs, ACLs, quotas, features, nodes, voters.

    Works with directories and running quorums, ours and Apache Kafka's. A table is only a summary. SCRAM keys
    and sensitive configs are not shown.

    Args:
        path: A controller's or broker's directory, its __cluster_metadata-0, a segment or a snapshot; by default the
        running quorum.
        at: Show the state after the record at this offset; by default the newest.
    """
    state = load_state(path, controllers, at, as_of)
    if show_data(as_json.state_as_json(state), output):
        return
    shown = as_json.state_as_json(state)
    partitions = sum(len(topic["partitions"]) for topic in shown["topics"].values())
    listed = ("topics", "configs", "acls", "client_quotas", "scram", "brokers", "controllers")
    show_fields(
        {
            "offset": shown["offset"],
            "epoch": shown["epoch"],
            "partitions": partitions,
            **{name: len(shown[name]) for name in listed},
            "features": " ".join(f"{name}={level}" for name, level in shown["features"].items()),
            "voters": [voter["voter_id"] for voter in shown["voters"]],
        },
        output,
    )


def diff(
    before: str,
    after: str,
    *,
    path: From = None,
    controllers: Controllers = CONTROLLERS,
    output: Format = "table",
) -> int:
    """Shows the differences between two states. Exit code 1 if there are any.

    Args:
        before: An offset of the metadata log of --path; or another directory, as DIR or DIR@OFFSET.
        after: The same for the second state.
        path: The directory whose offsets are meant; by default the running quorum.
    """

    def state_of(side: str) -> MetadataState:
        where, at = _side(side, path)
        return load_state(where, controllers, at, what=f"the state {side}")

    rows = list(metadata_diff.state_differences(state_of(before), state_of(after)))
    if not show_data(rows, output):
        texts = [{name: _short(value) for name, value in row.items()} for row in rows]
        show_rows(texts, output, columns=("path", "change", "before", "after"))
    return Exit.NO if rows else Exit.OK


TEXT_MAX = 60


def _short(value: Any) -> str:
    if value is None:
        return "-"
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= TEXT_MAX else f"{text[: TEXT_MAX - 1]}…"


def _side(text: str, path: Path | None) -> tuple[Path | None, int | None]:
    """Parses a side: `123` is an offset in the common source; anything else is a path, optionally with @123."""
    if text.isdecimal() and not Path(text).exists():
        return path, int(text)
    where, sign, offset = text.rpartition("@")
    if sign and offset.isdecimal():
        return Path(where), int(offset)
    return Path(text), None


def cat(
    name: str,
    *,
    path: From = None,
    at: At = None,
    as_of: AsOf = None,
    controllers: Controllers = CONTROLLERS,
    output: Format = "table",
) -> int:
    """Prints files of the cluster state, such as /image/topics/byName/orders/0.

    Args:
        name: The path in the tree, as in Apache Kafka's metadata shell; * and ? are wildcards.
        path: A directory with a metadata log; by default that of the running quorum.
        at: Show the state after the record at this offset; by default the newest.
    """
    found = metadata_tree.lookup(load_tree(path, controllers, at, as_of), name)
    files = {where: node for where, node in found if not isinstance(node, metadata_tree.Directory)}
    if not show_data(files, output):
        for text in files.values():
            put(text)
    for where, node in found:
        if isinstance(node, metadata_tree.Directory):
            say(f"cat: {where}: Is a directory")
    if not found:
        say(f"cat: {name}: No such file or directory.")
    return Exit.OK if files else Exit.NO


def ls(
    name: str = "/",
    *,
    path: From = None,
    at: At = None,
    as_of: AsOf = None,
    controllers: Controllers = CONTROLLERS,
    output: Format = "table",
) -> int:
    """Lists a directory of the cluster state, such as /image/topics/byName.

    Args:
        name: The path in the tree; * and ? are wildcards.
        path: A directory with a metadata log; by default that of the running quorum.
        at: Show the state after the record at this offset; by default the newest.
    """
    found = metadata_tree.lookup(load_tree(path, controllers, at, as_of), name)
    listed = {
        where: sorted(node.children)
        if isinstance(node, metadata_tree.Directory)
        else [where.rsplit("/", 1)[-1]]
        for where, node in found
    }
    if not show_data(listed, output):
        for where, names in listed.items():
            if len(listed) > 1:
                put(f"{where}:")
            for each_name in names:
                put(each_name)
    if not found:
        say(f"ls: {name}: no such file or directory.")
    return Exit.OK if found else Exit.NO


def find(
    name: str = "/",
    *,
    path: From = None,
    at: At = None,
    as_of: AsOf = None,
    controllers: Controllers = CONTROLLERS,
) -> int:
    """Lists everything below a path of the cluster state, one full path per line.

    Args:
        name: The path in the tree; * and ? are wildcards.
        path: A directory with a metadata log; by default that of the running quorum.
        at: Show the state after the record at this offset; by default the newest.
    """
    found = metadata_tree.lookup(load_tree(path, controllers, at, as_of), name)
    for where, node in found:
        for below, _ in metadata_tree.walk(where, node):
            put(below)
    if not found:
        say(f"find: {name}: no such file or directory.")
    return Exit.OK if found else Exit.NO


def load_state(
    path: Path | None,
    controllers: Controllers,
    at: int | None,
    as_of: str | None = None,
    *,
    what: str = "this",
) -> MetadataState:
    """Returns the state at an offset or at a time; by default the newest. Raises UserError.

    Warns that `what` may be stale if records of a later Kafka were skipped.
    """
    if at is not None and as_of is not None:
        raise UserError(
            "--at and --as-of cannot be combined",
            "one is an offset, the other a time",
            "give one of them",
            exit_code=Exit.USAGE,
        )
    time_ms = None if as_of is None else positions.parse_time_ms(as_of.removeprefix("@"))
    with open_source(path, controllers) as source, _damage_of(source):
        if time_ms is not None:
            at = metadata_source.offset_as_of(source, time_ms)
        state = metadata_source.replay(source, None if at is None else Offset(at))
    say_unknown(state.unknown, what)
    return state


@contextmanager
def _damage_of(source: MetadataSource) -> Iterator[None]:
    try:
        yield
    except errors.RemoteProtocolError as error:
        raise UserError(
            f"{source.name} is damaged",
            str(error),
            "try another controller's directory: trimaran metadata verify DIR… compares them",
        ) from error


def load_tree(
    path: Path | None, controllers: Controllers, at: int | None, as_of: str | None
) -> metadata_tree.Directory:
    """Returns the same state as a tree."""
    return metadata_tree.image_tree(load_state(path, controllers, at, as_of).image)


def verify(*directories: Path, output: Format = "table") -> int:
    """Compares the metadata logs of several controllers: same offset and epoch must mean same bytes.

    Also checks the checksum of every batch, that offsets and epochs ascend without a gap, and that each snapshot equals
    the replayed log. Exit code 1 if it finds a problem. Copies of a running quorum's directories may end at different
    offsets; that is no problem.

    Args:
        directories: Directories of controllers (or brokers), ours or Apache Kafka's.
    """
    if not directories:
        raise UserError(
            "nothing to verify",
            "no directory was given",
            "name at least one: trimaran metadata verify .trimaran/controller-1 .trimaran/controller-2",
            exit_code=Exit.USAGE,
        )
    with progress(f"comparing {counted(len(directories), 'metadata log')}"):
        result = metadata_verify.verify_directories(directories)
    if not show_data(
        {"logs": result.logs, "problems": result.problems, "unknown_records": result.unknown.count},
        output,
    ):
        show_rows(result.logs, output)
        for problem in result.problems:
            put(f"\n{problem['problem']}: {problem['where']}")
        put(f"\n{result.compared:,} batches compared, {counted(len(result.problems), 'problem')}")
    say_unknown(result.unknown.text)
    return Exit.NO if result.problems else Exit.OK
