"""A shard of share states with a log in memory and a manual clock."""

from __future__ import annotations

from collections.abc import Iterable

from trimaran.broker.coordination.timers import Instant
from trimaran.broker.share_state.limits import ShareLimits
from trimaran.broker.share_state.records import ShareRecord, ShareRecordSerde
from trimaran.broker.share_state.shard import ShareCoordinatorShard
from trimaran.broker.share_state.states import DeliveryState, ShareState, ShareSummary, StateBatch
from trimaran.node.runtime.steps import at_once
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import SharePartitionKey

WALL_CLOCK_MS = 1_700_000_000_000
TOPIC_ID = bytes(15) + b"\x07"
KEY = SharePartitionKey("g", TOPIC_ID, 1)
OTHER = SharePartitionKey("g", TOPIC_ID, 2)

AVAILABLE, ACKNOWLEDGED, ARCHIVED = (
    DeliveryState.AVAILABLE,
    DeliveryState.ACKNOWLEDGED,
    DeliveryState.ARCHIVED,
)


class Driver:
    """Encodes and decodes every record, so that `reload` loads what another broker would. `topics` has the number of
    partitions by topic id.
    """

    def __init__(self, limits: ShareLimits | None = None) -> None:
        self.limits = limits or ShareLimits()
        self.serde = ShareRecordSerde()
        self.topics = {TOPIC_ID: 3}
        self.now = 0.0
        self.log: dict[int, tuple[bytes, bytes | None]] = {}
        self.end_offset = 0
        self.failing: ErrorCode | None = None  # the code of the shard's own writes
        self.follow_ups: list[str] = []
        self.shard = self._loaded()

    @property
    def at(self) -> Instant:
        return Instant(self.now, WALL_CLOCK_MS + round(self.now * 1000))

    def _loaded(self) -> ShareCoordinatorShard:
        shard = ShareCoordinatorShard(self.limits, lambda topic_id: self.topics.get(topic_id, 0))
        for offset, (key, value) in self.log.items():
            record = self.serde.decode(key, value)
            assert record is not None
            shard.replay(offset, record)
        shard.finish_load()
        shard.loaded(self.at)
        return shard

    def reload(self) -> None:
        """Lets another broker take over."""
        self.shard.close(self.at)
        self.shard.take()
        self.shard = self._loaded()
        self.settle()

    def settle(self) -> None:
        while True:
            effects = self.shard.take()
            self.follow_ups += effects.follow_ups
            for write in effects.writes:
                if self.failing is None:
                    self.append(write.records)
                self.shard.written(write, self.failing or ErrorCode.NONE, self.at)
            if not effects.writes:
                return

    def append(self, records: Iterable[ShareRecord]) -> None:
        for record in records:
            encoded = self.serde.encode(record, 0)
            self.log[self.end_offset] = encoded.key, encoded.value
            self.shard.replay(self.end_offset, record)
            self.end_offset += 1

    def prune(self) -> None:
        """Deletes the records that the shard has found to be redundant."""
        for offset in map(int, self.follow_ups):
            self.log = {at: row for at, row in self.log.items() if at >= offset}
            self.shard.pruned(offset)
        self.follow_ups.clear()

    def submit(self, result):
        self.append(result.records)
        self.settle()
        return result.response

    def advance(self, seconds: float) -> None:
        """Lets time pass, waking the core only at its deadlines."""
        end = self.now + seconds
        while (deadline := self.shard.deadline()) is not None and deadline <= end:
            self.now = max(self.now, deadline)
            self.shard.handle_timeout(self.at)
            self.settle()
        self.now = end

    def records(self) -> list[ShareRecord | None]:
        return [self.serde.decode(*row) for row in self.log.values()]

    # -- requests

    def initialize(self, key=KEY, state_epoch: int = 1, start_offset: int | None = 100) -> None:
        self.submit(self.shard.initialize(key, state_epoch, start_offset, self.at))

    def read(self, leader_epoch: int = 5, key=KEY) -> ShareState:
        return self.submit(self.shard.read(key, leader_epoch, self.at))

    def summary(self, key=KEY) -> ShareSummary:
        return self.submit(self.shard.summary(key))

    def write(
        self,
        *batches: StateBatch,
        key=KEY,
        state_epoch: int = 1,
        leader_epoch: int = 5,
        start_offset: int | None = 100,
        count: int | None = 0,
    ) -> None:
        summary = ShareSummary(state_epoch, leader_epoch, start_offset, count)
        self.submit(at_once(self.shard.write(key, summary, batches, self.at)))

    def delete(self, key=KEY) -> None:
        self.submit(self.shard.delete(key))


def code(act) -> ErrorCode:
    """Returns the code of a refusal, or NONE."""
    try:
        act()
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE
