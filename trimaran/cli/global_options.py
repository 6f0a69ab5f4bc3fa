"""Options that may be anywhere on a command line: `-q`, `-v`, and for commands that only read `--watch [SECONDS]`."""

from __future__ import annotations

import contextlib
import io
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from trimaran.cli.commands import COMMANDS, WATCHED
from trimaran.cli.output import complain, kept_messages, say
from trimaran.errors.user_error import Exit, UserError

WATCH_SECONDS = 2.0
WATCH_SECONDS_MIN = 0.1  # a shorter interval would only load the cluster
_CLEAR = "\x1b[H\x1b[2J\x1b[3J"
_WORDS = frozenset(words for words, _, _ in COMMANDS)


@dataclass(frozen=True)
class Options:
    """The global options of a command line, and the rest of it."""

    rest: list[str]
    quiet: bool = False
    verbose: bool = False
    watch: float | None = None  # seconds between two runs


def take(arguments: list[str]) -> Options:
    """Takes the global options out of the words, except after `--`. Raises UserError for a `--watch` with an invalid
    number.
    """
    end = arguments.index("--") if "--" in arguments else len(arguments)
    words, rest = arguments[:end], arguments[end:]
    quiet, verbose = (bool({short, long} & set(words)) for short, long in _SWITCHES)
    kept = [word for word in words if not any(word in names for names in _SWITCHES)]
    kept, watch = _take_watch(kept)
    if watch is not None and command_of(kept) not in WATCHED:
        # The command has its own way of repeating, or the parser refuses the option by name.
        kept, watch = [*kept, f"--watch={watch:g}"], None
    return Options(kept + rest, quiet, verbose, watch)


_SWITCHES = (("-q", "--quiet"), ("-v", "--verbose"))


def command_of(words: list[str]) -> tuple[str, ...]:
    """Returns the longest command with which the words begin."""
    return next((tuple(words[:n]) for n in (3, 2, 1) if tuple(words[:n]) in _WORDS), ())


def _take_watch(words: list[str]) -> tuple[list[str], float | None]:
    for index, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name != "--watch":
            continue
        follows = words[index + 1 : index + 2]
        if not equals and follows and _is_number(follows[0]):
            return words[:index] + words[index + 2 :], _seconds(follows[0])
        return words[:index] + words[index + 1 :], _seconds(value) if equals else WATCH_SECONDS
    return words, None


def _is_number(text: str) -> bool:
    try:
        return float(text) >= 0
    except ValueError:
        return False


def _seconds(text: str) -> float:
    if not _is_number(text):
        raise UserError(
            f"--watch={text} is not a number of seconds",
            "it is written --watch, --watch 5 or --watch=0.5",
            f"without a number it is {WATCH_SECONDS:g}",
            exit_code=Exit.USAGE,
        )
    return max(WATCH_SECONDS_MIN, float(text))


def watched(run: Callable[[], object], seconds: float | None, *, until_ok: bool = False) -> object:
    """Runs the command once, or repeatedly until Ctrl-C: on a terminal each output replaces the last one, otherwise it
    follows.

    A missing response of the cluster is reported, and the command runs again. With `until_ok` it ends with exit code
    0. A message that the last run had, too, is not repeated, unless the terminal was cleared.
    """
    if seconds is None:
        return run()
    is_first, said = True, list[str]()
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            began = time.monotonic()
            with kept_messages() as messages:
                text, code, failure = _captured(run)
            if failure is not None and (
                (is_first and not until_ok) or failure.exit_code == Exit.USAGE
            ):
                _say_each(messages)
                raise failure
            if sys.stdout.isatty():
                said = []
                sys.stdout.write(
                    f"{_CLEAR}every {seconds:g} s, Ctrl-C ends   {time.strftime('%X')}\n\n"
                )
            elif not is_first and not text.startswith(("{", "[", "---")):
                sys.stdout.write("\n")
            sys.stdout.write(text)
            sys.stdout.flush()
            _say_each(message for message in messages if message not in said)
            said = messages
            if failure is not None:
                complain(failure)
            elif until_ok and code == Exit.OK:
                break
            is_first = False
            time.sleep(max(0.0, began + seconds - time.monotonic()))
    return Exit.OK


def _say_each(messages: Iterable[str]) -> None:
    for message in messages:
        say(message)


def _captured(run: Callable[[], object]) -> tuple[str, object, UserError | None]:
    """Captures the output, to show it as a whole: half a screen would flicker."""
    text = io.StringIO()
    try:
        with contextlib.redirect_stdout(text):
            code = run()
    except UserError as error:
        return text.getvalue(), error.exit_code, error
    return text.getvalue(), code, None
