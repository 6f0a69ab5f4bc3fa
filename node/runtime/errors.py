"""Errors raised by the runtime's waits. They have no error codes: the handler of a request selects the code."""

from __future__ import annotations


class NotLeaderError(Exception):
    """The epoch in which a wait started has ended; no peer is at fault.

    On the wire it becomes NOT_LEADER_OR_FOLLOWER, NOT_CONTROLLER or NOT_COORDINATOR, depending on the responding role.
    """


class WrongCluster(Exception):
    """Most voters report that this node's directory belongs to another cluster; the node must stop."""
