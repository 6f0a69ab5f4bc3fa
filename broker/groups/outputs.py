"""The outputs of a shard for all kinds of groups, until the runtime takes them, and the names of its timers."""

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
    """The purpose of a deadline; each kind of group defines further purposes. A `StrEnum`, because the hash of a string
    needs no call: each heartbeat looks up several timers.
    """

    SESSION = "session"  # end of a member's or pending member's session
    EXPIRY = "expiry"  # search for expired offsets, one timer per shard
    WALK = "walk"  # next piece of a long task, one timer per shard


class TimerKey(NamedTuple):
    """A timer of a group, of one of its members, or (expiry and walk) of the whole shard."""

    kind: str
    group_id: str = ""
    member_id: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class AwaitedWrite:
    """A write that the request with `token` waits for: its response is sent when all records have been committed. It
    usually has no records of its own.

    Without records, `response` has values from the log. A new coordinator may have loaded records that are not known to
    be committed: if it responded immediately, its successor might lose those values and give the same generation to
    other members. `refused` creates the response if the commit fails.
    """

    token: PendingResponse[Any] | None = None
    response: Message | None = None
    refused: Callable[[ErrorCode], Message] | None = None
    records: Sequence[GroupRecord] = ()
    atomic: bool = True


class Outputs:
    """The outputs of a shard; `effects` is replaced when it is taken."""

    def __init__(self) -> None:
        self.effects: Effects[GroupRecord] = Effects()
        # Writes that requests wait for.
        self.awaited: set[AwaitedWrite] = set()

    def respond(self, token: PendingResponse[Any], response: Message) -> None:
        self.effects.responses.append((token, response))

    def resolve(self, group_id: str) -> None:
        """Requests the resolution of a group's patterns."""
        self.effects.follow_ups.append(group_id)

    def take(self) -> Effects[GroupRecord]:
        """Returns the effects of the inputs since the last call."""
        effects = self.effects
        if effects.writes or effects.responses or effects.follow_ups:
            self.effects = Effects()
        for write in effects.writes:
            if isinstance(write, AwaitedWrite) and write.token is not None:
                self.awaited.add(write)
        return effects

    def written(self, write: AwaitedWrite, code: ErrorCode) -> None:
        """Responds to the request that waits for the write."""
        self.awaited.discard(write)
        self.respond_to(write, code)

    def respond_to(self, write: AwaitedWrite, code: ErrorCode) -> None:
        if write.token is None or write.response is None:
            return
        refused = write.refused
        response = write.response if code is ErrorCode.NONE or refused is None else refused(code)
        self.respond(write.token, response)

    def close(self) -> None:
        """Refuses every request that waits for a write."""
        for write in self.awaited:
            self.respond_to(write, ErrorCode.NOT_COORDINATOR)
        self.awaited.clear()
