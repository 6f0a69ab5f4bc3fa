"""`trimaran`: builds the tree of commands and runs one. The modules of a command are imported when it is called."""

from __future__ import annotations

import errno
import os
import signal
import sys
import traceback

from cyclopts import App, CycloptsError, Parameter

from trimaran.cli import global_options
from trimaran.cli.commands import (
    COMMANDS,
    EXPLAIN_FAILURE,
    EXPLAIN_MISTAKE,
    NOUNS,
    OWN_VERSION,
    function_of,
)
from trimaran.cli.deferred import imports_deferred
from trimaran.cli.output import be_quiet, complain
from trimaran.errors.user_error import Exit, UserError

# The errors of a path on the command line that is mistyped, or belongs to another user.
_WRONG_PATH = (errno.ENOENT, errno.EACCES, errno.EPERM, errno.EISDIR, errno.ENOTDIR)
INTERRUPTED = 130  # 128 + SIGINT, the convention of shells
EPILOGUE = (
    "Every command takes -q (print only data and errors) and -v (show where an error comes from). "
    "Commands that only read take --watch [SECONDS]: run again at this interval.\n\n"
    "Exit codes: 0 success, 1 the answer is no or something is wrong, 2 wrong usage, 3 cannot connect, 4 timeout, "
    "5 refused by the cluster."
)


def build(called: tuple[str, ...] = (), first: str = "") -> App:
    """Builds the tree of all commands, or only of the commands that begin with the word `first`, if there are any.

    `called` is the command to run: its help is its whole docstring. The help of each other command is one line, so that
    its module need not be imported; it is plain text, since the parser of paragraphs would take a third of the start-up
    time.
    """
    app = App(
        name="trimaran",
        help="A Kafka-compatible broker with a KRaft quorum, a ZooKeeper mirror and Spark sources.",
        help_epilogue=EPILOGUE,
        help_format="markdown" if called else "plaintext",
        # A switch has only a positive form, and a list has no option that sets it to an empty list.
        default_parameter=Parameter(negative=(), show_default=_default_in_words),
        version=_version,
        version_flags=["--version"],
    )
    commands = [row for row in COMMANDS if row[0][0] == first] or COMMANDS
    nouns: dict[tuple[str, ...], App] = {(): app}
    for name, text in NOUNS.items():
        path = tuple(name.split())
        if commands is COMMANDS or path[0] == first:
            nouns[path] = App(name=path[-1], help=text)
    for words, where, text in commands:
        nouns[words[:-1]].command(where, name=words[-1], help=None if words == called else text)
    for path, noun in nouns.items():
        if path:
            nouns[path[:-1]].command(noun)
    return app


def _default_in_words(value: object) -> str | None:
    """Returns the default for the help; None for a switch that is off, an empty list and no value."""
    return None if value is None or value is False or value in ((), "") else str(value)


def _version() -> str:
    return str(function_of(OWN_VERSION)())


def _exit_by(number: int, _frame: object) -> None:
    sys.exit(128 + number)


def _end_like_ctrl_c() -> None:
    """Makes SIGTERM and SIGHUP raise an exception, as Ctrl-C does, so that the processes of a command end with it;
    respects nohup.

    Servers have their own handlers.
    """
    signal.signal(signal.SIGTERM, _exit_by)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, _exit_by)


def run(arguments: list[str] | None = None) -> None:
    """Runs a command and exits with its code; a `UserError` is shown in three lines."""
    _end_like_ctrl_c()
    is_verbose = False
    try:
        options = global_options.take(sys.argv[1:] if arguments is None else arguments)
        is_verbose = options.verbose
        be_quiet(options.quiet)
        result = global_options.watched(lambda: _call(options.rest), options.watch)
    except UserError as error:
        if is_verbose:
            traceback.print_exception(error)
        sys.exit(_show(error))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(Exit.OK)
    except Exception as error:
        if isinstance(error, CycloptsError):
            sys.exit(_show(function_of(EXPLAIN_MISTAKE)(error)))
        if is_verbose:
            raise
        sys.exit(_show(_unforeseen(error)))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    sys.exit(result if isinstance(result, int) else Exit.OK)


def _call(arguments: list[str]) -> object:
    app = build(global_options.command_of(arguments), arguments[0] if arguments else "")
    with imports_deferred():
        command, given, _ = app.parse_args(arguments, exit_on_error=False, print_error=False)
    return command(*given.args, **given.kwargs)


def _unforeseen(error: Exception) -> UserError:
    """Returns the error for failures that no command handles: refusals of the operating system, and our bugs."""
    if isinstance(error, OSError) and error.errno in _WRONG_PATH and error.filename is not None:
        return UserError(
            f"cannot use {error.filename}",
            error.strerror or str(error),
            "name a path that exists and that this user may use",
            exit_code=Exit.USAGE,
        )
    explained: UserError | None = function_of(EXPLAIN_FAILURE)(error)
    return explained or UserError(
        f"trimaran failed: {type(error).__name__}",
        " ".join(str(error).split()) or "no further details",
        "this is a bug in trimaran: please report it, with what -v shows",
    )


def _show(error: UserError) -> int:
    complain(error)
    return error.exit_code
