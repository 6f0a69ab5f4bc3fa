"""A share partition for tests, with a clock and short calls."""

from __future__ import annotations

from trimaran.broker.groups.heartbeating.work import done
from trimaran.broker.share_state.states import DeliveryState, ShareState, ShareSummary, StateBatch
from trimaran.broker.sharing.acknowledging import Acknowledgement
from trimaran.broker.sharing.acquiring import BatchBounds, Demand
from trimaran.broker.sharing.rules import AcquireMode, SharingRules
from trimaran.broker.sharing.share_partition import SharePartition

LOCK_SECONDS = 30.0
STATE_EPOCH, LEADER_EPOCH = 4, 7


def states(*batches):
    """Returns state batches from (first, last, state, deliveries)."""
    return [StateBatch(first, last, DeliveryState[state], n) for first, last, state, n in batches]


def fetched(*bounds):
    """Returns fetched batches from (base offset, last offset)."""
    return [BatchBounds(*bound) for bound in bounds]


class Driver:
    """Drives one share partition; `now` is moved by the test."""

    def __init__(self, start=0, batches=(), **rules):
        state = ShareState(ShareSummary(STATE_EPOCH, LEADER_EPOCH, start, None), tuple(batches))
        self.partition = SharePartition(state, start, LEADER_EPOCH)
        self.rules = SharingRules(lock_seconds=LOCK_SECONDS, **rules)
        self.now = 0.0
        self.abandoned = []

    def acquire(self, *bounds, member="m", at=None, most=500, size=500, exact=False, aborted=()):
        """Acquires records of fetched batches; returns them as (first, last, deliveries)."""
        at = bounds[0][0] if at is None else at
        mode = AcquireMode.RECORD_LIMIT if exact else AcquireMode.BATCH_OPTIMIZED
        demand = Demand(member, mode, size, most)
        found = self.partition.acquire(
            fetched(*bounds), at, demand, self.rules, self.now, fetched(*aborted)
        )
        return [tuple(part) for part in found]

    def decide(self, *acknowledgements, member="m"):
        """Decides acknowledgements (first, last, types); returns the unfinished change."""
        return done(self.deciding(member, [Acknowledgement(*each) for each in acknowledgements]))

    def deciding(self, member, acknowledgements):
        """Returns the decision as pieces of work; if it is closed early, the pieces that undo it are in `abandoned`."""
        return self.partition.acknowledge(
            member, acknowledgements, self.rules, self.now, self.abandoned.append
        )

    def acknowledge(self, *acknowledgements, member="m", is_stored=True):
        """Decides acknowledgements and finishes the change; returns the batches to store."""
        return self.finish(self.decide(*acknowledgements, member=member), is_stored=is_stored)

    def release(self, member="m", is_stored=True):
        return self.finish(self.releasing(member), is_stored=is_stored)

    def releasing(self, member="m"):
        """Releases the records of a member; returns the unfinished change."""
        return done(self.partition.release(member, self.rules, self.now, lambda: False))

    def finish(self, change, *, is_stored=True):
        done(self.partition.finish(change, self.now, is_stored=is_stored))
        return change.batches

    def pass_time(self, seconds):
        """Advances the clock; returns the batches to store because locks have ended."""
        self.now += seconds
        stored = self.finish(self.partition.end_locks(self.rules, self.now))
        while (due := self.partition.next_deadline) is not None and due <= self.now:
            stored += self.finish(self.partition.end_locks(self.rules, self.now))
        return stored

    def shown(self):
        """Returns the runs in flight as (first, last, state, deliveries)."""
        return [
            (b.first_offset, b.last_offset, b.state.name, b.delivery_count)
            for b in self.partition.states()
        ]
