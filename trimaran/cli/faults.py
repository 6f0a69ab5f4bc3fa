"""`faults list|show`: the ready plans of faults that clients must survive."""

from __future__ import annotations

from trimaran.cli.output import Format, put, show_rows
from trimaran.faults import plan_file, ready_plans

COLUMNS = ("plan", "title", "replays")


def list_plans(*, output: Format = "table") -> None:
    """Shows the ready plans: the fault, the incidents that it repeats, and what a correct client does then."""
    show_rows(ready_plans.story_rows(), output, columns=COLUMNS, noun="plan")


def show(plan: str) -> None:
    """Prints a ready plan as a file, to change it and use it with --plan.

    Args:
        plan: Its name; trimaran faults list shows the names.
    """
    put(plan_file.plan_text(ready_plans.ready_plan(plan)).rstrip())
