"""The share session of a member with one leader (KIP-932): its next request, and the records of a response.

The epoch counts the requests of the session. Acknowledgements wait here for the next request to the leader. A session
that the leader has lost begins again: its records go to other members, unless their acknowledgements arrived before.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

from trimaran.log.batches.batch import iter_batches
from trimaran.log.batches.records import Record, iter_records
from trimaran.wire.identity import Offset, SessionEpoch, TopicIdPartition
from trimaran.wire.messages import share_acknowledge, share_fetch

Made = TypeVar("Made")

# Kinds of acknowledgement (KIP-932). A gap is an acquired offset without a record, such as a control record.
GAP, ACCEPT, RELEASE, REJECT = range(4)
FIRST, FINAL = SessionEpoch(0), SessionEpoch(-1)
EPOCH_MAX = (1 << 31) - 1
# The acquire mode in which a leader never returns more records than `max_records` (KIP-1206).
RECORD_LIMIT = 1
FETCH_BYTES_MAX = 1 << 20
# The maximum number of headers that are decoded of a record. It bounds memory: a header of two bytes becomes an object
# of a hundred bytes.
HEADERS_READ = 10_000


class Acknowledged(NamedTuple):
    """Acknowledged offsets from `first` to `last`, all of one kind."""

    first: Offset
    last: Offset
    kind: int


class SharedRecord(NamedTuple):
    """An acquired record; `deliveries` counts this delivery and all before it."""

    partition: TopicIdPartition
    record: Record
    deliveries: int


class LeaderSession:
    """The session with one leader. A request that was sent is followed by `received` or by `lost`."""

    def __init__(self, group: str, member: str) -> None:
        self._group, self._member = group, member
        self._epoch = FIRST
        self._named: set[TopicIdPartition] = set()
        self._waiting: dict[TopicIdPartition, list[Acknowledged]] = {}
        self._sent: dict[TopicIdPartition, list[Acknowledged]] = {}

    def sent_of(self, partition: TopicIdPartition) -> int:
        """Returns the number of records of a partition that the last request acknowledged."""
        runs = self._sent.get(partition, ())
        return sum(run.last - run.first + 1 for run in runs if run.kind != GAP)

    @property
    def sent(self) -> int:
        """Returns the number of records that the last request acknowledged."""
        return sum(map(self.sent_of, self._sent))

    @property
    def is_open(self) -> bool:
        """Whether the leader knows the session."""
        return self._epoch != FIRST

    def acknowledge(self, partition: TopicIdPartition, offset: Offset, kind: int) -> None:
        """Acknowledges a record with the next request; the records of a partition in the order of their offsets. Does
        nothing if the session is lost.
        """
        self._add(partition, Acknowledged(offset, offset, kind))

    def _add(self, partition: TopicIdPartition, new: Acknowledged) -> None:
        if not self.is_open:
            return
        runs = self._waiting.setdefault(partition, [])
        if runs and runs[-1].last + 1 == new.first and runs[-1].kind == new.kind:
            runs[-1] = runs[-1]._replace(last=new.last)
        else:
            runs.append(new)

    def fetch(
        self,
        wanted: Collection[TopicIdPartition],
        *,
        wait_ms: int,
        records_max: int,
        is_strict: bool,
    ) -> share_fetch.ShareFetchRequest:
        """Returns the next fetch. Partitions that are no longer wanted are forgotten, with their acknowledgements sent.

        Args:
            wanted: all partitions to read.
            wait_ms: the time in which the leader may wait for records.
            records_max: the number of records to acquire.
            is_strict: acquire no more than that; otherwise the rest of their batch, too.
        """
        acknowledged = self._sent = self._waiting
        self._waiting = {}
        forgotten = self._named - set(wanted)
        added = set(wanted) - self._named
        topics = _by_topic(
            added | acknowledged.keys(),
            lambda key: share_fetch.FetchPartition(
                partition_index=key.partition,
                acknowledgement_batches=[
                    share_fetch.AcknowledgementBatch(
                        first_offset=run.first, last_offset=run.last, acknowledge_types=[run.kind]
                    )
                    for run in acknowledged.get(key, ())
                ],
            ),
        )
        self._named = set(wanted)
        return share_fetch.ShareFetchRequest(
            group_id=self._group,
            member_id=self._member,
            share_session_epoch=self._epoch,
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=FETCH_BYTES_MAX,
            max_records=records_max,
            batch_size=records_max,
            share_acquire_mode=RECORD_LIMIT if is_strict else 0,
            topics=[
                share_fetch.FetchTopic(topic_id=id_, partitions=p) for id_, p in topics.items()
            ],
            forgotten_topics_data=[
                share_fetch.ForgottenTopic(topic_id=id_, partitions=partitions)
                for id_, partitions in _by_topic(forgotten, lambda key: key.partition).items()
            ],
        )

    def closing(self) -> share_acknowledge.ShareAcknowledgeRequest | None:
        """Returns the last request, which sends the acknowledgements that wait, and gives all other records back; None
        without a session.
        """
        if not self.is_open:
            return None
        acknowledged = self._sent = self._waiting
        self._waiting = {}
        topics = _by_topic(
            acknowledged.keys(),
            lambda key: share_acknowledge.AcknowledgePartition(
                partition_index=key.partition,
                acknowledgement_batches=[
                    share_acknowledge.AcknowledgementBatch(
                        first_offset=run.first, last_offset=run.last, acknowledge_types=[run.kind]
                    )
                    for run in acknowledged[key]
                ],
            ),
        )
        self._epoch = FIRST
        return share_acknowledge.ShareAcknowledgeRequest(
            group_id=self._group,
            member_id=self._member,
            share_session_epoch=FINAL,
            topics=[
                share_acknowledge.AcknowledgeTopic(topic_id=id_, partitions=p)
                for id_, p in topics.items()
            ],
        )

    def received(self) -> None:
        """Counts a request that the leader has answered without an error of the session."""
        self._epoch = SessionEpoch(1 if self._epoch >= EPOCH_MAX else self._epoch + 1)

    def lost(self) -> None:
        """Begins again: the leader does not know the session, or may not have received a request."""
        self._epoch = FIRST
        self._named.clear()
        self._waiting.clear()

    def records(
        self, partition: TopicIdPartition, told: share_fetch.PartitionData
    ) -> Iterator[SharedRecord]:
        """Yields the acquired records of a partition in order, and acknowledges the gaps before each and after the
        last.
        """
        found = _records(told)
        record = next(found, None)
        for acquired in told.acquired_records:
            at = acquired.first_offset
            while record is not None and record.offset <= acquired.last_offset:
                if record.offset >= at:
                    self._skip(partition, at, record.offset - 1)
                    at = record.offset + 1
                    yield SharedRecord(partition, record, acquired.delivery_count)
                record = next(found, None)
            self._skip(partition, at, acquired.last_offset)

    def _skip(self, partition: TopicIdPartition, first: Offset, last: Offset) -> None:
        if first <= last:
            self._add(partition, Acknowledged(first, last, GAP))


def _records(told: Any) -> Iterator[Record]:
    """Yields the records of the batches, acquired or not; control records are not records of an application."""
    for batch in iter_batches(told.records or b"", allow_partial_tail=True):
        if not batch.is_control:
            for record, _ in iter_records(batch, headers_max=HEADERS_READ):
                yield record


def _by_topic(
    keys: Iterable[TopicIdPartition], made: Callable[[TopicIdPartition], Made]
) -> dict[bytes, list[Made]]:
    """Returns `made(key)` for each partition, as a list for each topic id, in the order of the partitions."""
    found: dict[bytes, list[Made]] = {}
    for key in sorted(keys):
        found.setdefault(key.topic_id, []).append(made(key))
    return found
