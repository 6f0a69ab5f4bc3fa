"""`metadata image|diff|cat|ls|find|verify`: the state that the metadata log gives, at any offset."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from trimaran.cli.connect import CONTROLLERS, Controllers
from trimaran.cli.output import Format, say, show_data, show_fields, show_rows
from trimaran.cli.progress import progress
from trimaran.errors import Exit, UserError

if TYPE_CHECKING:
    from quorum.metadata.replay import MetadataState
    from trimaran.metadata.source import MetadataSource
    from trimaran.metadata.tree import Directory

At = Annotated[int | None, Parameter(name="--at")]
AsOf = Annotated[
    str | None,
    Parameter(
        name="--as-of",
        allow_leading_hyphen=True,
        help="The state at a time: 2026-11-23T12:00, -15m or milliseconds.",
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
    """Prints the whole state: topics, configs, ACLs, quotas, features, nodes, voters.

    Works on our directories and Apache Kafka's, and on a running quorum of either. SCRAM keys and sensitive configs are
    not shown.

    Args:
        path: a controller's or broker's directory, its `__cluster_metadata-0`, a segment or a snapshot; a running
            quorum if not given.
        at: the state after the record at this offset; the newest if not given.
        output: json for everything, table for a summary.
    """
    from quorum.metadata.as_json import state_as_json

    state = load_state(path, controllers, at, as_of)
    if show_data(state_as_json(state), output):
        return
    shown = state_as_json(state)
    partitions = sum(len(topic["partitions"]) for topic in shown["topics"].values())
    counted = ("topics", "configs", "acls", "client_quotas", "scram", "brokers", "controllers")
    show_fields(
        {
            "offset": shown["offset"],
            "epoch": shown["epoch"],
            "partitions": partitions,
            **{name: len(shown[name]) for name in counted},
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
    """Shows what changed between two states. Exit code 1 if anything did.

    Args:
        before: an offset of the log of `path` (or of the running quorum), or another path, with @OFFSET behind it if
            wanted.
        after: the same.
        path: the directory whose offsets are meant; a running quorum if not given.
        output: table, or json.
    """
    from trimaran.metadata.diff import state_differences

    def state_of(side: str) -> MetadataState:
        where, at = _side(side, path)
        return load_state(where, controllers, at)

    rows = list(state_differences(state_of(before), state_of(after)))
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
    """`123` is an offset of the common source, all else a path, perhaps with @123."""
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
    """Prints files of the state's tree, such as /image/topics/byName/orders/0; * and ? match.

    Args:
        name: the path in the tree, as Apache Kafka's metadata shell names it.
        path: a directory of a metadata log; a running quorum if not given.
        at: the state after the record at this offset.
        output: the bare texts, or json for an object of texts by path.
    """
    from trimaran.metadata.tree import Directory, lookup

    found = lookup(load_tree(path, controllers, at, as_of), name)
    files = {where: node for where, node in found if not isinstance(node, Directory)}
    if not show_data(files, output):
        for text in files.values():
            print(text)
    for where, node in found:
        if isinstance(node, Directory):
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
    """Lists a directory of the state's tree, such as /image/topics/byName.

    Args:
        name: the path in the tree; * and ? match.
        path: a directory of a metadata log; a running quorum if not given.
        at: the state after the record at this offset.
        output: names a line each, or json.
    """
    from trimaran.metadata.tree import Directory, lookup

    found = lookup(load_tree(path, controllers, at, as_of), name)
    listed = {
        where: sorted(node.children) if isinstance(node, Directory) else [where.rsplit("/", 1)[-1]]
        for where, node in found
    }
    if not show_data(listed, output):
        for where, names in listed.items():
            if len(listed) > 1:
                print(f"{where}:")
            for one in names:
                print(one)
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
    """Lists everything below a path of the state's tree, a full path a line.

    Args:
        name: the path in the tree; * and ? match.
        path: a directory of a metadata log; a running quorum if not given.
        at: the state after the record at this offset.
    """
    from trimaran.metadata.tree import lookup, walk

    found = lookup(load_tree(path, controllers, at, as_of), name)
    for where, node in found:
        for below, _ in walk(where, node):
            print(below)
    if not found:
        say(f"find: {name}: no such file or directory.")
    return Exit.OK if found else Exit.NO


def load_state(
    path: Path | None, controllers: Controllers, at: int | None, as_of: str | None = None
) -> MetadataState:
    """The state at an offset, or as of a time; the newest when neither is given. Raises UserError."""
    from trimaran.cli.metadata_source import open_source
    from trimaran.client.positions import parse_time_ms
    from trimaran.metadata.source import offset_as_of, replay

    if at is not None and as_of is not None:
        raise UserError(
            "--at and --as-of both say which state",
            "one is an offset, the other a time",
            "give one of them",
            exit_code=Exit.USAGE,
        )
    time_ms = None if as_of is None else parse_time_ms(as_of.removeprefix("@"))
    with open_source(path, controllers) as source, _damage_of(source):
        if time_ms is not None:
            at = offset_as_of(source, time_ms)
        state = replay(source, at)
    if state.unknown_records:
        say(f"{state.unknown_records} records of a later Kafka are not understood and left out")
    return state


@contextmanager
def _damage_of(source: MetadataSource) -> Iterator[None]:
    from wire.errors import RemoteProtocolError

    try:
        yield
    except RemoteProtocolError as error:
        raise UserError(
            f"{source.name} is damaged",
            str(error),
            "try another controller's directory: trimaran metadata verify DIR… compares them",
        ) from error


def load_tree(
    path: Path | None, controllers: Controllers, at: int | None, as_of: str | None
) -> Directory:
    """The same as a tree."""
    from trimaran.metadata.tree import image_tree

    return image_tree(load_state(path, controllers, at, as_of).image)


def verify(*directories: Path, output: Format = "table") -> int:
    """Compares the metadata logs of several controllers: equal offset and epoch must mean equal bytes.

    Also checks every batch's checksum, that offsets and epochs ascend without a gap, and that each snapshot is what the
    log says up to it. Exit code 1 if anything is wrong. Copies of a running quorum's directories may end at different
    offsets; that is not wrong.

    Args:
        directories: directories of controllers (or brokers), ours or Apache Kafka's.
        output: table, or json.
    """
    from trimaran.metadata.verify import verify_directories

    if not directories:
        raise UserError(
            "nothing to verify",
            "no directory was given",
            "name at least one: trimaran metadata verify .trimaran/controller-1 .trimaran/controller-2",
            exit_code=Exit.USAGE,
        )
    with progress(f"comparing {len(directories)} metadata logs"):
        result = verify_directories(directories)
    if not show_data({"logs": result.logs, "problems": result.problems}, output):
        show_rows(result.logs, output)
        for problem in result.problems:
            print(f"\n{problem['problem']}: {problem['where']}")
        print(f"\n{result.compared} batches compared, {len(result.problems)} problems")
    return Exit.NO if result.problems else Exit.OK
