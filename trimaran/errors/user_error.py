"""User-facing errors: the problem, the cause, and the remedy, one line each."""

from __future__ import annotations

from enum import IntEnum

from trimaran.node.text.escaping import one_line


class Exit(IntEnum):
    """Exit codes of every command."""

    OK = 0
    NO = 1
    USAGE = 2
    CANNOT_CONNECT = 3
    TIMEOUT = 4
    REFUSED = 5
    TOO_NEW = 6  # a node found metadata of a later version; it can start after an upgrade


class UserError(Exception):
    """A problem that the user can solve. Shown in three lines, without a traceback.

    Args:
        what: what happened.
        why: the cause, as far as it is known.
        fix: what to do next, a command if there is one.
    """

    def __init__(self, what: str, why: str, fix: str, *, exit_code: Exit = Exit.NO) -> None:
        super().__init__(what)
        self.what, self.why, self.fix, self.exit_code = what, why, fix, exit_code

    def as_json(self) -> dict[str, str]:
        return {"what": self.what, "why": self.why, "fix": self.fix}

    def __str__(self) -> str:
        lines = (self.what, self.why, self.fix)
        what, why, fix = (one_line(" ".join(text.split())) for text in lines)
        return f"error: {what}\n  why: {why}\n  fix: {fix}"
