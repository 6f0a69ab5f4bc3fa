"""One share group in one leader epoch of a partition: loads its state, stores its changes, and wakes its readers.

The state is read once. Changes are stored one write at a time, in order; changes that arrive meanwhile are stored
together by the next one. When the epoch ends, a write in progress is given up, and its acknowledgements fail; the next
leader reads the state that was stored.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Generator, Iterator, Sequence
from typing import Any, Protocol

import trio

from trimaran.broker.partitions.leader import PartitionLeader
from trimaran.broker.partitions.watchers import Interest
from trimaran.broker.share_state.states import ShareStates, StateBatch
from trimaran.broker.sharing.acknowledging import (
    Acknowledgement,
    DeadLetters,
    DeliveryChange,
    as_letters,
)
from trimaran.broker.sharing.acquiring import Acquired, BatchBounds, Demand
from trimaran.broker.sharing.counts import ShareCounts
from trimaran.broker.sharing.rules import SharingRules
from trimaran.broker.sharing.settings import Sharing
from trimaran.broker.sharing.share_partition import SharePartition
from trimaran.broker.sharing.starting import offset_to_begin
from trimaran.node.replicated.pending import PendingResponse
from trimaran.wire.errors import ErrorCode, KafkaError, KeptError
from trimaran.wire.identity import Offset, SharePartitionKey
from trimaran.wire.transport.scheduling.events import Notifier

# The maximum number of batches in one write, unless a single change has more: a record of some 30 KB.
WRITTEN_BATCHES_MAX = 1_000

# The codes that clients see, as in Kafka; all others become UNKNOWN_SERVER_ERROR.
_SHOWN = {
    ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.GROUP_ID_NOT_FOUND: ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_STATE_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.OFFSET_NOT_AVAILABLE: ErrorCode.OFFSET_NOT_AVAILABLE,
}
# After these errors of a write, the state is read again.
_FATAL = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)


class ShareReader(Protocol):
    """A fetch that waits for records."""

    def wake(self) -> None:
        """Makes the fetch check again for records. Must not block."""


class Owner(Protocol):
    """The part of a broker that a share partition uses: stores, settings, clocks and tasks."""

    states: ShareStates
    counts: ShareCounts

    def spawn(self, work: Callable[[], Awaitable[None]]) -> None:
        """Runs a task until the broker stops."""

    def set_timer(self, share: LedShare, deadline: float | None) -> None:
        """Calls `end_locks` of `share` at that time; None cancels the call."""

    def settings_of(self, group_id: str) -> Sharing:
        """Returns the current settings of the group."""

    def now(self) -> float:
        """Returns the time in monotonic seconds."""

    def now_ms(self) -> int:
        """Returns the wall-clock time."""

    def count_runs(self, change: int) -> None:
        """Adds to the number of runs in flight in all share partitions."""

    @property
    def is_full(self) -> bool:
        """Whether no more new records may be acquired by any group."""

    async def deliver(self, share: LedShare, letters: Sequence[DeadLetters]) -> None:
        """Writes letters to the dead-letter queue of the group, or logs the reason why it cannot."""

    def ended(self, share: LedShare) -> None:
        """Forgets a share partition: its epoch has ended, or its state must be read again."""


class LedShare(Interest):
    """A share partition while this broker leads the partition; `core` is None until the state is loaded, `error` is set
    when it has ended.
    """

    def __init__(
        self,
        key: SharePartitionKey,
        leader: PartitionLeader,
        owner: Owner,
        before: LedShare | None = None,
    ) -> None:
        super().__init__(self)
        self.key = key
        self.leader = leader
        self.core: SharePartition | None = None
        self.error: KeptError | None = None
        self.is_retiring = False
        self.timed_out = 0  # the number of records whose lock has ended
        self.readers: dict[ShareReader, None] = {}
        self._owner = owner
        self._queue: list[tuple[DeliveryChange, PendingResponse[None]]] = []
        self._written: list[tuple[DeliveryChange, PendingResponse[None]]] = []
        self._is_writing = False
        # The share partition that this one replaces, until its last write has ended.
        self._before = before
        self._has_made_way = False
        self._wrote = Notifier()
        self._runs = 0
        self._scope = trio.CancelScope()
        # Bounded by the records in flight: each letter is about some of them.
        self._letters: list[DeadLetters] = []
        self._is_sending = False
        self._sending = trio.CancelScope()
        leader.replica.watchers.add(self, upto_end=False)
        owner.spawn(self._load)

    @property
    def settings(self) -> Sharing:
        return self._owner.settings_of(self.key.group_id)

    # -- the partition

    def data_changed(self, _interest: Any) -> None:
        if self.leader.ended:
            self.end(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        self._wake()

    def watermark_changed(self, _interest: Any) -> None:
        """Nothing to do: members read up to the high watermark."""

    def _wake(self) -> None:
        for reader in list(self.readers):
            reader.wake()

    # -- loading and the end

    async def _load(self) -> None:
        with self._scope:
            if self._before is not None:
                await self._before.settle()
                self._before = None
            began = time.monotonic()
            try:
                state = await self._owner.states.read(self.key, self.leader.epoch)
                start = state.summary.start_offset
                if start is None:
                    reset = self.settings.offset_reset
                    start = await offset_to_begin(self.leader, reset, self._owner.now_ms())
                self.core = SharePartition(state, start, self.leader.epoch)
                self._owner.counts.load_times.observe(time.monotonic() - began)
            except KafkaError as error:
                self.end(_shown(error))
                return
            limit = self.settings.rules.deliveries_max
            self._send([as_letters(batch, limit) for batch in self.core.resumed])
            self._noted()
            self._wake()
        if self.is_retiring:
            self.retire()

    def retire(self) -> None:
        """Ends the share partition, because no member of the group has a session: as soon as its state is loaded, its
        letters are sent and its changes are stored. A fetch that waits gets NOT_LEADER_OR_FOLLOWER, which members
        retry.
        """
        self.is_retiring = True
        if not self._is_writing and not self._is_sending and self.core is not None:
            self.end(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))

    def end(self, error: KafkaError) -> None:
        """Ends the share partition; acknowledgements that are not stored fail with `error`."""
        if self.error is not None:
            return
        self._scope.cancel()
        self._close(error)
        for _, pending in self._written + self._queue:
            pending.fail(KafkaError(error.code))
        self._wake()

    def make_way(self) -> LedShare | None:
        """Ends a share partition that retires, for a new one: the group may have been deleted and created again.
        Changes are still stored; the new share partition sends letters that were not sent yet. Returns the share
        partition that the new one must `settle` before it reads the state, None if there is none.
        """
        if self.core is None:
            self._scope.cancel()
        else:
            self._has_made_way = True
        self._close(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        self._wake()
        return self if self._is_writing else self._before

    def _close(self, error: KafkaError) -> None:
        self.error = KeptError.of(error)
        self._sending.cancel()
        self.leader.replica.watchers.discard(self)
        self._owner.set_timer(self, None)
        self._owner.ended(self)
        self._owner.count_runs(-self._runs)

    async def settle(self) -> None:
        """Waits until the last write has ended."""
        while self._is_writing:
            await self._wrote.wait()

    # -- records

    @property
    def can_acquire(self) -> bool:
        """Whether there may be a record to acquire."""
        core = self.core
        if core is None or self.error is not None or (self._owner.is_full and not core.size):
            return False
        return core.can_acquire(self._rules)

    @property
    def _rules(self) -> SharingRules:
        rules = self.settings.rules
        return rules._replace(record_locks_max=0) if self._owner.is_full else rules

    def acquire(
        self,
        fetched: list[BatchBounds],
        fetch_offset: Offset,
        demand: Demand,
        aborted: list[BatchBounds],
    ) -> list[Acquired]:
        """Acquires fetched records; see `SharePartition.acquire`."""
        core = self.core
        assert core is not None, "only a loaded share partition is read"
        found = core.acquire(fetched, fetch_offset, demand, self._rules, self._owner.now(), aborted)
        self._noted()
        return found

    def acknowledge(
        self, member: str, acknowledgements: list[Acknowledgement]
    ) -> Generator[None, None, PendingResponse[None]]:
        """Decides acknowledgements in pieces; the response is pending until they are stored.

        Raises:
            KafkaError: see `SharePartition.acknowledge`; INVALID_RECORD_STATE also before the state is loaded, since no
                record is acquired then; the error of the share partition if it ends meanwhile.
        """
        if self.core is None:
            raise KafkaError(ErrorCode.INVALID_RECORD_STATE)
        rules, now = self.settings.rules, self._owner.now()
        # Acknowledgements below the start have no effect; there may be thousands.
        start = self.core.start
        wanted = [each for each in acknowledgements if each.last >= start]
        try:
            change = yield from self.core.acknowledge(member, wanted, rules, now, self._abandon)
        finally:
            self._noted()
        if self.error is not None:
            raise self.error.as_error()
        return self._store(change)

    def _abandon(self, undoing: Iterator[None]) -> None:
        """Undoes acknowledgements whose connection has closed before all were decided."""

        async def undo() -> None:
            for _ in undoing:
                await trio.lowlevel.checkpoint()
            self._noted()
            self._wake()

        self._owner.spawn(undo)

    def release(self, member: str, is_over: Callable[[], bool]) -> Generator[None, None, None]:
        """Releases all records of a member whose session has ended, in pieces; stops when `is_over` returns True,
        because the member has a new session. The generator must not be closed before its end. If the share partition
        ends meanwhile, nothing is stored: the next one delivers the records again in any case.
        """
        if self.core is None:
            return
        now = self._owner.now()
        change = yield from self.core.release(member, self.settings.rules, now, is_over)
        if self.error is None:
            self._store(change)
            self._noted()

    def end_locks(self) -> None:
        """Releases the records whose locks have ended; if there are many, the timer is due again immediately."""
        if self.core is not None and self.error is None:
            change = self.core.end_locks(self.settings.rules, self._owner.now())
            self.timed_out += sum(
                batch.last_offset - batch.first_offset + 1 for batch in change.batches
            )
            self._store(change)
            self._noted()
            self._wake()

    def _noted(self) -> None:
        """Sets the timer and the count of runs as the records require."""
        if self.core is not None and self.error is None:
            self._owner.set_timer(self, self.core.next_deadline)
            runs = self.core.run_count
            self._owner.count_runs(runs - self._runs)
            self._runs = runs

    # -- storing

    def _store(self, change: DeliveryChange) -> PendingResponse[None]:
        pending = PendingResponse[None]()
        if not change.batches:
            pending.complete(None)
            return pending
        self._queue.append((change, pending))
        if not self._is_writing:
            self._is_writing = True
            self._owner.spawn(self._write_all)
        return pending

    async def _write_all(self) -> None:
        while self._queue and (self.error is None or self._has_made_way):
            self._scope = trio.CancelScope()
            with self._scope:
                await self._write()
        self._is_writing = False
        self._wrote.notify_all()
        if self.is_retiring:
            self.retire()

    async def _write(self) -> None:
        core = self.core
        assert core is not None, "only a loaded share partition changes"
        batches = self._take()
        failure = None
        try:
            await self._owner.states.write(self.key, core.summary(), batches)
        except KafkaError as error:
            failure = _shown(error)
        for change, _ in self._written:
            for _ in core.finish(change, self._owner.now(), is_stored=failure is None):
                await trio.lowlevel.checkpoint()
        written, self._written = self._written, []
        letters: list[DeadLetters] = []
        for change, pending in written:
            if failure is not None:
                pending.fail(KafkaError(failure.code, failure.message))
            else:
                pending.complete(None)
            if failure is None or change.is_kept:
                letters += change.dead_letters
        self._send(letters)
        self._noted()
        if failure is not None and failure.code in _FATAL:
            self.end(failure)
        self._wake()

    def _take(self) -> list[StateBatch]:
        """Moves changes from the queue into the next write, as long as no record has two states in it."""
        batches: list[StateBatch] = []
        while self._queue:
            new = self._queue[0][0].batches
            if batches and (
                len(batches) + len(new) > WRITTEN_BATCHES_MAX or _overlap(batches, new)
            ):
                break
            batches += new
            self._written.append(self._queue.pop(0))
        return batches

    # -- dead letters

    def _send(self, letters: Sequence[DeadLetters]) -> None:
        """Sends letters about records that are rejected or were delivered too often, and archives them afterwards
        (KIP-1191).
        """
        self._letters += letters
        if self._letters and not self._is_sending and self.error is None:
            self._is_sending = True
            self._owner.spawn(self._send_all)

    async def _send_all(self) -> None:
        """Sends all waiting letters together; letters that arrive meanwhile are sent next."""
        self._sending = trio.CancelScope()
        with self._sending:
            while self._letters:
                letters, self._letters = self._letters, []
                await self._owner.deliver(self, letters)
                self._archive(letters)
        self._is_sending = False
        if self.is_retiring:
            self.retire()

    def _archive(self, letters: Sequence[DeadLetters]) -> None:
        """Archives records whose letters were written or given up; `start` cannot move beyond them before that."""
        if self.core is None or self.error is not None:
            return
        self._store(self.core.archived(letters))
        self._noted()


def _overlap(batches: list[StateBatch], new: list[StateBatch]) -> bool:
    low = min(batch.first_offset for batch in new)
    high = max(batch.last_offset for batch in new)
    return any(batch.first_offset <= high and batch.last_offset >= low for batch in batches)


def _shown(error: KafkaError) -> KafkaError:
    code = _SHOWN.get(error.code, ErrorCode.UNKNOWN_SERVER_ERROR)
    return KafkaError(code, error.message if code is error.code else "")
