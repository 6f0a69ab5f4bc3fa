"""Errors that the runtime's waits end with. Error codes are not in here: the handler of a request chooses the
code.
"""

from __future__ import annotations


class NotLeaderError(Exception):
    """The epoch in which a wait was started has ended; no peer is at fault.

    On the wire it becomes NOT_LEADER_OR_FOLLOWER, NOT_CONTROLLER or NOT_COORDINATOR, by the role that responds.
    """


class WrongCluster(Exception):
    """Most voters say that this node's directory is of another cluster; it must not go on."""
