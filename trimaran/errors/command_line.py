"""Errors for invalid command lines: the wrong word, the reason, and the help that explains it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cyclopts import CoercionError, CycloptsError, MissingArgumentError, UnknownCommandError
from cyclopts.exceptions import UnknownOptionError, UnusedCliTokensError, ValidationError

from trimaran.errors import kafka_words
from trimaran.errors.similar import did_you_mean, of_same_action
from trimaran.errors.user_error import Exit, UserError

if TYPE_CHECKING:
    from cyclopts import App, Argument

# The expected kinds of values, in the words of the parser and in ours.
_KINDS = {"int": "a whole number", "float": "a number"}


def of_command_line(error: CycloptsError) -> UserError:
    """Returns the error of the parser in three lines."""
    words = " ".join(error.command_chain or ())
    command = f"trimaran {words}" if words else "trimaran"
    if isinstance(error, UnknownCommandError):
        return _unknown_command(error, words, command)
    own = _options(error.app)
    for token in error.root_input_tokens or ():
        flag = token.partition("=")[0]
        if flag not in own and (answer := kafka_words.answer(words, flag)) is not None:
            what = f"{command} has no option {flag}"
            return UserError(what, "it is a flag of Kafka's tools", answer, exit_code=Exit.USAGE)
    what, why = _explained(error, command)
    return UserError(what, why, f"{command} --help explains it", exit_code=Exit.USAGE)


def _explained(error: CycloptsError, command: str) -> tuple[str, str]:
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


def _unknown_command(error: UnknownCommandError, words: str, command: str) -> UserError:
    """Returns the error of a word that is not a command. A tool or a command of Kafka comes first: the word may be
    spelled like a command here that does something else.
    """
    word, *rest = error.unused_tokens or ["?"]
    is_flag = word.startswith("-")
    what = f"{command} has no option {word}" if is_flag else f"there is no command {command} {word}"
    if not words:
        why, use = "it is one of Kafka's tools", kafka_words.answer_for_tool(word, rest)
    elif is_flag:
        told = kafka_words.answers(words, [word, *rest])
        why, use = "it is a flag of Kafka's tools", told[0] if told else None
    else:
        why, use = "it is a command of Kafka's tools", kafka_words.answer(words, word)
    if use is not None:
        return UserError(what, why, use, exit_code=Exit.USAGE)
    known = _commands(error.app)
    why = (
        of_same_action(word, known)
        or did_you_mean(word, known)
        or f"the commands are {', '.join(known)}"
    )
    return UserError(what, why, f"{command} --help explains it", exit_code=Exit.USAGE)


def _commands(app: App | None) -> list[str]:
    return [name for name in app or () if not name.startswith("-")]


def _options(app: App | None) -> set[str]:
    """Returns the names of the options of a command; none for a noun, which only has commands."""
    if app is None or app.default_command is None:
        return set()
    return {name for argument in app.assemble_argument_collection() for name in argument.names}


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
    return f"{command} has no option {word}", did_you_mean(
        word, longer
    ) or "no option has a similar name"


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
