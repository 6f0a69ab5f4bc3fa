"""A run of trio on a clock that goes on only when told, in which tasks have their turn in the order of their age."""

from unittest import mock

import trio
from trio._core import _run as scheduler
from trio.testing import MockClock

from tests.simulation.here import patched_here


class _InOrder:
    def shuffle(self, _):
        """They are sorted by age."""


def run_in_order(main, clock=None):
    """Returns what `main` does."""
    with (
        patched_here(scheduler, "_r", _InOrder()),
        mock.patch.object(scheduler, "_ALLOW_DETERMINISTIC_SCHEDULING", new=True),
    ):
        return trio.run(main, clock=clock or MockClock())
