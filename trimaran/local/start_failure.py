"""Why a node of a local cluster ended while it started, by what it left in its log file."""

from __future__ import annotations

from pathlib import Path

from trimaran.errors import UserError
from trimaran.local.layout import NodePlan

TAIL_BYTES = 64 * 1024  # a log may be gigabytes; an error and its traceback are a few KiB


def died_while_starting(node: NodePlan) -> UserError:
    """For the user of `up`, which stops the other nodes."""
    return UserError(
        f"{node.name} exited during startup; the cluster was stopped",
        last_words(node.log_file),
        f"mend that and start again; {node.log_file} has the whole story",
    )


def last_words(log: Path) -> str:
    """What a node said about its end: its error in two of three lines, or its last line."""
    lines = _tail(log).strip().splitlines()
    if len(lines) >= 3 and lines[-3].startswith("error: "):
        return f"{lines[-3].removeprefix('error: ')}: {lines[-2].strip().removeprefix('why: ')}"
    return lines[-1] if lines else "it wrote nothing"


def _tail(log: Path) -> str:
    try:
        with log.open("rb") as opened:
            opened.seek(max(0, log.stat().st_size - TAIL_BYTES))
            return opened.read(TAIL_BYTES).decode(errors="replace")
    except OSError:
        return ""
