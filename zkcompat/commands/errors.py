"""Errors of the mirror's commands on which an operator can act; any other exception is a bug."""

from __future__ import annotations

from trimaran.zkcompat.mirroring.tenure import WrongClusterError
from trimaran.zkcompat.quorum_feed.observer import QuorumUnreachableError
from trimaran.zkcompat.zookeeper.errors import ZooKeeperTooOldError

__all__ = [
    "MirrorLockedError",
    "QuorumUnreachableError",
    "WrongClusterError",
    "ZNodeRefusedError",
    "ZooKeeperTooOldError",
    "ZooKeeperUnreachableError",
]


class ZooKeeperUnreachableError(Exception):
    """No ZooKeeper at the given address within the time limit."""


class ZNodeRefusedError(Exception):
    """ZooKeeper does not permit this user to read or write a znode."""


class MirrorLockedError(Exception):
    """Another mirror process uses this state directory, and with it the ZooKeeper session."""
