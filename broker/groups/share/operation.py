"""One input to a share group: a draft to decide on, the resulting records, and the timers of members.

Every record is applied to the draft as soon as it is decided, so that the next rule sees it; the group itself changes
when the records are replayed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, cast

from trimaran.broker.coordination.timers import Instant, Timers
from trimaran.broker.groups.outputs import AwaitedResponse, Timer, TimerKey
from trimaran.broker.groups.records import GroupRecord
from trimaran.broker.groups.share.group import ShareGroup
from trimaran.broker.groups.share.records import epoch_record
from trimaran.broker.groups.share.settings import ShareGroupSettings
from trimaran.broker.groups.topics import Topics, metadata_hash
from trimaran.wire.identity import Offset, StateEpoch, TopicIdPartition
from trimaran.wire.records.share_groups import ShareGroupKey, ShareGroupValue


class Initialization(NamedTuple):
    """States of share partitions to store: each with its start offset, None for that of `share.auto.offset.reset`."""

    state_epoch: StateEpoch
    offsets: Mapping[TopicIdPartition, Offset | None]


@dataclass(slots=True)
class ShareWork:
    """The long-running work for one share group. It is not stored: the next coordinator of the group starts over."""

    # The version of the metadata for which the group's hash was last checked.
    checked_topics: object = None
    # The target, share partitions and names for which the initialized partitions were found to be assigned.
    checked_target: tuple[object, object, object] | None = None
    # The time (wall clock, ms) since which a topic has partitions that are being initialized.
    initializing_since: dict[bytes, int] = field(default_factory=dict)
    # The initializations that have not begun yet, in order.
    initializations: list[Initialization] = field(default_factory=list)


@dataclass(frozen=True, slots=True, eq=False)
class ShareGroupWrite(AwaitedResponse):
    """Records of a share group that do not result from a heartbeat."""

    group_id: str = ""


@dataclass(slots=True)
class ShareOperation:
    """One input to a share group; `group` is a draft."""

    group: ShareGroup
    at: Instant
    timers: Timers[TimerKey]
    settings: ShareGroupSettings
    topics: Topics
    work: ShareWork
    # Returns whether the limits of the request's principal admit this many more bytes.
    fits: Callable[[int], bool] = lambda _more: True
    records: list[GroupRecord] = field(default_factory=list)
    # The initialization that begins when the records are committed.
    begun: Initialization | None = None

    def write(self, records: Iterable[GroupRecord]) -> None:
        """Adds `records` to the outcome, and applies them to the draft."""
        for record in records:
            self.records.append(record)
            value = cast("ShareGroupValue | None", record.value)
            self.group.apply(cast(ShareGroupKey, record.key), value)

    def bump_epoch(self) -> None:
        """Increments the epoch after a change of members, topics or initialized partitions: the target must be
        recomputed.
        """
        topics = metadata_hash(self.group.name_counts, self.topics)
        self.work.checked_topics = self.topics.version
        self.write([epoch_record(self.group.id, self.group.epoch + 1, topics)])

    # -- timers

    def session(self, member_id: str) -> TimerKey:
        return TimerKey(Timer.SESSION, self.group.id, member_id)

    def expect_heartbeat(self, member_id: str) -> None:
        """Restarts the member's session."""
        self.timers.set(self.session(member_id), self.at.after_ms(self.settings.session_timeout_ms))
