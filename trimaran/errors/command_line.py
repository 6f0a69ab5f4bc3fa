"""Errors for invalid command lines: the wrong word, the reason, and the help that explains it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cyclopts import CoercionError, CycloptsError, MissingArgumentError, UnknownCommandError
from cyclopts.exceptions import UnknownOptionError, UnusedCliTokensError, ValidationError

from trimaran.errors.user_error import Exit, UserError

if TYPE_CHECKING:
    from cyclopts import App, Argument

# the cutoff of difflib: `--partitons` is --partitions, but `--nope` is not --property
_SIMILAR = 0.7
# The expected kinds of values, in the words of the parser and in ours.
_KINDS = {"int": "a whole number", "float": "a number"}


def of_command_line(error: CycloptsError) -> UserError:
    """Returns the error of the parser in three lines."""
    command = " ".join(["trimaran", *(error.command_chain or ())])
    what, why = _said(error, command)
    return UserError(what, why, f"{command} --help explains it", exit_code=Exit.USAGE)


def _said(error: CycloptsError, command: str) -> tuple[str, str]:
    if isinstance(error, UnknownCommandError):
        return _unknown_command(error, command)
    if isinstance(error, UnknownOptionError):
        return _unknown_option(error, command)
    if isinstance(error, UnusedCliTokensError):
        words = " ".join(error.unused_tokens or ())
        return (
            f"{command} does not take {words!r}",
            "that is one argument too many, or the name of an option is missing",
        )
    if isinstance(error, MissingArgumentError):
        return _missing(error, command)
    if isinstance(error, CoercionError | ValidationError):
        return _wrong_value(error, command)
    error.verbose = False
    return f"cannot run {command} like this", " ".join(str(error).split())


def _unknown_command(error: UnknownCommandError, command: str) -> tuple[str, str]:
    word = (error.unused_tokens or ["?"])[0]
    known = _commands(error.app)
    why = _similar(word, known) or f"the commands are {', '.join(known)}"
    return f"there is no command {command} {word}", why


def _commands(app: App | None) -> list[str]:
    return [name for name in app or () if not name.startswith("-")]


def _unknown_option(error: UnknownOptionError, command: str) -> tuple[str, str]:
    word = error.token.keyword or error.token.value
    options = [
        name
        for option in error.argument_collection
        for name in option.names
        if name.startswith("-")
    ]
    swapped = word.swapcase()
    if swapped in options:
        return f"{command} has no option {word}", f"did you mean {swapped}?"
    longer = [name for name in options if name.startswith("--")]
    return f"{command} has no option {word}", _similar(
        word, longer
    ) or "no option has a similar name"


def _similar(word: str, known: Sequence[str]) -> str | None:
    found = difflib.get_close_matches(word, known, n=1, cutoff=_SIMILAR)
    return f"did you mean {found[0]}?" if found else None


def _missing(error: MissingArgumentError, command: str) -> tuple[str, str]:
    argument = error.argument
    assert argument is not None
    if error.keyword is not None:
        return f"{error.keyword} has no value", "write it after a space or ="
    name = _name_of(argument)
    if name.startswith("-"):
        return f"{command} needs {name}", "this option has no default"
    return f"{command} needs {name}", "it is an argument without a default"


def _name_of(argument: Argument) -> str:
    """Returns `NAME` for a positional argument, else the longest name of the option."""
    if argument.field_info.is_positional:
        return argument.name.lstrip("-").upper()
    return max(argument.names, key=len)


def _wrong_value(error: CoercionError | ValidationError, command: str) -> tuple[str, str]:
    argument = error.argument
    if argument is None or not argument.tokens:
        error.verbose = False
        return f"cannot run {command} like this", " ".join(str(error).split())
    token = argument.tokens[-1]
    name = token.keyword or _name_of(argument)
    where = "" if token.source in ("", "cli") else f" (from {token.source})"
    return f"{name} cannot be {token.value!r}{where}", _why_wrong(error)


def _why_wrong(error: CoercionError | ValidationError) -> str:
    if isinstance(error, ValidationError):
        return f"it {_lowered(error.exception_message)}"
    error.verbose = False
    text = " ".join(str(error).split())
    if kind := re.search(r'unable to convert ".*" into (\w+)', text):
        return f"it is not {_KINDS.get(kind[1], kind[1])}"
    choices = re.search(r"Choose from: (.*?)\.?$", text)
    return f"it must be one of {choices[1].replace(chr(34), '')}" if choices else text


def _lowered(text: str) -> str:
    """Changes a text such as `Must be >= 1.` for the middle of a sentence."""
    plain = text[:1].lower() + text[1:].removesuffix(".") if text else "does not fit"
    return (
        plain.replace("must be >= ", "must be at least ")
        .replace("must be > ", "must be more than ")
        .replace("must be <= ", "must be at most ")
    )
