"""A process in the background that reports the outcome of its start to the command that forked it."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from trimaran.cli.output import say
from trimaran.cli.progress import progress
from trimaran.errors import node as errors_node
from trimaran.errors.user_error import Exit, UserError
from trimaran.local import children

# The first word of the report of a process that has started.
READY = "ready"
_ERROR = "error"
# `main(report, report_fd)` runs in such a process. It calls `report` once, with a text that begins with READY or says
# why the process ends. Processes that it forks must close `report_fd`.
Main = Callable[[Callable[[str], None], int], None]


def start_in_background(log: Path, main: Main, label: str, stopping: str) -> str:
    """Forks a process in a session of its own, with its output in `log`, and returns its report; an empty one if it
    ended without any. A process that did not report READY has ended.

    Interrupting the wait stops the process, and says `stopping`. Raises the UserError that `main` raised.
    """
    reader, writer = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = 0
    try:
        with children.signals_held():
            pid = os.fork()
            if pid == 0:
                os.close(reader)
                _run(log, main, writer)
        os.close(writer)
        with os.fdopen(reader, "rb") as pipe, progress(label):
            said = pipe.read().decode()
    except BaseException:
        if pid:
            say(stopping)
            os.kill(pid, signal.SIGTERM)
            os.waitpid(pid, 0)
        raise
    if not said.startswith(READY):
        os.waitpid(pid, 0)
    if said.startswith(_ERROR):
        _, what, why, fix, code = said.splitlines()
        raise UserError(what, why, fix, exit_code=Exit(int(code)))
    return said


def _run(log: Path, main: Main, report_fd: int) -> NoReturn:
    """Runs in the forked process and never returns."""
    code = 1
    try:
        os.setsid()
        children.redirect_output(log)
        main(lambda text: _report(report_fd, text), report_fd)
        code = 0
    except BaseException as error:  # noqa: BLE001 - the last thing this process does is to say why it ends
        told = errors_node.explain(error)
        if told is not None:
            lines = (_ERROR, told.what, told.why, told.fix, str(int(told.exit_code)))
            _report(report_fd, "\n".join(" ".join(line.split()) for line in lines))
        with contextlib.suppress(OSError):  # the log may be on the full disk
            traceback.print_exc()
            sys.stderr.flush()
    finally:
        os._exit(code)


def _report(fd: int, text: str) -> None:
    with contextlib.suppress(OSError):  # the outcome was reported already, or the parent has ended
        os.write(fd, text.encode())
        os.close(fd)
