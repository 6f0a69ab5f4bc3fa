"""The processing of one Fetch request: the partitions to read, the records found, and whether they are enough.

The handler (`trimaran.broker.handlers.fetch`) waits, and `wake` ends its wait. Only partitions that may have new
records or errors are read: an idle partition of a session costs nothing. Not implemented: tiered storage.

Source: `ReplicaManager.fetchMessages` and `DelayedFetch` of Kafka, KIP-74 (byte limits), KIP-227 (the partitions that
an incremental response omits), KIP-392 (consumers read from followers).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias

from trimaran.broker.fetching.aborted import aborted, aborted_at_once
from trimaran.broker.fetching.replica_selection import FROM_LEADER
from trimaran.broker.fetching.slots import Found, Slot, Unlisted, is_news
from trimaran.broker.partitions.isr import FetchClock
from trimaran.broker.partitions.leader import PartitionLeader
from trimaran.broker.partitions.lookups import pausing
from trimaran.broker.partitions.partition import FollowerReads, Partition
from trimaran.broker.partitions.registry import Partitions
from trimaran.broker.partitions.traffic import TopicTraffic
from trimaran.log.old_formats.down_conversion import OVERFLOW
from trimaran.node.quotas.replication_throttle import ReplicationThrottle
from trimaran.node.runtime.long_lived import LongLived
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import NO_BROKER_EPOCH, NO_OFFSET, BrokerEpoch, BrokerId, Offset
from trimaran.wire.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    LeaderIdAndEpoch,
    PartitionData,
    SnapshotId,
)
from trimaran.wire.transport.requests.elements import FROZEN_ELEMENTS_MIN
from trimaran.wire.transport.scheduling.effects import Blocking, Handling

READ_COMMITTED = 1
CONSUMER = BrokerId(-1)

Source: TypeAlias = PartitionLeader | FollowerReads
_ELSEWHERE = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})
_NO_DIVERGENCE = EpochEndOffset()
_NO_LEADER = LeaderIdAndEpoch()
_START = Offset(0)
_NO_SNAPSHOT = SnapshotId()
# librdkafka treats null records as a protocol error; Kafka and this broker therefore send an empty byte array instead.
_NOTHING = b""


@dataclass(slots=True)
class FetchTerms:
    """The terms of one request, the same for all its partitions; `replica_id` is CONSUMER or the verified id of a
    broker. Not frozen: a frozen dataclass takes two microseconds longer to create.
    """

    min_bytes: int
    max_bytes: int
    isolation_level: int = 0
    replica_id: BrokerId = CONSUMER
    replica_epoch: BrokerEpoch = NO_BROKER_EPOCH
    refused: ErrorCode = ErrorCode.NONE  # the error of a fetch with a wrong broker id
    names_leaders: bool = False  # adds the current leader to errors (KIP-951)
    whole_messages: bool = True  # returns a first batch larger than the limit (KIP-74)
    committed_unknown: ErrorCode = ErrorCode.OFFSET_NOT_AVAILABLE  # at an unknown committed end
    reads_followers: bool = False  # a consumer with KIP-392
    prefer: Callable[[PartitionLeader, Offset], BrokerId] | None = None  # finds the replica to read
    may_read: Callable[[str], bool] | None = None  # called at each read: permissions may change
    throttle: ReplicationThrottle | None = None  # None: no replica is throttled


class FetchReader:
    """The partitions that one fetch, or the fetches of one session, read.

    `changed` has the slots that may have something to return; `wake` is called when a slot is added during a wait.
    `data_came` is set if a slot was added since the last poll for any change other than a watermark. A reader
    `in_session` outlives the request, so its slots stay attached to their partitions. Only followers have a `clock`.
    """

    __slots__ = ("changed", "clock", "data_came", "in_session", "wake")

    def __init__(self, *, in_session: bool = False) -> None:
        self.changed: dict[Slot, None] = {}
        self.clock: FetchClock | None = None
        self.in_session = in_session
        self.data_came = False
        self.wake: Callable[[], None] | None = None

    def tick(self, now: float) -> None:
        """Records a request of the follower at `now`, before its partitions are served."""
        if self.clock is None:
            self.clock = FetchClock()
        self.clock.tick(now)

    def data_changed(self, interest: Slot) -> None:
        self.changed[interest] = None
        self.data_came = True
        if self.wake is not None:
            self.wake()

    def watermark_changed(self, interest: Slot) -> None:
        """Does not wake the reader: a follower receives the watermark with its next response, at the latest after its
        max wait.
        """
        self.changed[interest] = None


class Fetch:
    """The state of one request between its arrival and its response."""

    __slots__ = (
        "_found",
        "_partitions",
        "_reader",
        "_size",
        "_terms",
        "_unread",
        "_urgent",
        "released",
    )

    def __init__(self, reader: FetchReader, partitions: Partitions, terms: FetchTerms) -> None:
        self._reader = reader
        self._partitions = partitions
        self._terms = terms
        self._found: dict[Slot, Found] = {}
        self._size = 0
        self._urgent = False
        # Slots that the current poll has not read yet.
        self._unread: Iterable[Slot] = ()
        self.released = False

    def poll(self) -> Handling[bool]:
        """Reads the slots that changed; returns whether there is enough for a response."""
        reader = self._reader
        if self.released:
            return True
        changed, reader.changed, reader.data_came = reader.changed, {}, False
        self._unread = iter(changed)
        # The garbage collector does not scan the objects created for each slot, nor the elements of a large request.
        kept = LongLived() if len(changed) >= FROZEN_ELEMENTS_MIN else None
        if kept is not None:
            kept.add(len(changed))
        for slot in self._unread:
            found = self._read(slot)
            if found is None:
                assert slot.known is not None
                with suppress(KafkaError):  # the next read reports the error
                    yield Blocking(slot.known.check)
                if not self._has_unread(slot):
                    break
                found = self._read(slot, is_checked=True)
                assert found is not None
            before = self._found.get(slot)
            self._found[slot] = found
            self._size += found.size if before is None else found.size - before.size
            self._urgent = self._urgent or found.urgent
            if kept is not None:
                kept.add(1)
            if len(changed) > 1:
                yield None
        return self._urgent or self._size >= self._terms.min_bytes

    def _has_unread(self, slot: Slot) -> bool:
        """Returns False, and keeps `slot` for the next request, if the fetch was released meanwhile."""
        if self.released:
            self._reader.changed[slot] = None
        return not self.released

    @property
    def may_have_enough(self) -> bool:
        """Whether `poll` may find enough. In a session, watermarks that moved do not end the wait."""
        reader = self._reader
        return self.released or (reader.data_came if reader.in_session else bool(reader.changed))

    def poll_again(self) -> Handling[None]:
        """Reads all slots again, because permissions have changed."""
        if not self.released:
            self._reader.changed.update(dict.fromkeys(self._found))
            yield from self.poll()

    def release(self) -> None:
        """Keeps the results for the session's next request, which has arrived, and ends the wait without a response."""
        self.released = self._urgent = True
        changed = self._reader.changed
        for slot, found in self._found.items():
            if found.again or is_news(slot, found):
                changed[slot] = None
        changed.update(dict.fromkeys(self._unread))
        self._found = {}
        if self._reader.wake is not None:
            self._reader.wake()

    # -- responses

    @property
    def size(self) -> int:
        """The size of the records found, in bytes."""
        return self._size

    def responses(self, slots: Iterable[Slot]) -> Handling[list[FetchableTopicResponse]]:
        """Returns the partitions of a full response: every partition of `slots`, in order."""
        return (yield from self._by_topic(list(slots), only_news=False))

    def changes(self) -> Handling[list[FetchableTopicResponse]]:
        """Returns the partitions of an incremental response: those that have changed for the session (KIP-227)."""
        return (yield from self._by_topic(list(self._found), only_news=True))

    def _by_topic(
        self, slots: Sequence[Slot], *, only_news: bool
    ) -> Handling[list[FetchableTopicResponse]]:
        topics: dict[tuple[str, bytes], FetchableTopicResponse] = {}
        found = self._found
        for slot in slots:
            part = found.get(slot)
            if part is None or (only_news and not is_news(slot, part)):
                continue
            key = (slot.topic, slot.topic_id)
            topic = topics.get(key)
            if topic is None:
                topic = topics[key] = FetchableTopicResponse(
                    topic=slot.topic, topic_id=slot.topic_id, partitions=[]
                )
            if part.unlisted is not None:
                yield from self._list_aborted(slot, part, part.unlisted)
            topic.partitions.append(self._taken(slot, part))
            if len(slots) > 1:
                yield None
        return list(topics.values())

    def _list_aborted(self, slot: Slot, found: Found, unlisted: Unlisted) -> Handling[None]:
        try:
            steps = aborted(unlisted.log, found.data.records, unlisted.removals)
            found.data.aborted_transactions = yield from pausing(steps)
        except KafkaError as error:
            found.data, found.size, found.again = self._error_data(slot, error.code), 0, True

    def _taken(self, slot: Slot, found: Found) -> PartitionData:
        slot.sent_watermark = found.watermark
        slot.sent_log_start = found.log_start_offset
        self._count(slot, found)
        if found.size and self._terms.replica_id >= 0:
            assert found.leader is not None, "followers only read from leaders"
            found.leader.records_sent(self._terms.replica_id, slot.fetch_offset, slot.max_bytes)
            if (throttle := self._throttle_of(found.leader)) is not None:
                throttle.record(found.size, found.leader.replica.services.now())
        return found.data

    def _count(self, slot: Slot, found: Found) -> None:
        if found.leader is not None:
            traffic = found.leader.replica.traffic
        elif (named := self._traffic_by_name(slot)) is not None:
            traffic = named
        else:
            return
        traffic.fetches += 1
        if found.data.error_code:
            traffic.failed_fetches += 1
        elif self._terms.replica_id >= 0:
            traffic.replication_bytes_out += found.size
        else:
            traffic.bytes_out += found.size

    def _traffic_by_name(self, slot: Slot) -> TopicTraffic | None:
        """Returns the traffic counters of the topic, or None if the topic has no replica on this broker."""
        try:
            return self._partitions.traffic.find(slot.named_in(self._partitions).topic)
        except KafkaError:
            return None

    def keep_unfinished(self) -> None:
        """Makes the session's next request read the slots with records, and the slots marked `again`, once more. Called
        after a response.

        Slots that did not fit come first, so that busy partitions do not starve the rest.
        """
        changed = self._reader.changed
        for slot, found in self._found.items():
            if found.again:
                changed[slot] = None
        for slot, found in self._found.items():
            if found.size:
                changed[slot] = None

    # -- reading

    def _read(self, slot: Slot, *, is_checked: bool = False) -> Found | None:
        """Reads a slot. Returns None if the log must first be checked, which takes long."""
        try:
            if self._terms.refused:
                raise KafkaError(self._terms.refused)
            may_read = self._terms.may_read
            if may_read is not None and not may_read(slot.named_in(self._partitions).topic):
                raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            partition = slot.partition(self._partitions)
            in_session, reads_followers = self._reader.in_session, self._terms.reads_followers
            if in_session and self._is_untouched(slot, partition):
                slot.attach(partition)
                return _untouched(slot)
            if reads_followers and self._is_empty_follower(slot, partition):
                if in_session:
                    slot.attach(partition)
                return _untouched(slot)
            leader = partition.leader_or_none
            if leader is None or (
                self._terms.isolation_level == READ_COMMITTED and not leader.log.knows_producers
            ):
                must_check = partition.leads and not partition.deleted and partition.must_check
                if must_check and not is_checked:
                    return None
            source: Source
            if reads_followers:
                source = partition.open_for_consumers()
            else:
                source = leader or partition.open_leader()
            if in_session:
                slot.attach(partition)
            found = self._redirected(slot, source) if self._terms.prefer is not None else None
            return found or self._diverged(slot, source) or self._read_log(slot, source)
        except KafkaError as error:
            held = slot.attached_to or self._named(slot)
            if error.code is ErrorCode.KAFKA_STORAGE_ERROR and held is not None:
                self._partitions.suspects.add(
                    held.topic_partition, slot.fetch_offset, slot.max_bytes
                )
            return Found(self._error_data(slot, error.code), 0, urgent=True, again=True)

    def _named(self, slot: Slot) -> Partition | None:
        with suppress(KafkaError):
            return self._partitions.find(slot.named_in(self._partitions))
        return None

    def _is_untouched(self, slot: Slot, partition: Partition) -> bool:
        """Returns whether a follower in a session can be answered without a log."""
        return slot.fetch_offset == 0 and partition.is_untouched_for(self._terms.replica_id)

    def _is_empty_follower(self, slot: Slot, partition: Partition) -> bool:
        """Whether the partition is a follower that has replicated nothing yet: no log is created for a consumer. Raises
        KafkaError OFFSET_OUT_OF_RANGE.
        """
        if partition.leads or not partition.is_new:
            return False
        if slot.fetch_offset:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        return True

    def _redirected(self, slot: Slot, source: Source) -> Found | None:
        """Returns a response without records that names the follower from which the consumer should read."""
        if self._terms.prefer is None or not isinstance(source, PartitionLeader):
            return None
        replica_id = self._terms.prefer(source, slot.fetch_offset)
        if replica_id == FROM_LEADER:
            return None
        data = self._data(slot, source, _NOTHING, source.committed_end)
        data.preferred_read_replica = replica_id
        return Found(data, 0, urgent=True, again=True)

    def _diverged(self, slot: Slot, leader: Source) -> Found | None:
        """Returns the point to truncate to if the reader's last epoch ends elsewhere in this log (KIP-595)."""
        log, offset = leader.log, slot.fetch_offset
        if self._terms.replica_id >= 0 and isinstance(leader, PartitionLeader):
            leader.check_not_outrun(self._terms.replica_id, offset, slot.last_fetched_epoch)
        beyond = offset > log.log_end_offset and slot.last_fetched_epoch < 0
        if offset < log.log_start_offset or beyond:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        if slot.last_fetched_epoch < 0:
            return None
        epoch, end_offset = log.end_offset_for_epoch(slot.last_fetched_epoch)
        if epoch < 0:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        if epoch >= slot.last_fetched_epoch and end_offset >= offset:
            return None
        data = self._data(slot, leader, _NOTHING, leader.committed_end)
        data.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end_offset)
        return Found(data, 0, urgent=True, again=True)

    def _read_log(self, slot: Slot, leader: Source) -> Found:
        """Reads below the watermark. While a new leader does not know whether more was committed before its epoch, a
        consumer at the watermark must not take it for the end of the log (P7): the consumer waits, and gets a retriable
        error after its max wait.
        """
        terms, log = self._terms, leader.log
        is_follower, is_filtered = terms.replica_id >= 0, terms.isolation_level == READ_COMMITTED
        if is_follower:
            assert isinstance(leader, PartitionLeader)
            assert self._reader.clock is not None
            leader.record_fetch(
                terms.replica_id,
                slot.fetch_offset,
                slot.log_start_offset,
                terms.replica_epoch,
                self._reader.clock,
            )
        watermark = leader.committed_end
        if is_follower:
            upto = log.log_end_offset
        else:
            upto = log.last_stable_offset(watermark) if is_filtered else watermark
        slot.seen_upto = upto
        if upto <= slot.fetch_offset and not (is_follower or leader.knows_committed):
            return Found(self._error_data(slot, terms.committed_unknown), 0, again=True)
        piece = None
        budget = terms.max_bytes - self._size
        has_room = budget > 0 or not self._size
        is_throttled = terms.throttle is not None and self._throttles_replica(leader)
        if upto > slot.fetch_offset and has_room and not is_throttled:
            piece = log.read(
                slot.fetch_offset,
                max(0, min(slot.max_bytes, budget)),
                upto_offset=upto,
                min_one=terms.whole_messages and not self._size,
            )
            if piece is None and not terms.whole_messages and slot.max_bytes <= budget:
                return Found(self._data(slot, leader, OVERFLOW, watermark), 0, urgent=True)
        data = self._data(slot, leader, _NOTHING if piece is None else piece, watermark)
        if is_filtered:
            data.aborted_transactions = aborted_at_once(log, piece)
        lists_later = is_filtered and data.aborted_transactions is None
        return Found(
            data,
            0 if piece is None else piece.size,
            again=piece is None and upto > slot.fetch_offset,
            watermark=data.high_watermark,
            log_start_offset=data.log_start_offset,
            leader=leader if isinstance(leader, PartitionLeader) else None,
            unlisted=Unlisted(log, log.removals) if lists_later else None,
        )

    def _throttles_replica(self, source: Source) -> bool:
        """Whether a throttled replica gets no records now, because it is not in sync and the quota is used up
        (KIP-73).
        """
        assert isinstance(source, PartitionLeader), "only followers are throttled"
        throttle = self._throttle_of(source)
        if throttle is None:
            return False
        in_sync = self._terms.replica_id in source.isr.isr
        return not in_sync and throttle.delay(source.replica.services.now()) > 0

    def _throttle_of(self, leader: PartitionLeader) -> ReplicationThrottle | None:
        """Returns the throttle that counts the bytes sent for this replica, or None if it is not throttled."""
        throttle, replica = self._terms.throttle, leader.replica
        return throttle if throttle and throttle.holds(replica.topic_partition) else None

    def _data(
        self, slot: Slot, leader: Source, records: object, watermark: Offset
    ) -> PartitionData:
        # Only read_committed readers need the exact last stable offset; for other readers the log is not scanned.
        must_know = self._terms.isolation_level == READ_COMMITTED
        return PartitionData(
            partition_index=slot.index,
            high_watermark=watermark,
            last_stable_offset=leader.log.last_stable_offset(watermark, must_know=must_know),
            log_start_offset=leader.log.log_start_offset,
            diverging_epoch=_NO_DIVERGENCE,
            current_leader=_NO_LEADER,
            snapshot_id=_NO_SNAPSHOT,
            aborted_transactions=None,
            records=records,  # type: ignore[arg-type]
        )

    def _error_data(self, slot: Slot, code: ErrorCode) -> PartitionData:
        leader = _NO_LEADER
        if self._terms.names_leaders and code in _ELSEWHERE:
            state = self._partitions.state_of(slot.named_in(self._partitions))
            if state is not None:
                leader = LeaderIdAndEpoch(leader_id=state.leader, leader_epoch=state.leader_epoch)
        return PartitionData(
            partition_index=slot.index,
            error_code=code,
            high_watermark=NO_OFFSET,
            diverging_epoch=_NO_DIVERGENCE,
            current_leader=leader,
            snapshot_id=_NO_SNAPSHOT,
            aborted_transactions=None,
            records=_NOTHING,
        )


def _untouched(slot: Slot) -> Found:
    """Returns the result for an empty log that has not been created yet."""
    data = PartitionData(
        partition_index=slot.index,
        high_watermark=_START,
        last_stable_offset=_START,
        log_start_offset=_START,
        diverging_epoch=_NO_DIVERGENCE,
        current_leader=_NO_LEADER,
        snapshot_id=_NO_SNAPSHOT,
        aborted_transactions=None,
        records=_NOTHING,
    )
    return Found(data, 0, watermark=_START, log_start_offset=_START)
