"""`metadata tree|shell`: browses the state in the metadata log as a tree."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from trimaran.cli.connect import CONTROLLERS, Controllers
from trimaran.cli.metadata_state import AsOf, At, From, load_state, load_tree
from trimaran.cli.output import complain, put, say
from trimaran.errors.user_error import Exit, UserError
from trimaran.inspect.metadata import shell as metadata_shell
from trimaran.inspect.metadata import tree as metadata_tree
from trimaran.wire.later import imported_later

if TYPE_CHECKING:
    import readline

    from trimaran.quorum.metadata.replay import MetadataState
else:
    readline = imported_later("readline")


def tree(
    name: str = "/image",
    *,
    levels: Annotated[int | None, Parameter(name=["-L", "--levels"])] = None,
    path: From = None,
    at: At = None,
    as_of: AsOf = None,
    controllers: Controllers = CONTROLLERS,
) -> int:
    """Shows everything below a path of the cluster state as a tree, with the contents of files.

    Args:
        name: The path in the tree; * and ? are wildcards.
        levels: Depth of the tree; by default all levels.
        path: A directory with a metadata log; by default that of the running quorum.
        at: Show the state after the record at this offset; by default the newest.
    """
    found = metadata_tree.lookup(load_tree(path, controllers, at, as_of), name)
    for where, node in found:
        for line in metadata_shell.tree_lines(where, node, levels):
            put(line)
    if not found:
        say(f"tree: {name}: no such file or directory")
    return Exit.OK if found else Exit.NO


def shell(
    *command: Annotated[str, Parameter(allow_leading_hyphen=True)],
    path: From = None,
    at: At = None,
    as_of: AsOf = None,
    controllers: Controllers = CONTROLLERS,
) -> int:
    """Browses the cluster state in a shell with ls, cd, cat, find, tree; at OFFSET goes to another offset.

    In a terminal it prompts for commands, and Tab completes commands and paths; otherwise it reads them from stdin, one
    per line. help lists them. Works with directories and running quorums, ours and Apache Kafka's, and with snapshots.
    Exit code 1 if a command from stdin or from the command line fails.

    Args:
        command: Run only this command, such as ls /image/topics/byName, and exit.
        path: A directory with a metadata log, or a snapshot; by default that of the running quorum.
        at: Begin with the state after the record at this offset; by default the newest.
    """

    def load(where: str) -> MetadataState:
        offset, time = _place(where)
        return load_state(path, controllers, offset, time)

    if at is not None and as_of is not None:
        load_state(path, controllers, at, as_of)  # raises the error for the two options together
    start = (
        str(at)
        if at is not None
        else f"@{as_of.removeprefix('@')}"
        if as_of
        else metadata_shell.END
    )
    session = metadata_shell.MetadataShell(load, start)
    if command:
        return _all(session, [shlex.join(command)])
    if sys.stdin.isatty():
        _talk(session)
        return Exit.OK
    return _all(session, sys.stdin)


def _place(where: str) -> tuple[int | None, str | None]:
    """Parses the argument of `at`: an offset or a time."""
    if where == metadata_shell.END:
        return None, None
    if where.startswith("@"):
        return None, where
    if not where.isdecimal():
        raise metadata_shell.ShellError(
            f"at: {where} is not an offset; write 42, @-15m, @2026-11-23T12:00 or end"
        )
    return int(where), None


def _all(session: metadata_shell.MetadataShell, lines: Iterator[str] | list[str]) -> int:
    """Runs all commands, and continues after one that fails, as Kafka's shell does."""
    code = Exit.OK
    with contextlib.suppress(metadata_shell.Leave):
        for line in lines:
            if not _done(session, line):
                code = Exit.NO
    return code


def _done(session: metadata_shell.MetadataShell, line: str) -> bool:
    try:
        for text in session.run(line):
            put(text)
    except metadata_shell.ShellError as error:
        complain(error)
        return False
    except UserError as error:
        complain(f"{error.what}: {error.why}")
        return False
    return True


def _talk(session: metadata_shell.MetadataShell) -> None:
    _complete_with(session)
    say("help lists the commands, Tab completes, Ctrl-D exits")
    with contextlib.suppress(EOFError, metadata_shell.Leave):
        while True:
            try:
                _done(session, input(f"{session.offset} {session.directory}> "))
            except KeyboardInterrupt:  # Ctrl-C ends the line that is being typed, or a long output
                put()
    put()


def _complete_with(session: metadata_shell.MetadataShell) -> None:
    """Completes with Tab; the shell also works if Python was built without readline."""
    with contextlib.suppress(ImportError):
        found: list[str] = []

        def complete(word: str, index: int) -> str | None:
            if index == 0:
                found[:] = session.completions(readline.get_line_buffer(), word)
            return found[index] if index < len(found) else None

        readline.set_completer_delims(" ")
        readline.set_completer(complete)
        readline.parse_and_bind("tab: complete")
