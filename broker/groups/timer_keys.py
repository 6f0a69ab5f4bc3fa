"""The timers of a shard, by name."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Timer(StrEnum):
    """The purpose of a deadline. It is text, as the hash of text takes no call: each heartbeat looks up several
    timers.
    """

    SESSION = "session"  # of a member or a pending member
    JOIN = "join"  # the join phase ends
    SYNC = "sync"  # a member that has not synced is removed
    EXPIRY = "expiry"  # of the shard: look for expired offsets
    WALK = "walk"  # of the shard: the next piece of what takes long
    # The timers of consumer groups follow.
    REVOCATION = "revocation"  # a member that has not given up its partitions is removed
    CLASSIC_JOIN = "classic join"  # a member of the classic protocol must have joined again
    CLASSIC_SYNC = "classic sync"  # and then have synced
    TARGET = "target"  # the group's target, or a piece of it, is due
    DOWNGRADE = "downgrade"  # the group has become a classic one, which must rebalance


class TimerKey(NamedTuple):
    """One timer of a shard: of a group, or of one of its members; expiry is of the whole shard."""

    kind: Timer
    group_id: str = ""
    member_id: str = ""
