"""Errors of a session with ZooKeeper."""

from __future__ import annotations

from trimaran.zkcompat.tree.operations import printable_path


class UncertainOutcomeError(Exception):
    """The connection failed or a response did not come: the outcome of requests in flight is unknown."""


class UnsuitableZooKeeperError(Exception):
    """This ZooKeeper, or the tree in it, is not one that the mirror can use. The operator's fault."""


class ZooKeeperTooOldError(UnsuitableZooKeeperError):
    """The server does not support a request of ZooKeeper 3.6."""


class PathRefusedError(Exception):
    """ZooKeeper refused an operation on one znode; `reason` is its error, such as NoAuth."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{printable_path(path)}: {reason}")
        self.path = path
        self.reason = reason


class TransactionRefusedError(Exception):
    """ZooKeeper refused a transaction as a whole; `index` is the step at fault."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(f"step {index}: {reason}")
        self.index = index
        self.reason = reason
