"""One share fetch at work: finds the share partitions with records, and acquires them for the member.

A fetch waits until enough bytes can be acquired. Nothing is acquired before, so members that wait hold no records. Each
partition is read and acquired in one step; only the search for its aborted transactions may take several. Source:
`DelayedShareFetch`, `ShareFetchUtils` of Kafka.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from trimaran.broker.fetching.aborted import aborted, aborted_at_once
from trimaran.broker.partitions.lookups import pausing
from trimaran.broker.sharing.acquiring import Acquired, BatchBounds, Demand
from trimaran.broker.sharing.led_share import LedShare
from trimaran.broker.sharing.rules import AcquireMode
from trimaran.broker.sharing.sessions import ShareSession
from trimaran.log.batches.batch import BatchView
from trimaran.log.segments.scan import scan_headers
from trimaran.log.segments.slices import LogSlice
from trimaran.wire.errors import ErrorCode, KafkaError, KeptError
from trimaran.wire.identity import Offset, Position, ProducerId, TopicIdPartition
from trimaran.wire.transport.scheduling.effects import Handling
from trimaran.wire.transport.scheduling.events import AutoResetEvent
from trimaran.wire.transport.scheduling.pauses import pauses

# The share partitions that are counted between two yields: a fraction of a millisecond.
COUNTED_A_STEP = 100
# The maximum number of batches that one acquisition examines: some milliseconds. The next fetch gets the batches after
# them, as if this one had requested fewer bytes.
LOOKED_AT_MAX = 1_000


@dataclass(frozen=True, slots=True)
class ShareTerms:
    """The request's demands; `reads_committed` is the group's isolation level."""

    session: ShareSession
    mode: AcquireMode
    max_records: int
    batch_size: int
    min_bytes: int
    max_bytes: int
    reads_committed: bool


class FoundRecords(NamedTuple):
    """The records in the response of a partition; `size` in bytes."""

    records: LogSlice | None
    acquired: Sequence[Acquired]

    @property
    def size(self) -> int:
        return 0 if self.records is None else self.records.size


class _BatchPlace(NamedTuple):
    """The place of a batch in the file, and its header."""

    position: Position
    view: BatchView


@dataclass(slots=True, eq=False)
class ShareFetch:
    """The fetch of one request from the share partitions that could be opened, in the order of reading."""

    terms: ShareTerms
    shares: dict[TopicIdPartition, LedShare]
    changed: AutoResetEvent = field(default_factory=AutoResetEvent)

    def wake(self) -> None:
        """Makes the fetch check again for records."""
        self.changed.set()

    def attach(self) -> None:
        """Wakes the fetch from now on when a share partition changes."""
        for share in self.shares.values():
            share.readers[self] = None

    def detach(self) -> None:
        for share in self.shares.values():
            share.readers.pop(self, None)

    # -- looking

    def has_enough(self) -> Handling[bool]:
        """Whether the minimum of bytes can be acquired, or a share partition has ended."""
        size, per_partition = 0, (yield from self._bytes_each())
        for share in self.shares.values():
            if len(self.shares) > 1:
                yield None
            if share.error is not None:
                return True
            if not share.can_acquire:
                continue
            try:
                piece = self._read(share, per_partition, is_first=True)
            except KafkaError:
                return True
            size += 0 if piece is None else min(piece.size, per_partition)
            if size >= self.terms.min_bytes:
                return True
        return False

    def size_at_hand(self) -> Handling[int]:
        """Returns an upper bound of the bytes that can be acquired now."""
        size, per_partition = 0, (yield from self._bytes_each())
        for share in self.shares.values():
            if len(self.shares) > 1:
                yield None
            if share.can_acquire:
                try:
                    piece = self._read(share, per_partition, is_first=not size)
                except KafkaError:
                    continue
                size += 0 if piece is None else piece.size
        return size

    def _bytes_each(self) -> Handling[int]:
        """Returns the maximum bytes of one partition: as in Kafka, all partitions that may be read now get the same
        number.
        """
        readable, pause = 0, pauses(COUNTED_A_STEP)
        for share in self.shares.values():
            readable += share.can_acquire
            yield from next(pause)
        return max(1, self.terms.max_bytes // max(1, readable))

    def _read(self, share: LedShare, max_bytes: int, *, is_first: bool) -> LogSlice | None:
        """Reads from the next offset of a share partition. Raises KafkaError."""
        core, leader = share.core, share.leader
        assert core is not None, "only a loaded share partition is read"
        if leader.ended:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        log = leader.log
        core.begin_at(log.log_start_offset)
        offset, upto = core.next_fetch_offset(), leader.committed_end
        if self.terms.reads_committed:
            upto = log.last_stable_offset(upto)
        if offset >= upto:
            return None
        return log.read(offset, max_bytes, upto_offset=upto, min_one=is_first)

    # -- acquiring

    def acquire(self) -> Handling[dict[TopicIdPartition, FoundRecords | KeptError]]:
        """Acquires records of each share partition, up to the limits; the result names every partition."""
        results: dict[TopicIdPartition, FoundRecords | KeptError] = {}
        left, budget = self.terms.max_records, self.terms.max_bytes
        per_partition, has_any = (yield from self._bytes_each()), False
        for key, share in self.shares.items():
            if results:
                yield None
            if share.error is not None:
                results[key] = share.error
                continue
            results[key] = FoundRecords(None, ())
            if left <= 0 or not share.can_acquire or budget <= 0:
                continue
            try:
                most = min(per_partition, max(0, budget))
                found = yield from self._acquire(share, most, left, is_first=not has_any)
            except KafkaError as error:
                results[key] = KeptError.of(error)
                continue
            results[key] = found
            has_any = has_any or bool(found.size)
            budget -= found.size
            left -= sum(part.last - part.first + 1 for part in found.acquired)
        return results

    def _acquire(
        self, share: LedShare, max_bytes: int, max_records: int, *, is_first: bool
    ) -> Handling[FoundRecords]:
        piece = self._read(share, max_bytes, is_first=is_first)
        core = share.core
        assert core is not None
        offset = core.next_fetch_offset()
        if piece is None:
            return FoundRecords(None, ())
        try:
            looks = _looked_at(piece)
        except OSError as error:
            raise share.leader.log.health.fail(f"read in {share.key}: {error}") from error
        unwanted: list[BatchBounds] = []
        if self.terms.reads_committed:
            listed = aborted_at_once(share.leader.log, piece)
            if listed is None:
                log = share.leader.log
                listed = yield from pausing(aborted(log, piece, log.removals))
                if share.error is not None:
                    raise share.error.as_error()
            unwanted = _aborted_batches(
                looks, [(each.first_offset, each.producer_id) for each in listed]
            )
        terms = self.terms
        if terms.session.is_over:
            return FoundRecords(None, ())
        demand = Demand(terms.session.member_id, terms.mode, terms.batch_size, max_records)
        bounds = [BatchBounds(look.view.base_offset, look.view.last_offset) for look in looks]
        acquired = share.acquire(bounds, offset, demand, unwanted)
        if not acquired:
            return FoundRecords(None, ())
        return FoundRecords(_with_acquired(piece, looks, acquired), acquired)


def _looked_at(piece: LogSlice) -> list[_BatchPlace]:
    looks = []
    end = piece.position + piece.size
    for position, view in scan_headers(piece.files, piece.file, piece.position, end):
        looks.append(_BatchPlace(position, view))
        if len(looks) == LOOKED_AT_MAX:
            break
    return looks


def _aborted_batches(
    looks: Sequence[_BatchPlace], listed: Sequence[tuple[Offset, ProducerId]]
) -> list[BatchBounds]:
    """Returns the batches of aborted transactions, without their markers."""
    coming, found = sorted(listed, reverse=True), []
    aborting: set[ProducerId] = set()
    for _, view in looks:
        while coming and coming[-1][0] <= view.last_offset:
            aborting.add(coming.pop()[1])
        if view.is_control:
            aborting.discard(view.producer_id)  # the marker that ends the transaction
        elif view.is_transactional and view.producer_id in aborting:
            found.append(BatchBounds(view.base_offset, view.last_offset))
    return found


def _with_acquired(
    piece: LogSlice, looks: Sequence[_BatchPlace], acquired: Sequence[Acquired]
) -> LogSlice:
    """Returns the part of a piece from the batch of the first acquired record to that of the last."""
    first, last = acquired[0].first, acquired[-1].last
    begin = looks[0]
    for look in looks:
        if look.view.base_offset > first:
            break
        begin = look
    end = begin
    for look in looks:
        if look.view.base_offset > last:
            break
        end = look
    size = end.position + end.view.size - begin.position
    return LogSlice(
        piece.file,
        begin.position,
        size,
        first,
        Offset(end.view.last_offset + 1),
        piece.files,
    )
