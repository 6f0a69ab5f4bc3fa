"""The reason why a node of a local cluster ended during its start, from its log file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from trimaran.errors.user_error import UserError
from trimaran.local.layout import NodePlan

if TYPE_CHECKING:
    from trimaran.zkcompat.zookeeper.server_process import ZooKeeperUnavailableError


class StoppedWhileStarting(UserError):
    """Raised when a stop was requested during the start; formatted directories stay."""

    def __init__(self) -> None:
        super().__init__(
            "the cluster was stopped while it started",
            "by trimaran down, or by a signal to its supervisor",
            "trimaran up starts it again",
        )


TAIL_BYTES = 64 * 1024  # a log may have gigabytes; an error and its traceback have a few KiB


def died_while_starting(node: NodePlan, consequence: str) -> UserError:
    """Returns the error for the user of `up`; `consequence` says what `up` did then."""
    return UserError(
        f"{node.name} exited during startup; {consequence}",
        last_words(node.log_file),
        f"fix that and start again; {node.log_file} has the full log",
    )


def no_zookeeper(error: ZooKeeperUnavailableError) -> UserError:
    """Returns the error for the user of `up --zk`."""
    return UserError("cannot start ZooKeeper", str(error), error.fix)


def last_words(log: Path) -> str:
    """Returns the end of a node's log: two of the three lines of its error, or the last line."""
    lines = _tail(log).strip().splitlines()
    return _error(lines) or (lines[-1] if lines else "it wrote nothing")


def error_at_its_end(log: Path) -> str | None:
    """Returns the error of a node that ended by itself; None for a node that was killed."""
    return _error(_tail(log).strip().splitlines())


def _error(lines: list[str]) -> str | None:
    if len(lines) < 3 or not lines[-3].startswith("error: "):
        return None
    return f"{lines[-3].removeprefix('error: ')}: {lines[-2].strip().removeprefix('why: ')}"


def _tail(log: Path) -> str:
    try:
        with log.open("rb") as opened:
            opened.seek(max(0, log.stat().st_size - TAIL_BYTES))
            return opened.read(TAIL_BYTES).decode(errors="replace")
    except OSError:
        return ""
