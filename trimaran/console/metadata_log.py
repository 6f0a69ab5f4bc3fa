"""The metadata log as far as it has been read: its records, the state at every offset, and its events as text.

Reading continues, as an observer, when a page needs it, so an unused console costs nothing. Images share their
unchanged parts, so keeping a state at intervals is cheap, and any other state is only a few batches later.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trimaran.errors.user_error import Exit, UserError
from trimaran.inspect.metadata.events import (
    Change,
    ConfigChange,
    MetadataEvent,
    PartitionHistory,
    events_of,
)
from trimaran.inspect.metadata.history import configs_of
from trimaran.inspect.metadata.live_quorum import LiveSource
from trimaran.inspect.metadata.records import record_row
from trimaran.log.batches.batch import iter_batches
from trimaran.log.batches.records import decode_records
from trimaran.node.runtime.long_lived import LongLived
from trimaran.quorum.metadata.epochs import epochs_of
from trimaran.quorum.metadata.replay import Replay
from trimaran.wire.identity import NO_OFFSET, LeaderEpoch, Offset, TopicIdPartition

if TYPE_CHECKING:
    from trimaran.log.batches.batch import BatchView
    from trimaran.quorum.metadata.epochs import Epoch
    from trimaran.quorum.metadata.replay import MetadataState
    from trimaran.wire.blocking import BlockingClient

FRESH_SECONDS = 1.0
# A state is kept after this number of records: replaying from there to any offset takes some milliseconds.
RECORDS_PER_STATE = 1_000
# The number of objects that the garbage collector visits for each state: parts of images, the batch and its events.
OBJECTS_PER_RECORD = 4
# Two days of an idle cluster's log, or a million changes of partitions. Older states are dropped, one by one.
LOG_BYTES_MAX = 64 << 20
EVENTS_MAX = 10_000
EPOCHS_MAX = 1_000
# Two for each of 10,000 topics, and later changes; the newest are kept.
CONFIGS_MAX = 50_000


@dataclass(frozen=True, slots=True)
class ShownSnapshot:
    """The state at the offsets below `end_offset`, which were written by `timestamp_ms`."""

    end_offset: Offset
    epoch: LeaderEpoch
    bytes: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class BatchState:
    """One batch of the log. `is_idle`: it has only NoOpRecords."""

    base_offset: Offset
    last_offset: Offset
    timestamp_ms: int
    data: bytes
    is_idle: bool

    def view(self) -> BatchView:
        return next(iter_batches(self.data))


class MetadataHistory:
    """The history of the metadata. Thread-safe. `open_client` opens a client of the controllers, `name` is for
    messages.
    """

    def __init__(
        self, open_client: Callable[[], AbstractContextManager[BlockingClient]], name: str
    ) -> None:
        self._open_client = open_client
        self._name = name
        self._lock = threading.Lock()
        self._read_at = float("-inf")
        # Keeps the garbage collector from walking the whole history while a page is rendered.
        self._long_lived = LongLived()
        self._reset()

    def _reset(self) -> None:
        self._replay = Replay()
        self._batches: deque[BatchState] = deque()
        self._bytes = 0
        self._states: list[tuple[Offset, Replay]] = []  # states by their next offset, ascending
        self._events: deque[MetadataEvent] = deque(maxlen=EVENTS_MAX)
        self._epochs: deque[Epoch] = deque(maxlen=EPOCHS_MAX)
        self._configs: deque[ConfigChange] = deque(maxlen=CONFIGS_MAX)
        self._snapshot: ShownSnapshot | None = None
        self._partitions = PartitionHistory()
        self._last_change = NO_OFFSET

    # --- queries of pages; each first reads the rest of the log

    def state(self) -> MetadataState:
        """Returns the newest state. Raises UserError if the quorum cannot be read, like all methods here."""
        with self._lock:
            self._catch_up()
            return self._replay.state

    @property
    def unknown(self) -> str:
        """Names the skipped records of a later Kafka in the log so far; empty if there were none."""
        return self._replay.state.unknown

    def bounds(self) -> tuple[Offset, Offset]:
        """Returns the first and the last offset with a known state, both inclusive."""
        with self._lock:
            self._catch_up()
            return self._first_offset(), self._replay.next_offset - 1

    def last_change(self) -> int:
        """Returns the offset of the last record that is not a NoOpRecord."""
        with self._lock:
            self._catch_up()
            return self._last_change

    def state_at(self, offset: Offset) -> MetadataState:
        """Returns the state after the record at `offset`."""
        with self._lock:
            self._catch_up()
            first, last = self._first_offset(), self._replay.next_offset - 1
            if offset == last:
                return self._replay.state
            if not first <= offset <= last:
                raise UserError(
                    f"the state at offset {offset} is not known",
                    f"the metadata log reaches from offset {first} to {last}",
                    "choose an offset in that range",
                    exit_code=Exit.USAGE,
                )
            index = bisect_right(self._states, offset + 1, key=lambda kept: kept[0]) - 1
            start, replay = self._states[index]
            branch = replay.branch()
            assert branch is not None, "states are kept between transactions only"
            batches = [
                batch
                for batch in self._batches
                if start <= batch.last_offset and batch.base_offset <= offset
            ]
        branch.apply_all((batch.view() for batch in batches), offset + 1)
        return branch.state

    def offset_at(self, timestamp_ms: int) -> Offset:
        """Returns the last offset that was written by that time; the first offset if there is none."""
        with self._lock:
            self._catch_up()
            found = [
                batch.last_offset for batch in self._batches if batch.timestamp_ms <= timestamp_ms
            ]
            return max(found, default=self._first_offset())

    def events(self, after: Offset = NO_OFFSET) -> list[MetadataEvent]:
        """Returns the events at offsets beyond `after`, the newest first."""
        with self._lock:
            self._catch_up()
            found = []
            for event in reversed(self._events):
                if event.offset <= after:
                    break
                found.append(event)
            return found

    def epochs(self) -> list[Epoch]:
        """Returns the leaders with their times, the oldest first."""
        with self._lock:
            self._catch_up()
            return list(self._epochs)

    def configs(self) -> list[ConfigChange]:
        """Returns the changes of configs, the newest first; last the values at the beginning of the log."""
        with self._lock:
            self._catch_up()
            return list(reversed(self._configs))

    def snapshot(self) -> ShownSnapshot | None:
        """Returns the snapshot with which the leader's log began; None if the log was complete."""
        with self._lock:
            self._catch_up()
            return self._snapshot

    def changes_of(self, partition: TopicIdPartition) -> list[Change]:
        """Returns the leaders and ISRs of a partition, the oldest first."""
        with self._lock:
            self._catch_up()
            return self._partitions.of(partition)

    def records_before(self, offset: Offset, count: int) -> list[dict[str, Any]]:
        """Returns the last `count` records at or below `offset` except NoOpRecords, the newest first."""
        with self._lock:
            self._catch_up()
            wanted: list[BatchState] = []
            for batch in reversed(self._batches):
                if batch.base_offset > offset or batch.is_idle:
                    continue
                wanted.append(batch)
                if len(wanted) >= count:
                    break
        found: list[dict[str, Any]] = []
        for batch in wanted:
            view = batch.view()
            records = [record for record in decode_records(view) if record.offset <= offset]
            found += (record_row(view, record) for record in reversed(records[-count:]))
            if len(found) >= count:
                break
        return found[:count]

    def forget(self) -> None:
        """Makes the next caller read the log even if it was read a moment ago."""
        with self._lock:
            self._read_at = float("-inf")

    # --- reading

    def _first_offset(self) -> Offset:
        return max(Offset(0), self._states[0][0] - 1) if self._states else Offset(0)

    def _catch_up(self) -> None:
        if time.monotonic() - self._read_at <= FRESH_SECONDS:
            return
        with self._open_client() as client:
            quorum = LiveSource(client, f"the quorum at {self._name}")
            if not self._states:
                self._begin(quorum)
            for batch in quorum.batches(self._replay.next_offset):
                if batch.base_offset > self._replay.next_offset:
                    # The leader has trimmed its log meanwhile; the missing records are only in its snapshot.
                    self._reset()
                    self._begin(quorum)
                    continue
                self._take(batch)
        self._read_at = time.monotonic()

    def _begin(self, quorum: Any) -> None:
        base = quorum.base(None)
        if base is not None:
            self._replay.load_snapshot(base.end_offset, base.epoch, base.data)
            image = self._replay.state.image
            written = image.provenance.timestamp_ms
            self._snapshot = ShownSnapshot(base.end_offset, base.epoch, len(base.data), written)
            self._configs.extend(configs_of(image, base.end_offset - 1))
        self._keep_state()

    def _keep_state(self) -> None:
        branch = self._replay.branch()
        if branch is not None:
            self._states.append((branch.next_offset, branch))

    def _take(self, batch: BatchView) -> None:
        if batch.next_offset <= self._replay.next_offset:
            return
        before = self._replay.state
        self._replay.apply(batch)
        found = events_of(batch, before.image, self._replay.state.image)
        self._events.extend(found.events)
        self._configs.extend(found.configs)
        self._partitions.add(found.changes)
        self._follow_epochs(batch)
        if not found.is_idle:
            self._last_change = batch.last_offset
        data = bytes(batch.buffer)
        self._batches.append(
            BatchState(
                batch.base_offset, batch.last_offset, batch.max_timestamp, data, found.is_idle
            )
        )
        self._bytes += len(data)
        self._long_lived.add(OBJECTS_PER_RECORD * (batch.next_offset - batch.base_offset))
        if batch.next_offset - self._states[-1][0] >= RECORDS_PER_STATE:
            self._keep_state()
        self._forget_old()

    def _follow_epochs(self, batch: BatchView) -> None:
        for epoch in epochs_of([batch]):
            if not self._epochs or self._epochs[-1].epoch != epoch.epoch:
                if self._epochs:
                    epoch.gap_before_ms = epoch.from_ms - self._epochs[-1].to_ms
                self._epochs.append(epoch)
                continue
            last = self._epochs[-1]
            last.last_offset = epoch.last_offset
            last.records += epoch.records
            last.to_ms = max(last.to_ms, epoch.to_ms)
            last.leader_id = epoch.leader_id if last.leader_id is None else last.leader_id

    def _forget_old(self) -> None:
        """Drops whole intervals between two kept states, so that the state of every remaining offset is known."""
        while self._bytes > LOG_BYTES_MAX and len(self._states) > 1:
            self._states.pop(0)
            start = self._states[0][0]
            while self._batches and self._batches[0].last_offset < start:
                self._bytes -= len(self._batches.popleft().data)
