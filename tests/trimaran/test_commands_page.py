"""docs/commands.md has every command with its options, as the command line declares them (`REWRITE_TRANSCRIPTS=1`)."""

import inspect
import re
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests import datadriven
from trimaran.cli.app import build
from trimaran.cli.commands import COMMANDS, NOUNS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "commands.md"
WIDTH = 118
CONNECTION = "Connection"
HEAD = """# Commands

Every command of `trimaran` with its options. `trimaran COMMAND --help` shows the same.
This page is generated: `REWRITE_TRANSCRIPTS=1 pytest tests/trimaran/test_commands_page.py`.

Every command takes `-q` (print only data and errors) and `-v` (show where an error comes from).
Commands that only read take `--watch [SECONDS]`, and run again at this interval.

Exit codes: 0 success, 1 the answer is no or something is wrong, 2 wrong usage, 3 cannot connect, 4 timeout,
5 refused by the cluster.

A command that shows several things shows those that exist, and ends with 1 if others are missing.
A command that changes several things changes none if one is missing, and ends with 5.
Only `groups delete` deletes the other groups. If nothing of that name exists, the exit code is 5.
"""


def item(argument) -> str:
    """Returns the line of an argument; a positional one has its name in capitals."""
    names = [name for name in argument.names if not _is_negative(name, argument.names)]
    if argument.index is not None:
        names = (names[0].lstrip("-").upper().replace("-", "_"),)
    shown = ", ".join(f"`{name}`" for name in names)
    notes = ["required"] if argument.required else []
    if choices := argument.get_choices():
        notes.append("one of " + ", ".join(f"`{choice}`" for choice in choices))
    default = argument.field_info.default
    if not argument.required and argument.parameter.show_default is not False:
        is_shown = default not in (None, False, (), "", inspect.Parameter.empty)
        notes += [f"default `{default}`"] if is_shown else []
    notes += [f"variable `{name}`" for name in argument.parameter.env_var or ()]
    note = f" ({', '.join(notes)})" if notes else ""
    return wrapped(f"- {shown}{note}: {one_line(argument.parameter.help or '')}")


def _is_negative(name: str, names: Sequence[str]) -> bool:
    """Returns whether a name is a negative form, which the command line does not have (`trimaran.cli.app`)."""
    return re.sub("^--(no|empty)-", "--", name) in {*names} - {name}


def one_line(text: str) -> str:
    return " ".join(text.split()).replace("<", "\\<").replace("*", "\\*").replace("|", "\\|")


def wrapped(text: str) -> str:
    return "\n".join(
        textwrap.wrap(
            text, WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
        )
    )


def arguments_of(app, words):
    for word in words:
        app = app[word]
    found = app.assemble_argument_collection(parse_docstring=True)
    return [
        argument
        for argument in found
        if argument.names != ("*",) and argument.parameter.show is not False
    ]


def is_connection(argument) -> bool:
    return CONNECTION in [group.name for group in argument.parameter.group or ()]


def page() -> Iterator[str]:
    app = build()
    commands = {words: (text, arguments_of(app, words)) for words, _, text in COMMANDS}
    shared = {
        argument.names: item(argument)
        for _, arguments in commands.values()
        for argument in arguments
        if is_connection(argument)
    }
    yield "\n## Connections\n\nCommands that connect to a cluster take these options, or some of them.\n"
    yield from shared.values()
    noun = None
    for words, (text, arguments) in commands.items():
        if words[:-1] != noun:
            noun = words[:-1]
            yield f"\n## {' '.join(noun) or 'The local cluster and records'}"
            if noun:
                yield f"\n{wrapped(one_line(NOUNS[' '.join(noun)]))}"
        yield f"\n### {' '.join(words)}\n\n{wrapped(one_line(text))}\n"
        yield from (item(argument) for argument in arguments if not is_connection(argument))
        if connected := [argument.names[0] for argument in arguments if is_connection(argument)]:
            named = ", ".join(f"`{name}`" for name in connected)
            yield wrapped(f"- Options of a [connection](#connections): {named}.")


@pytest.mark.slow(seconds=3)
def test_page_has_every_command_and_option():
    text = HEAD + "\n".join(page()) + "\n"
    if datadriven.REWRITE:
        PAGE.write_text(text)
    assert PAGE.read_text() == text
