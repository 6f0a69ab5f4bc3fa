"""One Fetch request at work: which partitions to look at, what was found, when it is enough.

Source: `ReplicaManager.fetchMessages` and `DelayedFetch` of Kafka, KIP-74 (byte limits), KIP-227 (what an incremental
answer leaves out), KIP-392 (consumers read from followers). Does no I/O: who defers its response
(`trimaran.broker.handlers.fetch`) is told by `wake`. Only partitions that may have something new are looked at: an idle
partition of a session costs nothing. Left out: tiered storage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeAlias

from trimaran.broker.fetching.aborted import aborted, aborted_at_once
from trimaran.broker.fetching.found import Found, Unlisted, is_news
from trimaran.broker.fetching.replica_selection import FROM_LEADER
from trimaran.broker.fetching.slots import Slot
from trimaran.broker.partitions.follower_reads import FollowerReads
from trimaran.broker.partitions.isr import FetchClock
from trimaran.broker.partitions.leader import PartitionLeader
from trimaran.broker.partitions.partition import Partition
from trimaran.broker.partitions.registry import Partitions
from trimaran.broker.partitions.traffic import TopicTraffic
from trimaran.log.old_formats.down_conversion import OVERFLOW
from trimaran.log.steps import Steps
from trimaran.node.quotas.replication_throttle import ReplicationThrottle
from trimaran.node.runtime.long_lived import LongLived
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import Offset
from trimaran.wire.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    LeaderIdAndEpoch,
    PartitionData,
    SnapshotId,
)
from trimaran.wire.transport.requests.elements import FROZEN_ELEMENTS_MIN
from trimaran.wire.transport.scheduling.events import yield_to_loop

# Looked at between two checkpoints: 5 ms of work.
SLOTS_PER_TURN = 200
# Answered between two checkpoints: 4 ms of work.
ANSWERED_PER_TURN = 2000
READ_COMMITTED = 1
CONSUMER = -1

Source: TypeAlias = PartitionLeader | FollowerReads
_ELSEWHERE = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})
_NO_DIVERGENCE = EpochEndOffset()
_NO_LEADER = LeaderIdAndEpoch()
_NO_SNAPSHOT = SnapshotId()
_NOTHING = (
    b""  # librdkafka takes null records for a protocol error, so Kafka and we send none as no bytes
)


@dataclass(slots=True)
class FetchTerms:
    """What holds for all partitions of one request; `replica_id` is CONSUMER or a broker's that has been checked. Not
    frozen: that takes two microseconds more to make.
    """

    min_bytes: int
    max_bytes: int
    isolation_level: int = 0
    replica_id: int = CONSUMER
    replica_epoch: int = -1
    refused: ErrorCode = ErrorCode.NONE  # for every partition: not the broker it says it is
    names_leaders: bool = False  # tells who leads instead of us (KIP-951)
    whole_messages: bool = (
        True  # the first batch comes even if it is larger than asked for (KIP-74)
    )
    committed_unknown: ErrorCode = ErrorCode.OFFSET_NOT_AVAILABLE  # at the end of what is known
    reads_followers: bool = False  # a consumer that knows KIP-392
    prefer: Callable[[PartitionLeader, int], int] | None = (
        None  # whom it should read an offset from
    )
    may_read: Callable[[str], bool] | None = None  # asked at each look, for topics may be forbidden
    throttle: ReplicationThrottle | None = None  # what followers are given, where any is throttled
    is_follower: bool = field(init=False)

    def __post_init__(self) -> None:
        self.is_follower = self.replica_id >= 0


class FetchReader:
    """The partitions that one fetch, or the fetches of one session, read.

    `changed` are those that may have something to give; `wake` is called when one is added while somebody waits.
    `data_came` says that one was added since the last look for more than a watermark.
    A reader `in_session` outlives the request, so its slots stay attached to their partitions.
    """

    __slots__ = ("changed", "clock", "data_came", "in_session", "wake")

    def __init__(self, *, in_session: bool = False) -> None:
        self.changed: dict[Slot, None] = {}
        self.clock = FetchClock()
        self.in_session = in_session
        self.data_came = False
        self.wake: Callable[[], None] | None = None

    def data_changed(self, interest: Slot) -> None:
        self.changed[interest] = None
        self.data_came = True
        if self.wake is not None:
            self.wake()

    def watermark_changed(self, interest: Slot) -> None:
        """A follower hears of the watermark with whatever it is answered next, at the latest after its max wait."""
        self.changed[interest] = None


class Fetch:
    """The state of one request between its arrival and its answer."""

    __slots__ = (
        "_found",
        "_lists_later",
        "_partitions",
        "_reader",
        "_size",
        "_terms",
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
        self._lists_later = False
        self.released = False

    def look(self) -> bool:
        """Looks at the slots that changed; returns True if there is enough to answer."""
        if self.released:
            return True
        reader = self._reader
        changed, reader.changed, reader.data_came = reader.changed, {}, False
        self._look_at(changed)
        return self._urgent or self._size >= self._terms.min_bytes

    @property
    def is_worth_a_look(self) -> bool:
        """Whether `look` may find enough. A session hears of all but watermarks, which alone end no wait."""
        reader = self._reader
        return self.released or reader.data_came or not reader.in_session

    async def look_ahead(self) -> None:
        """Looks at the slots that changed but for those that `look` takes in one turn."""
        changed = self._reader.changed
        # As the elements of a large request, what is made and found of each is out of the collector's sight.
        found = LongLived() if len(changed) >= FROZEN_ELEMENTS_MIN else None
        if found is not None:
            found.add(len(changed))
        while len(changed) > SLOTS_PER_TURN and not self.released:
            turn = list(islice(changed, SLOTS_PER_TURN))
            for slot in turn:
                del changed[slot]
            self._look_at(turn)
            if found is not None:
                found.add(len(turn))
            await yield_to_loop()
            changed = self._reader.changed

    async def look_again(self) -> None:
        """Looks at all that was found before: what may be read has changed."""
        if not self.released:
            self._reader.changed.update(dict.fromkeys(self._found))
            await self.look_ahead()
            self.look()

    def _look_at(self, slots: Iterable[Slot]) -> None:
        for slot in slots:
            before = self._found.get(slot)
            if before is not None:
                self._size -= before.size
            found = self._found[slot] = self._read(slot)
            self._size += found.size
            self._urgent = self._urgent or found.urgent

    def release(self) -> None:
        """The next request of the session is here: give back what was found and answer nothing."""
        self.released = True
        for slot, found in self._found.items():
            if found.again or is_news(slot, found):
                self._reader.changed[slot] = None
        self._found = {}
        if self._reader.wake is not None:
            self._reader.wake()

    # -- answering

    @property
    def size(self) -> int:
        """Bytes of records found."""
        return self._size

    @property
    def is_small(self) -> bool:
        """Whether the answer takes one turn."""
        return len(self._found) <= ANSWERED_PER_TURN and not self._lists_later

    def answer_all(self, slots: Sequence[Slot]) -> Steps[list[FetchableTopicResponse]]:
        """The answer to a full fetch: every partition asked for, in order."""
        return self._by_topic(slots, lambda _slot, _found: True)

    def answer_changes(self) -> Steps[list[FetchableTopicResponse]]:
        """The answer to an incremental fetch: only what the session has not been told (KIP-227)."""
        return self._by_topic(self._found, is_news)

    def _by_topic(
        self, slots: Iterable[Slot], is_told: Callable[[Slot, Found], bool]
    ) -> Steps[list[FetchableTopicResponse]]:
        """Yields after each turn but the last, and while aborted transactions are looked for."""
        topics: dict[tuple[str, bytes], FetchableTopicResponse] = {}
        found = self._found
        for number, slot in enumerate(list(slots)):
            if number and number % ANSWERED_PER_TURN == 0:
                yield ANSWERED_PER_TURN
            one = found.get(slot)
            if one is None or not is_told(slot, one):
                continue
            key = (slot.topic, slot.topic_id)
            topic = topics.get(key)
            if topic is None:
                topic = topics[key] = FetchableTopicResponse(
                    topic=slot.topic, topic_id=slot.topic_id, partitions=[]
                )
            if one.unlisted is not None:
                yield from self._list_aborted(slot, one, one.unlisted)
            topic.partitions.append(self._taken(slot, one))
        return list(topics.values())

    def _list_aborted(self, slot: Slot, found: Found, unlisted: Unlisted) -> Steps[None]:
        try:
            found.data.aborted_transactions = yield from aborted(
                unlisted.log, found.data.records, unlisted.removals
            )
        except KafkaError as error:
            found.data, found.size, found.again = self._error_data(slot, error.code), 0, True

    def _taken(self, slot: Slot, found: Found) -> PartitionData:
        slot.sent_watermark = found.watermark
        slot.sent_log_start = found.log_start_offset
        self._count(slot, found)
        if found.size and self._terms.is_follower:
            assert found.leader is not None, "followers read from leaders alone"
            found.leader.given(self._terms.replica_id, slot.fetch_offset, slot.max_bytes)
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
        elif self._terms.is_follower:
            traffic.replication_bytes_out += found.size
        else:
            traffic.bytes_out += found.size

    def _traffic_by_name(self, slot: Slot) -> TopicTraffic | None:
        """None for a topic that has no replica here."""
        try:
            return self._partitions.traffic.find(slot.name_in(self._partitions))
        except KafkaError:
            return None

    def keep_unfinished(self) -> None:
        """After answering in a session: what had something to give is looked at again by the next request.

        Those that were not reached come first, so that no partition starves behind busy ones.
        """
        changed = self._reader.changed
        for slot, found in self._found.items():
            if found.again:
                changed[slot] = None
        for slot, found in self._found.items():
            if found.size:
                changed[slot] = None

    # -- looking

    def _read(self, slot: Slot) -> Found:
        try:
            if self._terms.refused:
                raise KafkaError(self._terms.refused)
            may_read = self._terms.may_read
            if may_read is not None and not may_read(slot.name_in(self._partitions)):
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
            source: Source = (
                partition.open_for_consumers() if reads_followers else partition.open_leader()
            )
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
            return self._partitions.find(slot.name_in(self._partitions), slot.index)
        return None

    def _is_untouched(self, slot: Slot, partition: Partition) -> bool:
        """A follower that stands in a session can be answered without a log."""
        return slot.fetch_offset == 0 and partition.is_untouched_for(self._terms.replica_id)

    def _is_empty_follower(self, slot: Slot, partition: Partition) -> bool:
        """Nothing was replicated here yet, and no log is made for a consumer. Raises KafkaError OFFSET_OUT_OF_RANGE."""
        if partition.leads or not partition.is_new:
            return False
        if slot.fetch_offset:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        return True

    def _redirected(self, slot: Slot, source: Source) -> Found | None:
        """Tells a consumer which follower it should read from, instead of records."""
        if self._terms.prefer is None or not isinstance(source, PartitionLeader):
            return None
        replica_id = self._terms.prefer(source, slot.fetch_offset)
        if replica_id == FROM_LEADER:
            return None
        data = self._data(slot, source, _NOTHING)
        data.preferred_read_replica = replica_id
        return Found(data, 0, urgent=True, again=True)

    def _diverged(self, slot: Slot, leader: Source) -> Found | None:
        """Tells a reader whose last epoch ends elsewhere here where to cut back (KIP-595)."""
        log, offset = leader.log, slot.fetch_offset
        if self._terms.is_follower and isinstance(leader, PartitionLeader):
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
        data = self._data(slot, leader, _NOTHING)
        data.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end_offset)
        return Found(data, 0, urgent=True, again=True)

    def _read_log(self, slot: Slot, leader: Source) -> Found:
        """What lies before the watermark; a consumer that stands at it is not told that this is the end as long as it
        may have been further once (P7): it waits, and after its time hears a retriable error.
        """
        terms, log = self._terms, leader.log
        if terms.is_follower:
            assert isinstance(leader, PartitionLeader)
            leader.record_fetch(
                terms.replica_id,
                slot.fetch_offset,
                slot.log_start_offset,
                terms.replica_epoch,
                self._reader.clock,
            )
            upto = log.log_end_offset
        else:
            upto = self._readable_end(leader)
        slot.seen_upto = upto
        if upto <= slot.fetch_offset and not (terms.is_follower or leader.knows_committed):
            return Found(self._error_data(slot, terms.committed_unknown), 0, again=True)
        piece = None
        budget = terms.max_bytes - self._size
        has_room = budget > 0 or not self._size
        held_back = terms.throttle is not None and self._held_back(leader)
        if upto > slot.fetch_offset and has_room and not held_back:
            piece = log.read(
                slot.fetch_offset,
                max(0, min(slot.max_bytes, budget)),
                upto_offset=upto,
                min_one=terms.whole_messages and not self._size,
            )
            if piece is None and not terms.whole_messages and slot.max_bytes <= budget:
                return Found(self._data(slot, leader, OVERFLOW), 0, urgent=True)
        data = self._data(slot, leader, _NOTHING if piece is None else piece)
        if is_filtered := terms.isolation_level == READ_COMMITTED:
            data.aborted_transactions = aborted_at_once(log, piece)
        lists_later = is_filtered and data.aborted_transactions is None
        self._lists_later = self._lists_later or lists_later
        return Found(
            data,
            0 if piece is None else piece.size,
            again=piece is None and upto > slot.fetch_offset,
            watermark=data.high_watermark,
            log_start_offset=data.log_start_offset,
            leader=leader if isinstance(leader, PartitionLeader) else None,
            unlisted=Unlisted(log, log.removals) if lists_later else None,
        )

    def _held_back(self, source: Source) -> bool:
        """Whether a throttled replica is given nothing now: it is not in sync, and too much was given (KIP-73)."""
        assert isinstance(source, PartitionLeader), "followers alone are throttled"
        throttle = self._throttle_of(source)
        if throttle is None:
            return False
        in_sync = self._terms.replica_id in source.isr.isr
        return not in_sync and throttle.delay(source.replica.services.now()) > 0

    def _throttle_of(self, leader: PartitionLeader) -> ReplicationThrottle | None:
        """What counts the bytes that are given of this replica."""
        throttle, replica = self._terms.throttle, leader.replica
        return throttle if throttle and throttle.holds(replica.topic_partition) else None

    def _readable_end(self, leader: Source) -> Offset:
        """Where a consumer stops."""
        watermark = leader.committed_end
        if self._terms.isolation_level == READ_COMMITTED:
            return leader.log.last_stable_offset(watermark)
        return watermark

    def _stable_offset(self, leader: Source, watermark: int) -> int:
        """A log whose producers nobody asked for is not scanned for a number that only read_committed readers go by."""
        log = leader.log
        if self._terms.isolation_level == READ_COMMITTED or log.knows_producers:
            return log.last_stable_offset(watermark)
        return watermark

    def _data(self, slot: Slot, leader: Source, records: object) -> PartitionData:
        watermark = leader.committed_end
        return PartitionData(
            partition_index=slot.index,
            high_watermark=watermark,
            last_stable_offset=self._stable_offset(leader, watermark),
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
            state = self._partitions.state_of(slot.name_in(self._partitions), slot.index)
            if state is not None:
                leader = LeaderIdAndEpoch(leader_id=state.leader, leader_epoch=state.leader_epoch)
        return PartitionData(
            partition_index=slot.index,
            error_code=code,
            high_watermark=-1,
            diverging_epoch=_NO_DIVERGENCE,
            current_leader=leader,
            snapshot_id=_NO_SNAPSHOT,
            aborted_transactions=None,
            records=_NOTHING,
        )


def _untouched(slot: Slot) -> Found:
    """What the empty log of the partition would give, if anybody had needed it yet."""
    data = PartitionData(
        partition_index=slot.index,
        high_watermark=0,
        last_stable_offset=0,
        log_start_offset=0,
        diverging_epoch=_NO_DIVERGENCE,
        current_leader=_NO_LEADER,
        snapshot_id=_NO_SNAPSHOT,
        aborted_transactions=None,
        records=_NOTHING,
    )
    return Found(data, 0, watermark=0, log_start_offset=0)
