"""A leader on broker 11, fetches of its followers, and the ISR changes that it proposes."""

from __future__ import annotations

from tests.broker.batches import append
from tests.cluster.data_side import partition, registration, topic
from trimaran.broker.partitions.isr import FetchClock

LAG_SECONDS = 30
BROKERS = tuple(registration(node_id) for node_id in (11, 12, 13, 14))


class Followers:
    """Fetches of several followers, each in a session of its own."""

    def __init__(self, harness) -> None:
        self.harness = harness
        self.clocks: dict[int, FetchClock] = {}

    def fetch(self, replica_id, offset, *, log_start=0, broker_epoch=None, session=0):
        clock = self.clocks.setdefault((replica_id, session), FetchClock())
        clock.tick(self.harness.now)
        epoch = 100 + replica_id if broker_epoch is None else broker_epoch
        self.harness.leader().record_fetch(replica_id, offset, log_start, epoch, clock)

    def ask(self, replica_id, session=0):
        """Sends a fetch that omits the partition: its position has not changed."""
        self.clocks[replica_id, session].tick(self.harness.now)


def lead(harness, replicas=(11, 12), **fields):
    harness.set_image(topic("t", partition(replicas, **fields)), brokers=BROKERS)
    return harness.leader()


def proposals(harness):
    return [
        tuple(member for member, _ in proposal.new_isr)
        for _, proposal in harness.isr_changes.submitted
    ]


def write(harness, *values):
    append(harness, *(values or (b"x",)))
    harness.flush()
