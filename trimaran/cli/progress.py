"""Progress of an operation that takes more than two seconds: on stderr, if that is a terminal, and removed at the
end.

There is one bar at a time: an operation inside another, such as a request inside a comparison, shows no bar. Nothing is
shown in a pipe, with `-q`, or while rows are printed to the same terminal, which show the progress themselves.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from trimaran.cli.output import is_quiet
from trimaran.node.text.wording import counted
from trimaran.wire.later import imported_later

if TYPE_CHECKING:
    from rich import console as rich_console
    from rich import progress as rich_progress
else:
    rich_console = imported_later("rich.console")
    rich_progress = imported_later("rich.progress")

SHOWN_AFTER_SECONDS = 2.0
_one = threading.Lock()  # held by the active bar


class ProgressBar:
    """The progress of an operation, which calls `at` as often as it likes."""

    def __init__(self, what: str, total: int | None = None, unit: str = "") -> None:
        self.what, self.total = what, total
        self.began = time.monotonic()
        self.done = 0
        self._unit, self._note = unit, ""

    def at(self, done: int, note: str = "") -> None:
        """Sets the progress towards `total`; `note` is shown instead of a number of units."""
        self.done, self._note = done, note

    @property
    def note(self) -> str:
        return counted(self.done, self._unit) if self._unit and not self._note else self._note


@contextmanager
def progress(
    what: str, total: int | None = None, *, unit: str = "", prints: bool = False
) -> Iterator[ProgressBar]:
    """Shows the progress of an operation that may take long. Without a total it shows only the elapsed time.

    Args:
        what: the name of the operation, such as `comparing the tree`.
        total: the final value of `Bar.at`.
        unit: the name of the counted units, such as `record`.
        prints: rows are printed to stdout meanwhile.
    """
    bar = ProgressBar(what, total, unit)
    if is_quiet() or not sys.stderr.isatty() or (prints and sys.stdout.isatty()):
        yield bar
    elif _one.acquire(blocking=False):
        try:
            with _shown_later(bar):
                yield bar
        finally:
            _one.release()
    else:
        yield bar


def waiting(request: str) -> AbstractContextManager[ProgressBar]:
    """Shows that a request to a cluster is being awaited, by its name."""
    return progress(f"waiting for the answer to {request.removesuffix('Request')}")


@contextmanager
def _shown_later(bar: ProgressBar) -> Iterator[None]:
    """Shows the bar later, by a thread, so that a quick operation does not load the drawing code."""
    is_over = threading.Event()
    thread = threading.Thread(target=_show, args=(bar, is_over), daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def _show(bar: ProgressBar, is_over: threading.Event) -> None:
    if is_over.wait(SHOWN_AFTER_SECONDS):
        return
    with _drawn(bar):
        is_over.wait()


def _drawn(bar: ProgressBar) -> rich_progress.Progress:
    class Drawn(rich_progress.Progress):
        """A column that reads the bar each time that it is drawn, ten times a second."""

        def get_renderables(self) -> Iterable[rich_console.RenderableType]:
            for task in self.task_ids:
                self.update(task, completed=bar.done, note=bar.note)
            return super().get_renderables()

    text, bar_column = rich_progress.TextColumn, rich_progress.BarColumn
    columns = [text("{task.description}"), bar_column(), text("{task.fields[note]}")]
    share = [] if bar.total is None else [rich_progress.TaskProgressColumn()]
    drawn = Drawn(
        *columns,
        *share,
        rich_progress.TimeElapsedColumn(),
        console=rich_console.Console(stderr=True),
        transient=True,
        redirect_stdout=False,  # stdout has only data
    )
    drawn.add_task(bar.what, total=bar.total, note="")
    drawn.tasks[-1].start_time = bar.began
    return drawn
