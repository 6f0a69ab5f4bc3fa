"""Errors that the runtime's waits end with. Left out: error codes; whoever answers a request chooses the code."""

from __future__ import annotations


class NotLeaderError(Exception):
    """The epoch in which a wait was started has ended; nobody's fault.

    On the wire it becomes NOT_LEADER_OR_FOLLOWER, NOT_CONTROLLER or NOT_COORDINATOR, by who answers.
    """


class WrongCluster(Exception):
    """Most voters say that this node's directory is of another cluster; it must not go on."""
