"""A consumer of a group (KIP-848) that commits what its caller has finished.

It runs in the caller's thread and has one request in flight. So heartbeats are sent between two records.
Offsets are committed once a second, before partitions are given back, and at the end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Self

from trimaran.client.consumer_member import ConsumerMembership, MemberSubscription
from trimaran.client.group_offsets import committed_offsets
from trimaran.client.membership import new_member_id
from trimaran.client.offsets import EARLIEST_TIMESTAMP
from trimaran.client.reader import FETCH_WAIT_MS, FetchedBatch, PartitionReader
from trimaran.errors.refused import check
from trimaran.wire.client.destinations import CoordinatorNode
from trimaran.wire.client.errors import ConnectionLost, RequestTimedOut
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import Offset, TopicIdPartition, TopicPartition
from trimaran.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from trimaran.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

if TYPE_CHECKING:
    from trimaran.client.positions import Position
    from trimaran.log.batches.records import Record
    from trimaran.wire.blocking import BlockingClient

COMMIT_SECONDS = 1.0
# A coordinator that does not answer must not delay the end of the caller.
LEAVE_SECONDS = 5.0
# The pause between heartbeats of a member without partitions: a coordinator matches a pattern, and takes partitions
# back from other members, between two heartbeats.
IDLE_SECONDS = 0.25
_COMMIT_VERSION = 9  # the last version with names of topics
_NAMES_VERSION = 12  # topics by their ids
# The member is in the group, but its epoch has moved on: the next heartbeat brings the new one.
_LATER = (ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.REBALANCE_IN_PROGRESS)
_LOST = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.ILLEGAL_GENERATION,
)


class GroupConsumer:
    """A member of `group` while its block runs. `lost` counts records that were finished but not committed, since the
    group had removed the member: other members read them again.

    Args:
        begin: the position in partitions whose committed offset is missing or no longer in the log.
    """

    def __init__(
        self,
        client: BlockingClient,
        group: str,
        subscription: MemberSubscription,
        begin: Position,
        *,
        is_committed: bool,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client, self._begin = client, begin
        self._clock, self._sleep = clock, sleep
        self._member = ConsumerMembership(group, new_member_id(), subscription)
        self._reader = PartitionReader(client, (), is_committed=is_committed)
        self._names: dict[bytes, str] = {}
        self._owned: dict[TopicPartition, TopicIdPartition] = {}
        self._fetched: dict[TopicPartition, Offset] = {}
        self._ends: dict[TopicPartition, Offset] = {}
        self._finished: dict[TopicPartition, Offset] = {}
        self._uncommitted: dict[TopicPartition, int] = {}
        self._commit_at = 0.0
        self.lost = 0

    def __enter__(self) -> Self:
        self._beat()
        return self

    def __exit__(self, *_: object) -> None:
        """Commits what was finished, and leaves the group."""
        try:
            self._commit()
            leaving = self._member.leaving()
            if leaving is not None:
                self._client.call(self._coordinator, leaving, timeout=LEAVE_SECONDS)
        except (ConnectionLost, RequestTimedOut):
            self.lost += sum(self._uncommitted.values())  # the session timeout ends the membership

    @property
    def partitions(self) -> frozenset[TopicPartition]:
        """Returns the partitions that the member reads."""
        return frozenset(self._owned)

    @property
    def _coordinator(self) -> CoordinatorNode:
        return CoordinatorNode(self._member.group)

    def finished(self, where: TopicPartition, record: Record) -> None:
        """Notes that a record is finished, to be committed."""
        if where in self._owned:
            self._finished[where] = Offset(record.offset + 1)
            self._uncommitted[where] = self._uncommitted.get(where, 0) + 1

    def records(
        self,
        *,
        exit_at_end: bool,
        quiet_seconds: float,
        goes_on: Callable[[], bool] = lambda: True,
    ) -> Iterator[tuple[TopicPartition, Record]]:
        """Yields records until the iterator is closed, one by one: each is to be finished before the next.

        Args:
            exit_at_end: end at the records that were there when their partitions were assigned.
            quiet_seconds: with `exit_at_end`, end also when the member has had no partitions for this time.
            goes_on: called before each round of fetches, and before each record; returns False to end.
        """
        idle_since = self._clock()
        is_busy = False
        while goes_on():
            self.keep_up()
            if not self._owned:
                if exit_at_end and self._clock() - idle_since >= quiet_seconds:
                    return
                self._sleep(IDLE_SECONDS)
                self._beat()
                continue
            idle_since = self._clock()
            if exit_at_end and all(self._is_at_end(each) for each in self._owned):
                return
            wait_ms = 0 if is_busy or exit_at_end else FETCH_WAIT_MS
            is_busy = False
            for where, batches in self._round(wait_ms):
                for batch in batches:
                    if where not in self._owned:
                        break
                    is_busy = True
                    for record in self._of_batch(where, batch):
                        if not goes_on():
                            return
                        yield where, record
                    if where not in self._owned:
                        break
                    self._fetched[where] = max(self._fetched[where], batch.next_offset)
                    self._finished[where] = self._fetched[where]

    def _of_batch(self, where: TopicPartition, batch: FetchedBatch) -> Iterator[Record]:
        for record in batch.records():
            self.keep_up()
            if where not in self._owned:
                return
            if record.offset >= self._fetched[where]:
                yield record

    def _is_at_end(self, where: TopicPartition) -> bool:
        if where not in self._ends:
            self._ends[where] = self._reader.end_of(where)
        return self._fetched[where] >= self._ends[where]

    def _round(self, wait_ms: int) -> Iterator[tuple[TopicPartition, list[FetchedBatch]]]:
        """Fetches each partition once. A partition whose offset is no longer in the log begins again at `begin`, unless
        that is an offset.
        """
        try:
            yield from self._reader.round(dict(self._fetched), wait_ms=wait_ms)
        except KafkaError as error:
            if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE or self._begin.offset is not None:
                raise
            for where, offset in list(self._fetched.items()):
                first = self._reader.end_of(where, EARLIEST_TIMESTAMP)
                if not first <= offset <= self._reader.end_of(where):
                    self._fetched[where] = self._reader.offset_of(self._begin, where)

    def keep_up(self) -> None:
        """Sends a heartbeat and a commit that are due."""
        now = self._clock()
        if now >= self._commit_at:
            self._commit_at = now + COMMIT_SECONDS
            self._commit()
        if self._member.is_due(now):
            self._beat()

    def _beat(self) -> None:
        """Sends a heartbeat, and takes over what was assigned."""
        response = self._client.call(self._coordinator, self._member.heartbeat())
        if not self._member.received(response, self._clock()):
            self._forget()
            return
        assigned = self._member.assigned
        if assigned == frozenset(self._owned.values()):
            return
        kept = {where: key for where, key in self._owned.items() if key in assigned}
        if len(kept) < len(self._owned):
            self._commit()
            for where in self._owned.keys() - kept.keys():
                for each in (self._fetched, self._finished, self._uncommitted, self._ends):
                    each.pop(where, None)
        self._owned = kept
        self._take(assigned - frozenset(kept.values()))
        self._member.own(self._owned.values())

    def _take(self, new: frozenset[TopicIdPartition]) -> None:
        """Begins to read partitions: at their committed offsets, or else at `begin`."""
        if not new:
            return
        self._learn_names({key.topic_id for key in new})
        committed = committed_offsets(self._client, self._member.group)
        for key in sorted(new):
            if (name := self._names.get(key.topic_id)) is None:
                continue  # deleted meanwhile: the next assignment is without it
            where = TopicPartition(name, key.partition)
            at = committed.get(where)
            self._fetched[where] = (
                at if at is not None else self._reader.offset_of(self._begin, where)
            )
            self._owned[where] = key

    def _learn_names(self, ids: set[bytes]) -> None:
        missing = sorted(ids - self._names.keys())
        if not missing:
            return
        topics = [MetadataRequestTopic(topic_id=each, name=None) for each in missing]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        response = self._client.call(None, request, version=_NAMES_VERSION, retried=frozenset())
        for topic in response.topics:
            if topic.name is not None and not topic.error_code:
                self._names[topic.topic_id] = topic.name
        self._client.refresh(sorted(self._names.values()))

    def _commit(self) -> None:
        """Commits what is finished.

        Raises:
            KafkaError: the coordinator refuses this user.
        """
        if not self._finished:
            return
        topics: dict[str, list[OffsetCommitRequestPartition]] = {}
        for (topic, index), offset in sorted(self._finished.items()):
            each = OffsetCommitRequestPartition(
                partition_index=index, committed_offset=offset, committed_metadata=None
            )
            topics.setdefault(topic, []).append(each)
        request = OffsetCommitRequest(
            group_id=self._member.group,
            generation_id_or_member_epoch=self._member.epoch,
            member_id=self._member.member,
            topics=[OffsetCommitRequestTopic(name=n, partitions=p) for n, p in topics.items()],
        )
        response = self._client.call(self._coordinator, request, version=_COMMIT_VERSION)
        for topic in response.topics:
            for told in topic.partitions:
                where = TopicPartition(topic.name, told.partition_index)
                if told.error_code in _LATER:
                    continue
                if told.error_code in _LOST:
                    self.lost += self._uncommitted.pop(where, 0)
                    self._finished.pop(where, None)
                    continue
                check(told.error_code, None, str(where))
                self._finished.pop(where, None)
                self._uncommitted.pop(where, None)

    def _forget(self) -> None:
        """Forgets all partitions: the group has removed the member."""
        self.lost += sum(self._uncommitted.values())
        for each in (self._owned, self._fetched, self._finished, self._uncommitted, self._ends):
            each.clear()
