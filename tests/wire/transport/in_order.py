"""A run of trio on a manual clock, in which tasks run in the order of their creation."""

from unittest import mock

import trio
from trio._core import _run as scheduler
from trio.testing import MockClock

from tests.datadriven import REWRITE, SEPARATOR, parse_transcript
from tests.simulation.here import patched_here


class _InOrder:
    def shuffle(self, _):
        """Does nothing: tasks stay sorted by age."""


def run_in_order(main, clock=None):
    """Returns the result of `main`."""
    with (
        patched_here(scheduler, "_r", _InOrder()),
        mock.patch.object(scheduler, "_ALLOW_DETERMINISTIC_SCHEDULING", new=True),
    ):
        return trio.run(main, clock=clock or MockClock())


async def check_steps(path, take):
    """Passes each step of a transcript to `take`, and compares its output, or rewrites the file."""
    written = []
    for step in parse_transcript(path.read_text()):
        actual = await take(step)
        if not REWRITE:
            assert actual == step.expected, f"{path}:{step.line}: {step.source}"
        written.append(f"{step.source}\n{SEPARATOR}\n{actual}\n")
    assert written, f"{path} has no steps"
    if REWRITE:
        path.write_text("\n".join(written))
