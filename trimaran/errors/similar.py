"""Suggestions for mistyped names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

# the cutoff of difflib: `--partitons` is --partitions, but `--nope` is not --property
_SIMILAR = 0.7
# The maximum of names that are compared: comparing 10,000 takes 50 ms.
NAMES_MAX = 10_000
# Groups of words for the same action. `unset` is spelled like `set`, but means `delete`.
_ACTIONS = (
    ("delete", "remove", "unset", "unregister", "rm", "del", "drop", "clear", "reset"),
    ("list", "ls", "show", "describe", "get", "status", "info", "view", "cat", "print"),
    ("create", "add", "new", "make", "register"),
    ("set", "alter", "update", "change", "modify", "edit", "put", "add"),
    ("upgrade", "enable", "raise", "set"),
    ("downgrade", "disable", "lower"),
    ("abort", "terminate", "kill", "cancel"),
    ("apply", "execute", "run"),
    ("plan", "generate", "propose"),
)


def did_you_mean(word: str, known: Iterable[str], most: int = 1) -> str | None:
    """Returns the names that a word may have been meant as, in a question; None if none is similar."""
    names = [name for name, _ in zip(known, range(NAMES_MAX), strict=False)]
    found = difflib.get_close_matches(word, names, n=most, cutoff=_SIMILAR)
    return f"did you mean {' or '.join(found)}?" if found else None


def of_same_action(word: str, known: Iterable[str]) -> str | None:
    """Returns the question of `did_you_mean` about commands for the same action; None if there is none."""
    words = {other for action in _ACTIONS if word in action for other in action}
    found = [name for name in known if name in words]
    return f"did you mean {' or '.join(found)}?" if found else None
