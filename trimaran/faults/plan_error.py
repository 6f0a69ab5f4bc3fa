"""The error of an invalid rule or plan: what is wrong, why, and what to write instead."""

from __future__ import annotations

from collections.abc import Iterable

from trimaran.errors.similar import did_you_mean
from trimaran.errors.user_error import Exit, UserError


class PlanError(UserError, ValueError):
    """A rule is refused: it names something unknown, or it can match nothing."""

    def __init__(self, why: str, fix: str, *, key: str = "", where: str = "") -> None:
        """`key` is the part of the rule that is wrong; `where` is its place in a file."""
        super().__init__(
            f"{where}: rule refused" if where else "rule refused", why, fix, exit_code=Exit.USAGE
        )
        self.key = key

    def at(self, where: str) -> PlanError:
        """Returns this error with the place of the rule."""
        return PlanError(self.why, self.fix, key=self.key, where=where)


def unknown(kind: str, word: object, known: Iterable[str], key: str) -> PlanError:
    """Returns the error for a name that does not exist, with a similar name or with the list of the names."""
    names = list(known)
    meant = did_you_mean(str(word), names)
    few = ", ".join(names[:20])
    return PlanError(f"there is no {kind} {word!r}", meant or f"use one of {few}", key=key)
