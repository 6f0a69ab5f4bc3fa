"""What a session with ZooKeeper may end in."""

from __future__ import annotations

from zkcompat.tree import said


class UncertainOutcomeError(Exception):
    """The connection failed or an answer did not come: whatever was in flight is unknown."""


class PathRefusedError(Exception):
    """ZooKeeper refused to do something with one znode; `reason` is its error, as in NoAuth."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{said(path)}: {reason}")
        self.path = path
        self.reason = reason


class TransactionRefusedError(Exception):
    """ZooKeeper refused a transaction as a whole; `index` is the step at fault."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(f"step {index}: {reason}")
        self.index = index
        self.reason = reason
