"""The table of the bugs as docs/faults.md has it."""

from __future__ import annotations

from tests.interop.client_bugs.table import BUGS, ClientBug

HEAD = "| bug | client | has it | mended | plan | seen with the old version |\n|---|---|---|---|---|---|\n"


def markdown_table() -> str:
    return HEAD + "".join(f"| {' | '.join(_cells(bug))} |\n" for bug in BUGS)


def _cells(bug: ClientBug) -> list[str]:
    name = bug.issue.rpartition("/")[2]
    client = bug.client.removeprefix("github.com/")
    return [f"[{name}]({bug.link})", client, bug.old, bug.mended, f"`{_plan(bug)}`", bug.seen]


def _plan(bug: ClientBug) -> str:
    return ", ".join(bug.plan.splitlines())
