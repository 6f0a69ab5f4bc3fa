"""Random acquisitions, acknowledgements and faults, compared with a naive twin that has one entry per record."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.broker.sharing.driver import LOCK_SECONDS, Driver
from trimaran.broker.share_state.states import DeliveryState
from trimaran.wire.errors import ErrorCode, KafkaError

AVAILABLE, ACQUIRED = DeliveryState.AVAILABLE, DeliveryState.ACQUIRED
ACKNOWLEDGED, ARCHIVED = DeliveryState.ACKNOWLEDGED, DeliveryState.ARCHIVED
STATES = {0: ARCHIVED, 1: ACKNOWLEDGED, 2: AVAILABLE, 3: ARCHIVED}
MEMBERS = ("a", "b", "c")
RECORDS, STEPS, LIMIT, LOCKS = 300, 150, 3, 60
RENEW = 4


@dataclass
class Record:
    """The twin's state of one record; `before` is what it returns to if the pending write fails."""

    state: DeliveryState
    count: int
    member: str
    deadline: float
    before: Record | None = None
    is_pending: bool = False

    @property
    def is_done(self):
        return not self.is_pending and self.state in (ACKNOWLEDGED, ARCHIVED)


class Twin:
    """One entry per record in flight."""

    def __init__(self):
        self.start = 0
        self.records = {}

    @property
    def end(self):
        return max(self.records, default=self.start)

    def acquired(self, found, member, now):
        """Checks that each record may be delivered, and updates the twin."""
        for first, last, count in found:
            for offset in range(first, last + 1):
                record = self.records.get(offset)
                if record is None:
                    assert offset >= self.start
                    assert count == 1
                else:
                    assert record.state is AVAILABLE
                    assert not record.is_pending
                    assert count == record.count + 1
                self.records[offset] = Record(ACQUIRED, count, member, now + LOCK_SECONDS)

    def refusal(self, member, first, last):
        if last < self.start:
            return None
        if not self.records:
            return ErrorCode.INVALID_RECORD_STATE
        if last > self.end:
            return ErrorCode.INVALID_REQUEST
        for offset in range(max(first, self.start), last + 1):
            record = self.records[offset]
            if record.state is not ACQUIRED or record.member != member:
                return ErrorCode.INVALID_RECORD_STATE
        return None

    def renew(self, member, first, last, types, now):
        """Renews what a refused acknowledgement has renewed before it came to the refused record."""
        for offset in range(max(first, self.start), last + 1):
            record = self.records.get(offset)
            if record is None or record.state is not ACQUIRED or record.member != member:
                return
            if types[0 if len(types) == 1 else offset - first] == RENEW:
                record.deadline = now + LOCK_SECONDS

    def acknowledge(self, first, last, types, now):
        """Returns what is to be stored."""
        change = {}
        for offset in range(max(first, self.start), last + 1):
            given = types[0] if len(types) == 1 else types[offset - first]
            if given == RENEW:
                self.records[offset].deadline = now + LOCK_SECONDS
            else:
                change[offset] = self.begin(offset, STATES[given])
        return change

    def release(self, member):
        return {
            offset: self.begin(offset, AVAILABLE if offset >= self.start else ARCHIVED)
            for offset, record in sorted(self.records.items())
            if record.state is ACQUIRED and record.member == member
        }

    def begin(self, offset, state):
        record = self.records[offset]
        record.before, record.is_pending = replace(record), True
        record.state, record.member = self.resolved(record, state), ""
        return record.state, record.count

    def resolved(self, record, state):
        return ARCHIVED if state is AVAILABLE and record.count >= LIMIT else state

    def finish(self, change, now, is_stored):
        for offset in change:
            record = self.records[offset]
            before, record.before, record.is_pending = record.before, None, False
            if is_stored or before is None:
                continue
            if record.deadline <= now:
                record.state = self.resolved(record, AVAILABLE)
            else:
                record.state, record.member = before.state, before.member
            if record.state is AVAILABLE and offset < self.start:
                record.state = ARCHIVED
        self.archive_before_start()
        self.advance()

    def archive_before_start(self):
        for offset, record in self.records.items():
            if offset < self.start and record.state is AVAILABLE:
                record.state, record.before = ARCHIVED, None

    def end_locks(self, now):
        ended = {}
        for offset, record in sorted(self.records.items()):
            if record.state is ACQUIRED and record.deadline <= now:
                state = AVAILABLE if offset >= self.start else ARCHIVED
                record.state, record.member = self.resolved(record, state), ""
                ended[offset] = record.state, record.count
        self.advance()
        return ended

    def begin_at(self, log_start):
        if log_start > self.start:
            self.start = log_start
            self.archive_before_start()
        self.advance()

    def advance(self):
        blocked = any(o < self.start and not r.is_done for o, r in self.records.items())
        here = self.records.get(self.start)
        if here is not None and here.is_done and not blocked:
            while (here := self.records.get(self.start)) is not None and here.is_done:
                self.start += 1
            self.records = {o: r for o, r in self.records.items() if o >= self.start}
        if (
            not blocked
            and all(record.is_done for record in self.records.values())
            and (self.start in self.records)
        ):
            self.records = {}

    @property
    def next_free(self):
        return next(
            (o for o, r in sorted(self.records.items()) if r.state is AVAILABLE
             and not r.is_pending),
            None,
        )  # fmt: skip


def spread(batches):
    """Returns the state and deliveries of each offset."""
    return {
        offset: (batch.state, batch.delivery_count)
        for batch in batches
        for offset in range(batch.first_offset, batch.last_offset + 1)
    }


class Pair:
    """A share partition and its twin under the same actions."""

    def __init__(self, random):
        self.random = random
        self.share = Driver(deliveries_max=LIMIT, record_locks_max=LOCKS)
        self.twin = Twin()
        # The log: batches of one to nine records.
        self.log, offset = [], 0
        while offset < RECORDS:
            size = random.randint(1, 9)
            self.log.append((offset, offset + size - 1))
            offset += size
        self.pending = []

    def acquire(self):
        share, random = self.share, self.random
        if not share.partition.can_acquire(share.rules):
            return
        at = share.partition.next_fetch_offset()
        bounds = [bound for bound in self.log if bound[1] >= at][: random.randint(1, 5)]
        if not bounds:
            return
        member, most = random.choice(MEMBERS), random.randint(1, 30)
        exact = random.random() < 0.5
        found = share.acquire(
            *bounds, member=member, at=at, most=most, size=random.randint(1, 20), exact=exact
        )
        assert not exact or sum(last - first + 1 for first, last, _ in found) <= most
        self.twin.acquired(found, member, share.now)
        for first, _, _ in found:
            assert first >= self.twin.start
        for offset in range(self.twin.end + 1, share.partition.end + 1):
            # The rest of a batch that was not wanted.
            self.twin.records[offset] = Record(AVAILABLE, 0, "", 0.0)

    def acknowledge(self):
        random, share = self.random, self.share
        first = random.randint(max(0, self.twin.start - 3), self.twin.end + 2)
        last = first + random.randint(0, 12)
        types = [random.choice((0, 1, 1, 1, 2, 3, RENEW))]
        if random.random() < 0.4:
            types = [random.choice((0, 1, 2, 3, RENEW)) for _ in range(last - first + 1)]
        member = random.choice(MEMBERS)
        if random.random() < 0.7 and first in self.twin.records:
            member = self.twin.records[first].member or member
        expected = self.twin.refusal(member, first, last)
        if expected is not None:
            with pytest.raises(KafkaError) as refused:
                share.decide((first, last, types), member=member)
            assert refused.value.code is expected
            if expected is ErrorCode.INVALID_RECORD_STATE:
                self.twin.renew(member, first, last, types, share.now)
            return
        change = share.decide((first, last, types), member=member)
        wanted = self.twin.acknowledge(first, last, types, share.now)
        assert spread(change.batches) == wanted
        self.pending.append((change, wanted))

    def release(self):
        member = self.random.choice(MEMBERS)
        change = self.share.releasing(member)
        wanted = self.twin.release(member)
        assert spread(change.batches) == wanted
        self.pending.append((change, wanted))

    def finish(self):
        if self.pending:
            change, wanted = self.pending.pop(self.random.randrange(len(self.pending)))
            is_stored = self.random.random() < 0.8
            self.share.finish(change, is_stored=is_stored)
            self.twin.finish(wanted, self.share.now, is_stored)

    def pass_time(self):
        ended = self.share.pass_time(self.random.choice((1, 5, 20)))
        assert spread(ended) == self.twin.end_locks(self.share.now)

    def begin_at(self):
        log_start = self.twin.start + self.random.randint(0, 4)
        if log_start <= self.twin.end:
            self.share.partition.begin_at(log_start)
            self.twin.begin_at(log_start)

    def check(self):
        partition, twin = self.share.partition, self.twin
        assert partition.start == twin.start
        if twin.records:
            assert partition.end == twin.end
            states = spread(partition.states())
            assert {o: states[o] for o in twin.records if o >= twin.start} == {
                o: (r.state, r.count) for o, r in twin.records.items() if o >= twin.start
            }
            done = sum(
                o >= twin.start and r.state in (ACKNOWLEDGED, ARCHIVED)
                for o, r in twin.records.items()
            )
            assert partition.summary().delivery_complete_count == done
        free = twin.next_free
        if free is not None:
            assert partition.next_fetch_offset() == free


@given(seed=st.integers(0, 1 << 32))
def test_random_shares_are_like_single_records(seed):
    random = Random(seed)
    pair = Pair(random)
    actions = (
        [pair.acquire] * 4 + [pair.acknowledge] * 6 + [pair.finish] * 5
        + [pair.pass_time, pair.release, pair.begin_at]
    )  # fmt: skip
    for _ in range(STEPS):
        random.choice(actions)()
        pair.check()


@given(seed=st.integers(0, 1 << 32))
def test_every_record_is_delivered_at_last(seed):
    random = Random(seed)
    pair = Pair(random)
    share, seen = pair.share, set()
    for _ in range(3_000):
        if share.partition.start > pair.log[-1][1]:
            break
        at = share.partition.next_fetch_offset()
        bounds = [bound for bound in pair.log if bound[1] >= at][:3]
        found = share.acquire(*bounds, at=at, most=20) if bounds else []
        for first, last, _ in found:
            seen.update(range(first, last + 1))
            share.acknowledge((first, last, [random.choice((1, 2, 3))]))
        if not found:
            share.pass_time(LOCK_SECONDS)
    assert share.partition.start == pair.log[-1][1] + 1
    assert seen == set(range(pair.log[-1][1] + 1))
