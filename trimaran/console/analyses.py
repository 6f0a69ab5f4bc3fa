"""Analyses of the logs, one at a time, each in its own process: `trimaran analyze`; a page shows its report.

An analysis may need a JVM with some hundred megabytes, and reading files of other programs may fail: neither may affect
this process.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import trio

from trimaran.errors.user_error import Exit, UserError

# Each takes seconds on the logs of a local cluster; longer ones should be run on the command line.
RUN_SECONDS_MAX = 600.0
OUTPUT_CHARACTERS_MAX = 2_000
FOLDER, INDEX = "report", "index.html"


@dataclass(frozen=True, slots=True)
class AnalysisRun:
    """A run of an analysis; `failed` is the end of the command's output after a failure, otherwise empty."""

    name: str
    seconds: float
    is_over: bool
    failed: str


def command_of(data: Path, name: str) -> Sequence[str]:
    """Returns the command that writes the report of one analysis."""
    words = ("analyze", name, "--data", str(data), "--html", str(report_of(data, name).parent))
    return (sys.executable, "-m", "trimaran", *words)


def report_of(data: Path, name: str) -> Path:
    """Returns the page of one analysis; for an empty name that of the last `trimaran analyze`."""
    return data / FOLDER / name / INDEX


def is_installed() -> bool:
    return find_spec("pyspark") is not None and find_spec("plotly") is not None


class Analyses:
    """Runs the requested analyses while `serve` runs. Used on the event loop; `last` also by threads.

    `data` is the directory of a local cluster, None if there is none.
    """

    def __init__(
        self,
        data: Path | None,
        command: Callable[[Path, str], Sequence[str]] = command_of,
    ) -> None:
        self._data = data
        self._command = command
        self._name, self._started, self._ended, self._failed = "", 0.0, 0.0, ""
        # The channel has no buffer: a request while an analysis runs is refused.
        self._send, self._receive = trio.open_memory_channel[str](0)

    def last(self) -> AnalysisRun | None:
        """Returns the running analysis, or the last one."""
        if not self._name:
            return None
        is_over = self._ended >= self._started
        end = self._ended if is_over else time.monotonic()
        return AnalysisRun(
            self._name, end - self._started, is_over, self._failed if is_over else ""
        )

    def start(self, name: str) -> None:
        """Starts an analysis. Raises UserError if it is impossible, or another one runs."""
        if why := why_not(self._data):
            raise why
        try:
            self._send.send_nowait(name)
        except trio.WouldBlock:
            raise UserError(
                f"{name} was not started",
                f"{self._name} is running, and only one runs at a time",
                "wait until it is done",
                exit_code=Exit.USAGE,
            ) from None

    async def serve(self) -> None:
        """Runs requested analyses until it is cancelled, which ends the running one."""
        async for name in self._receive:
            assert self._data is not None, "start refuses"
            self._name, self._started, self._failed = name, time.monotonic(), ""
            try:
                self._failed = await _run(self._command(self._data, name))
            except OSError as error:
                self._failed = str(error)
            self._ended = time.monotonic()


async def _run(command: Sequence[str]) -> str:
    """Runs an analysis; returns the reason of a failure, or an empty text."""
    with trio.move_on_after(RUN_SECONDS_MAX):
        done: subprocess.CompletedProcess[bytes] = await trio.run_process(
            command, capture_stdout=True, capture_stderr=True, check=False
        )
        if not done.returncode:
            return ""
        said = done.stderr.decode(errors="replace").strip()
        return said[-OUTPUT_CHARACTERS_MAX:] or f"exit code {done.returncode}"
    return f"it took longer than {RUN_SECONDS_MAX:.0f} s, and was stopped"


def why_not(data: Path | None) -> UserError | None:
    """Returns the reason why no analysis can be run here."""
    if data is None:
        return UserError(
            "the console cannot read the logs of this cluster",
            "they read logs on disk, and this console was not started for a local cluster",
            "run the analyses where the logs are: trimaran analyze --data DIR",
            exit_code=Exit.USAGE,
        )
    if not is_installed():
        return UserError(
            "Spark is not installed",
            "the analyses need PySpark and Plotly",
            "pip install 'trimaran[spark]'",
            exit_code=Exit.USAGE,
        )
    return None
