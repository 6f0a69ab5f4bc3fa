"""`analyze`: analyses the logs of a cluster: verdicts in the terminal, a report with plots."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from cyclopts import Parameter

from trimaran.cli.connect import DEFAULT_DATA, NodeDirectories
from trimaran.cli.output import complain, put, say, show_json
from trimaran.cli.spark_errors import explained
from trimaran.errors.user_error import Exit, UserError
from trimaran.local import state_file
from trimaran.spark.analyses import report

if TYPE_CHECKING:
    from trimaran.spark.analyses.running import Outcome

EngineName = Literal["auto", "duckdb", "spark"]
PROGRESS_SECONDS = 3.0
MARKS = {"ok": "good", "warn": "look", "bad": "BAD ", "info": "info"}
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def analyze(
    *names: str,
    data: NodeDirectories = DEFAULT_DATA,
    html: Annotated[Path | None, Parameter(name="--html")] = None,
    since: Annotated[str | None, Parameter(name="--since")] = None,
    json: Annotated[bool, Parameter(name="--json", negative="")] = False,
    engine: Annotated[EngineName, Parameter(name="--engine")] = "auto",
) -> None:
    """Reads the metadata log and the data logs of the nodes below DATA, prints verdicts, and writes a report with
    plots.

    Args:
        names: Analyses to run, by name or number (consumer-lag, D10); by default all.
        html: The directory of the report; by default DATA/report for a local cluster, else ./report. With --json a
            report is only written if --html is given.
        since: Omit older data: a time (2026-01-31T12:00:00Z) or an age (90m, 6h, 2d).
        json: Print the verdicts as JSON.
        engine: The engine of the analyses: DuckDB in this process, Spark, or (auto) Spark only for what takes too much
            memory. The rows are equal.
    """
    since_ms = None if since is None else since_milliseconds(since)
    data = state_file.nearest(data)
    target = html or (None if json else report_of(data))
    with explained(data):
        job = report.plan_report(data, list(names) or None, since_ms, engine)
        with AnalysisProgress(len(job.analyses)) as progress:
            outcomes = report.analyse(job, lambda one: _tell(one, progress, quiet=json))
        index = None if target is None else report.write_pages(job, outcomes, target.resolve())
    if json:
        show_json([_as_json(outcome) for outcome in outcomes])
    elif index is not None:
        say(f"run by {engines_text(outcomes)}")
        say("open the report in a browser:")
        put(index)


def engines_text(outcomes: Sequence[Outcome]) -> str:
    """Returns how many analyses each engine ran, such as `DuckDB: 30, Spark: 3`."""
    counts = Counter(outcome.engine for outcome in outcomes)
    return ", ".join(f"{engine}: {number}" for engine, number in sorted(counts.items()))


def report_of(data: Path) -> Path:
    """Returns the default directory of the report: below a local cluster's directory, which the console reads, or below
    the current directory, so that no file is written among other data.
    """
    is_local = (data / state_file.FILE_NAME).exists()
    return (data if is_local else Path.cwd()) / "report"


def since_milliseconds(text: str, now: datetime | None = None) -> int:
    """Returns the time of `--since`. Raises UserError."""
    try:
        if text[-1:] in UNITS and text[:-1].replace(".", "", 1).isdecimal():
            age = timedelta(seconds=float(text[:-1]) * UNITS[text[-1]])
            when = (now or datetime.now(UTC)) - age
        else:
            when = datetime.fromisoformat(text)
            when = when if when.tzinfo else when.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise UserError(
            f"--since {text} is not a time",
            "it is neither a time nor an age",
            "write --since 2026-01-31T12:00:00Z, or --since 6h (s, m, h, d)",
            exit_code=Exit.USAGE,
        ) from None
    return int(when.timestamp() * 1000)


def _tell(outcome: Outcome, progress: AnalysisProgress, *, quiet: bool) -> None:
    progress.done()
    if not quiet:
        for verdict in outcome.verdicts:
            progress.line(f"{MARKS[verdict.level]}  {verdict.text}")


def _as_json(outcome: Outcome) -> dict[str, Any]:
    analysis = outcome.analysis
    return {
        "number": analysis.number,
        "name": analysis.name,
        "verdicts": [{"level": v.level, "text": v.text} for v in outcome.verdicts],
        "rows": None if outcome.frame is None else len(outcome.frame),
        "seconds": round(outcome.seconds, 3),
        "engine": outcome.engine,
    }


class AnalysisProgress:
    """Reports the progress on stderr every three seconds."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._started = time.monotonic()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._speak, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def done(self) -> None:
        self._done += 1

    def line(self, text: str) -> None:
        complain(text)

    def _speak(self) -> None:
        while not self._over.wait(PROGRESS_SECONDS):
            seconds = time.monotonic() - self._started
            self.line(f"  … {self._done} of {self._total} analyses, {seconds:.0f} s")
