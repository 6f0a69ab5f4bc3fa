"""Znodes that ZooKeeper does not let the mirror read or write: held back by path, and tried again later. Pure.

Such a znode does not mean that the connection failed, so the rest is mirrored. Znodes that depend on it wait with it:
no znode is created below one that could not be created, and none is deleted above one that could not be deleted. All
are retried together, as often as is cheap: a few each second, thousands once a minute.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from trimaran.zkcompat.tree.operations import OperationKind, TreeOperation, printable_path

RETRY_SECONDS_MIN = 1.0
RETRY_SECONDS_MAX = 60.0
# The share of a CPU for retries.
RETRY_SHARE = 0.01
# Beyond this number the whole tree is affected; the verification finds the rest again.
ENTRIES_MAX = 10_000

# Paths that wait for the right to a parent's children are retried with it; the verification finds any others.
WAITING_MAX = 100

# With `children`, the refused right is that of the parent: to create and delete its children.
Action = Literal["create", "set", "delete", "children", "read"]
_ACTIONS: dict[OperationKind, Action] = {
    OperationKind.CREATE: "create",
    OperationKind.SET: "set",
    OperationKind.DELETE: "delete",
}


@dataclass(slots=True)
class Refusal:
    """A refused action. It holds nothing back while it `retries`. `attempts` counts refusals; `waiting` are some of the
    paths that it holds back.
    """

    path: str
    action: Action
    reason: str
    attempts: int = 1
    retries: bool = False
    waiting: set[str] = field(default_factory=set)

    def hold(self, operation: TreeOperation) -> None:
        """Remembers a path to retry together with this refusal."""
        if len(self.waiting) < WAITING_MAX and not operation.sequential:
            self.waiting.add(operation.path)

    def sentence(self) -> str:
        """Returns a readable sentence: the refused action and its reason."""
        what = {
            "create": "be created",
            "set": "be written",
            "delete": "be deleted",
            "children": "have its children created or deleted",
            "read": "be read",
        }[self.action]
        return f"{printable_path(self.path)} may not {what} ({self.reason})"


@dataclass(slots=True)
class Quarantine:
    """The refused znodes by path. `now` is a clock in seconds."""

    now: Callable[[], float]
    _entries: dict[str, Refusal] = field(default_factory=dict)
    _wait_seconds: float = RETRY_SECONDS_MIN
    _next_try: float = float("inf")

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Refusal]:
        return iter(self._entries.values())

    def refused(self, operation: TreeOperation, reason: str) -> Refusal:
        """Records that ZooKeeper, or one of its limits, refused an operation."""
        parent = operation.path.rpartition("/")[0] or "/"
        if reason == "NoAuth" and operation.kind is not OperationKind.SET:
            entry = self.add(parent, "children", reason)
            entry.hold(operation)
            return entry
        path = parent if operation.sequential else operation.path
        return self.add(path, _ACTIONS[operation.kind], reason)

    def add(self, path: str, action: Action, reason: str) -> Refusal:
        """Holds a path back until the next retry of all."""
        known = self._entries.get(path)
        if known is not None and known.action == action and not known.retries:
            return known
        attempts = known.attempts + 1 if known is not None else 1
        entry = Refusal(path, action, reason, attempts)
        if known is not None or len(self._entries) < ENTRIES_MAX:
            self._entries[path] = entry
            self._next_try = min(self._next_try, self.now() + self._wait_seconds)
        return entry

    def is_shut(self, path: str) -> bool:
        """True for a znode that could not be created recently: nothing can be created below it now."""
        entry = self._entries.get(path)
        return entry is not None and entry.action == "create" and not entry.retries

    def holds(self, operation: TreeOperation) -> bool:
        """True while the operation would only be refused again."""
        if not self._entries:
            return False
        entry = self._entries.get(operation.path)
        if entry is not None and entry.action == _ACTIONS[operation.kind] and not entry.retries:
            return True
        parent = self._entries.get(operation.path.rpartition("/")[0] or "/")
        if parent is None or operation.kind is OperationKind.SET or parent.retries:
            return False
        if parent.action == "children":
            parent.hold(operation)
            return True
        return operation.sequential and parent.action == "create"

    def succeeded(self, operations: Iterable[TreeOperation]) -> None:
        """Forgets refusals of operations that have now succeeded."""
        if not self._entries:
            return
        for operation in operations:
            self._entries.pop(operation.path, None)
            parent = operation.path.rpartition("/")[0] or "/"
            entry = self._entries.get(parent)
            if (
                entry is not None
                and entry.action == "children"
                and operation.kind is not OperationKind.SET
            ):
                del self._entries[parent]

    def next_due(self) -> float:
        """Returns the time of the next retry; infinity if there is nothing to retry."""
        return self._next_try if any(not entry.retries for entry in self) else float("inf")

    def take_due(self) -> list[Refusal]:
        """Returns the refusals to retry now; until they are refused again they hold nothing back."""
        if self.now() < self._next_try:
            return []
        self._next_try = float("inf")
        due = [entry for entry in self if not entry.retries]
        for entry in due:
            entry.retries = True
        return due

    def tried(self, cpu_seconds: float) -> None:
        """Sets the time of the next retry; the delay grows with the `cpu_seconds` that the last retry cost."""
        wait = cpu_seconds / RETRY_SHARE
        self._wait_seconds = min(max(wait, RETRY_SECONDS_MIN), RETRY_SECONDS_MAX)
        if self._next_try < float("inf"):
            self._next_try = self.now() + self._wait_seconds

    def settled(self, paths: Iterable[str]) -> None:
        """Forgets the refusals of `paths` that were retried and not refused again."""
        for path in paths:
            entry = self._entries.get(path)
            if entry is not None and entry.retries:
                del self._entries[path]


@dataclass(slots=True)
class HeldBack:
    """The operations that one pass omits, with all that depend on them."""

    _not_created: set[str] = field(default_factory=set)
    _not_deleted: set[str] = field(default_factory=set)
    _untold: set[str] = field(default_factory=set)

    def add(self, operation: TreeOperation) -> None:
        self._untold.add(operation.path)
        if operation.kind is OperationKind.CREATE and not operation.sequential:
            self._not_created.add(operation.path)
        elif operation.kind is OperationKind.DELETE:
            self._not_deleted.update(_ancestors(operation.path))

    def touches(self, operation: TreeOperation) -> bool:
        """True for an operation that depends on an omitted one, or is a note about it."""
        if operation.about in self._untold:
            return True
        if operation.kind is OperationKind.DELETE and operation.path in self._not_deleted:
            return True
        if not self._not_created:
            return False
        return operation.path in self._not_created or any(
            path in self._not_created for path in _ancestors(operation.path)
        )


def _ancestors(path: str) -> Iterator[str]:
    while (path := path.rpartition("/")[0]) != "":
        yield path
