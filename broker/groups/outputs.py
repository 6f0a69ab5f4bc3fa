"""The outputs of a shard, for all kinds of groups, until the runtime takes them; and the names of its timers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from trimaran.broker.coordination.shard import Effects
from trimaran.broker.groups.records import GroupRecord
from trimaran.node.replicated.pending import PendingResponse
from trimaran.wire.errors import ErrorCode
from trimaran.wire.schema import Message


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


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """Records, mostly none, with a response for the request that waits with `token`, which gets it when all is
    committed.

    Without records `response` tells what the log has. A new coordinator has loaded more than it knows to be committed:
    what it told at once might be taken back by the next one, which then gives the same generation to others. `refused`
    makes the response if it is not committed.
    """

    token: PendingResponse[Any] | None = None
    response: Message | None = None
    refused: Callable[[ErrorCode], Message] | None = None
    records: Sequence[GroupRecord] = ()
    atomic: bool = True


class Outputs:
    """`effects` are replaced when they are taken."""

    def __init__(self) -> None:
        self.effects: Effects[GroupRecord] = Effects()
        # Writes that a request waits for.
        self.awaited: set[Answer] = set()

    def respond(self, token: PendingResponse[Any], response: Message) -> None:
        self.effects.responses.append((token, response))

    def resolve(self, group_id: str) -> None:
        """Has the patterns of a group resolved."""
        self.effects.follow_ups.append(group_id)

    def take(self) -> Effects[GroupRecord]:
        """Returns the effects of the inputs since the last call."""
        effects = self.effects
        if effects.writes or effects.responses or effects.follow_ups:
            self.effects = Effects()
        for write in effects.writes:
            if isinstance(write, Answer) and write.token is not None:
                self.awaited.add(write)
        return effects

    def written(self, write: Answer, code: ErrorCode) -> None:
        """Responds to the request that waits for a write."""
        self.awaited.discard(write)
        self.answer(write, code)

    def answer(self, write: Answer, code: ErrorCode) -> None:
        if write.token is None or write.response is None:
            return
        refused = write.refused
        response = write.response if code is ErrorCode.NONE or refused is None else refused(code)
        self.respond(write.token, response)

    def close(self) -> None:
        """Refuses every request that waits for a write."""
        for write in self.awaited:
            self.answer(write, ErrorCode.NOT_COORDINATOR)
        self.awaited.clear()
