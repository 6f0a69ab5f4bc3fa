"""The disk of a simulated node: vote file, log and snapshots, and their state after a crash. The log distinguishes data
in memory (page cache) from durable data. A kill keeps the page cache. A power cut keeps the durable part and some of
the rest: nothing, a part of the unflushed tail, that tail with a torn batch, or the state before an unflushed
truncation. Bits may flip in anything that was flushed: the log, a snapshot, the vote file.
"""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from tests.simulation.snapshots import decode
from trimaran.quorum.raft.ready import ControlRecord, KRaftVersionChange, VotersChange
from trimaran.quorum.raft.types import ElectionState, OffsetAndEpoch
from trimaran.quorum.raft.voters import QuorumHistory, VoterSet
from trimaran.quorum.replica.quorum_state_file import decode_election, encode_election

GENESIS = 0


class Entry(NamedTuple):
    """A batch: offsets [base, next), and a fingerprint of the whole log up to its end. `control` has the records of a
    control batch. `intact` means that the checksum is right; every reader must detect a damaged batch. `torn` means
    that a part of the batch was never written.
    """

    base: int
    next: int
    epoch: int
    payload: int
    chain: int
    control: tuple[ControlRecord, ...] = ()
    intact: bool = True
    torn: bool = False


class Refused(Exception):
    """Raised if the node refuses to start: its promises cannot be read, and no other node knows them (R15)."""


def chain(before: int, epoch: int, payload: int) -> int:
    return hash((before, epoch, payload))


class Image(NamedTuple):
    """The content of the disk after a power cut."""

    start: int
    start_chain: int
    entries: Sequence[Entry]


class SimLog:
    """A `LogView` that behaves like `trimaran.quorum.raft_log.metadata_log.MetadataLog` (a test compares the two)."""

    def __init__(self) -> None:
        self.history = QuorumHistory()
        self.refetch_end: int | None = None
        # by snapshot: kraft.version and voters, which are part of the bytes in real files
        self.quorums: dict[OffsetAndEpoch, tuple[int, VoterSet | None]] = {}
        self.start_offset = self.end_offset = 0
        self.start_chain = GENESIS
        self.entries: list[Entry] = []
        self.ends: list[int] = []
        self.epochs: list[tuple[int, int]] = []
        self.snapshots: list[OffsetAndEpoch] = []
        self.snapshot_data: dict[OffsetAndEpoch, bytes] = {}
        # snapshots with a flipped bit
        self.rotten: set[OffsetAndEpoch] = set()
        self.flushed = Image(0, GENESIS, ())
        self.flushed_offset = 0
        # the flushed offset that was last saved as the recovery point
        self.recovery_point = 0
        # offsets that the flushes in progress may report, lowered by truncations
        self.flushing: list[list[int]] = []

    # --- LogView

    @property
    def last_epoch(self) -> int:
        if self.entries:
            return self.entries[-1].epoch
        return self.snapshots[-1].epoch if self.snapshots else 0

    @property
    def earliest_snapshot(self) -> OffsetAndEpoch | None:
        return self.snapshots[0] if self.snapshots else None

    @property
    def latest_snapshot(self) -> OffsetAndEpoch | None:
        return self.snapshots[-1] if self.snapshots else None

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        if self.epochs and self.epochs[-1][0] == epoch:
            return OffsetAndEpoch(self.end_offset, epoch)
        at = bisect_right(self.epochs, epoch, key=lambda e: e[0])
        if at == len(self.epochs):
            return OffsetAndEpoch(self.end_offset, self.last_epoch)
        if at == 0:
            offset, known = self.epochs[0][1], epoch
        else:
            offset, known = self.epochs[at][1], self.epochs[at - 1][0]
        earliest = self.earliest_snapshot
        if earliest is not None and offset == earliest.offset and known == epoch:
            return earliest
        return OffsetAndEpoch(offset, known)

    def snapshot_size(self, snapshot_id: OffsetAndEpoch) -> int | None:
        data = self.snapshot_data.get(snapshot_id)
        return None if data is None else len(data)

    # --- changes

    @property
    def end_chain(self) -> int:
        return self.entries[-1].chain if self.entries else self.start_chain

    def index_of(self, offset: int) -> int:
        """Returns the index of the first batch that begins at or after `offset`."""
        at = bisect_right(self.ends, offset)
        return at + (at < len(self.ends) and self.entries[at].base < offset)

    def chain_at(self, offset: int) -> int | None:
        """Returns the fingerprint of everything below `offset`; None if no batch in this log ends there."""
        if offset == self.start_offset:
            return self.start_chain
        at = bisect_left(self.ends, offset)
        return self.entries[at].chain if at < len(self.ends) and self.ends[at] == offset else None

    def append(self, entry: Entry) -> None:
        assert entry.base == self.end_offset
        self.entries.append(entry)
        self.ends.append(entry.next)
        self.end_offset = entry.next
        if not self.epochs or self.epochs[-1][0] != entry.epoch:
            self.epochs.append((entry.epoch, entry.base))
        if entry.control:
            self._note(entry)

    def format(self, voters: VoterSet) -> None:
        """Formats the log like `storage format --initial-controllers`: the snapshot (0, 0) has the first voters."""
        bootstrap = OffsetAndEpoch(0, 0)
        self.quorums[bootstrap] = (1, voters)
        self.snapshots, self.snapshot_data = [bootstrap], {bootstrap: b""}
        self._note_all()

    def _note(self, entry: Entry) -> None:
        for offset, record in enumerate(entry.control, entry.base):
            if isinstance(record, VotersChange):
                self.history.set_voters(offset, record.voters)
            elif isinstance(record, KRaftVersionChange):
                self.history.set_kraft_version(offset, record.version)

    def _note_all(self) -> None:
        """Rebuilds the history from the newest snapshot and the log after it."""
        self.history.clear()
        after = 0
        if self.snapshots:
            after = self.snapshots[-1].offset
            version, voters = self.quorums.get(self.snapshots[-1], (0, None))
            if version and voters is not None:
                self.history.set_kraft_version(after - 1, version)
                self.history.set_voters(after - 1, voters)
        for entry in self.entries:
            if entry.base >= after:
                self._note(entry)

    def truncate_to(self, offset: int) -> int:
        """Truncates whole batches, including one that straddles `offset`; returns the new end of the log."""
        at = bisect_right(self.ends, offset)
        del self.entries[at:], self.ends[at:]
        self.end_offset = self.ends[-1] if self.ends else self.start_offset
        while self.epochs and self.epochs[-1][1] >= self.end_offset:
            self.epochs.pop()
        self.flushed_offset = min(self.flushed_offset, self.end_offset)
        self.recovery_point = min(self.recovery_point, self.end_offset)
        for flush in self.flushing:
            flush[0] = min(flush[0], self.end_offset)
        self.history.truncate_to(self.end_offset)
        return self.end_offset

    def start_at_snapshot(self, snapshot_id: OffsetAndEpoch, start_chain: int, data: bytes) -> None:
        self.entries, self.ends, self.epochs = [], [], []
        self.start_offset, self.start_chain = snapshot_id.offset, start_chain
        self.end_offset = snapshot_id.offset
        self.snapshots = [snapshot_id]
        self.snapshot_data = {snapshot_id: data}
        self.rotten.discard(snapshot_id)
        self.flushed_offset = snapshot_id.offset
        self.recovery_point = min(self.recovery_point, self.flushed_offset)
        for flush in self.flushing:
            flush[0] = min(flush[0], snapshot_id.offset)
        self.flushed = Image(snapshot_id.offset, start_chain, ())
        self._note_all()

    def quorum_at(self, offset: int) -> tuple[int, VoterSet | None]:
        """Returns kraft.version and voters for a snapshot of everything below `offset`."""
        return self.history.kraft_version_at(offset - 1), self.history.voters_at(offset - 1)

    def add_snapshot(
        self,
        snapshot_id: OffsetAndEpoch,
        data: bytes,
        quorum: tuple[int, VoterSet | None] = (0, None),
    ) -> None:
        self.quorums.setdefault(snapshot_id, quorum)
        if snapshot_id not in self.snapshot_data:
            self.snapshots.append(snapshot_id)
            self.snapshot_data[snapshot_id] = data
            self.rotten.discard(snapshot_id)

    def clean(self) -> None:
        """Deletes everything before the newest snapshot."""
        newest = self.snapshots[-1]
        start_chain = self.chain_at(newest.offset)
        assert start_chain is not None
        at = bisect_right(self.ends, newest.offset)
        del self.entries[:at], self.ends[:at]
        self.start_offset, self.start_chain = newest.offset, start_chain
        for old in self.snapshots[:-1]:
            del self.snapshot_data[old]
        self.snapshots = [newest]
        self.epochs = _epochs_from(self.epochs, newest.offset, self.end_offset)
        self.history.trim_to(newest.offset - 1)

    # --- durability

    def begin_flush(self) -> list[int]:
        claim = [self.end_offset]
        self.flushing.append(claim)
        return claim

    def finish_flush(self, claim: list[int]) -> None:
        self.flushing.remove(claim)
        self.flushed_offset = max(self.flushed_offset, min(claim[0], self.end_offset))
        upto = bisect_right(self.ends, self.flushed_offset)
        self.flushed = Image(self.start_offset, self.start_chain, self.entries[:upto])

    def save_recovery_point(self) -> None:
        self.recovery_point = self.flushed_offset

    def power_cut(self, prng: random.Random) -> bool:
        """Loses all or some of the unflushed data; returns whether it tore a batch."""
        kind = prng.random()
        keep = bisect_right(self.ends, self.flushed_offset)
        if kind < 0.4:
            self._keep(self.entries[:keep])
        elif kind < 0.75:
            kept = self.entries[: prng.randint(keep, len(self.entries))]
            is_torn = kind >= 0.5 and len(kept) > keep
            if (
                is_torn
            ):  # pages reach the disk in any order, so complete batches may follow the torn one
                at = prng.randrange(keep, len(kept))
                kept[at] = kept[at]._replace(intact=False, torn=True)
            self._keep(kept)
            return is_torn
        else:
            self._keep([e for e in self.flushed.entries if e.base >= self.start_offset])
        return False

    def _keep(self, entries: list[Entry]) -> None:
        if entries and entries[0].base != self.start_offset:
            entries = []
        epochs = {e.epoch: e.base for e in reversed(entries)}
        self.entries = list(entries)
        self.ends = [e.next for e in entries]
        self.end_offset = self.ends[-1] if self.ends else self.start_offset
        self.epochs = sorted(epochs.items())
        self.flushed_offset = min(self.flushed_offset, self.end_offset)
        self.recovery_point = min(self.recovery_point, self.end_offset)
        self.flushing = []
        self._note_all()

    def flip_a_bit(self, prng: random.Random) -> bool:
        """Damages a flushed batch; returns False if there is none."""
        flushed = bisect_right(self.ends, self.flushed_offset)
        if not flushed:
            return False
        at = prng.randrange(flushed)
        self.entries[at] = self.entries[at]._replace(intact=False)
        return True

    def flip_in_snapshot(self, prng: random.Random) -> bool:
        """Damages the newest snapshot; returns False if there is none, or if it is empty."""
        snapshot_id = self.latest_snapshot
        if snapshot_id is None or not self.snapshot_data[snapshot_id]:
            return False
        data = bytearray(self.snapshot_data[snapshot_id])
        data[prng.randrange(len(data))] ^= 1 << prng.randrange(8)
        self.snapshot_data[snapshot_id] = bytes(data)
        self.rotten.add(snapshot_id)
        return True

    def recover(self) -> bool:
        """Opens the log: truncates at a torn batch above the recovery point, marks other damage to be fetched again,
        and flushes data that an earlier process left in the page cache. A log that begins at a damaged snapshot loses
        everything. Returns whether flushed data was damaged.
        """
        self.flushing = []
        self._cut_torn_tail()
        is_tail_damaged = self._look_behind_recovery_point()
        has_lost_all = self._drop_damaged_snapshots()
        latest = self.latest_snapshot
        ahead_of = (self.last_epoch if self.entries else -1, self.end_offset)
        if latest is not None and latest.offset > 0 and latest.rank > ahead_of:
            data = self.snapshot_data[latest]
            self.start_at_snapshot(latest, decode(data).state, data)
        is_damaged = self._look_through()
        self.finish_flush(self.begin_flush())
        return is_damaged or is_tail_damaged or has_lost_all

    def _cut_torn_tail(self) -> None:
        """Truncates at a torn batch above the recovery point. The flushed offset is not known after a restart, but a
        torn batch is recognizable.
        """
        for at, entry in enumerate(self.entries):
            if entry.torn and entry.base >= self.recovery_point:
                self._keep(self.entries[:at])
                return

    def _look_behind_recovery_point(self) -> bool:
        """Marks damage above the recovery point: a damaged batch that is not torn was written completely, so it may
        have been acknowledged.
        """
        for at, entry in enumerate(self.entries):
            if not entry.intact and entry.base >= self.recovery_point:
                self._refetch(at)
                return True
        return False

    def _refetch(self, at: int) -> None:
        whole = [e.next for e in self.entries[at:] if e.intact]
        upto = max(self.entries[at].base + 1, self.recovery_point, *whole)
        self.refetch_end = max(upto, self.refetch_end or 0)
        self._keep(self.entries[:at])

    def _drop_damaged_snapshots(self) -> bool:
        while (latest := self.latest_snapshot) is not None and latest.offset > 0:
            if latest not in self.rotten:
                break
            if self.start_offset > 0 and len(self.snapshots) == 1:
                self._begin_anew()
                return True
            self.snapshots.remove(latest)
            del self.snapshot_data[latest], self.quorums[latest]
            self._note_all()
        return False

    def _begin_anew(self) -> None:
        """Empties a log whose first snapshot is damaged, so that everything is fetched again."""
        self.refetch_end = max(self.end_offset, self.refetch_end or 0)
        self.start_offset, self.start_chain, self.flushed = 0, GENESIS, Image(0, GENESIS, ())
        self.snapshots, self.snapshot_data = [], {}
        self._keep([])

    def _look_through(self) -> bool:
        """Marks damage after the newest snapshot; fetching replicas check the data before it."""
        latest = self.latest_snapshot
        after = 0 if latest is None else latest.offset
        for at, entry in enumerate(self.entries):
            if not entry.intact and entry.next > after:
                self._refetch(at)
                return True
        return False

    def durable_chains(self) -> dict[int, int]:
        """Returns the fingerprints of everything that survives a power cut, by the ends of batches, and that of the
        log's start.
        """
        durable = {e.next: e.chain for e in self.entries if e.next <= self.flushed_offset}
        return {self.start_offset: self.start_chain, **durable}

    def durable_chain_at(self, offset: int) -> int | None:
        """Returns `chain_at` for data that certainly survives a power cut, otherwise None."""
        if offset == self.start_offset:
            return self.start_chain
        if offset > self.flushed_offset:
            return None
        return self.chain_at(offset)


def _epochs_from(epochs: list[tuple[int, int]], offset: int, end: int) -> list[tuple[int, int]]:
    """Implements Kafka's `truncateFromStart`: the epoch that covers `offset` now begins there."""
    later = [e for e in epochs if e[1] > offset]
    earlier = [e for e in epochs if e[1] <= offset]
    if earlier and (not later or later[0][1] > offset):
        later.insert(0, (earlier[-1][0], offset))
    return later


class Disk:
    """All state of a node that survives its process."""

    def __init__(self) -> None:
        self.election = ElectionState()
        self.vote_file: bytes | None = None
        self.log = SimLog()

    def save(self, election: ElectionState) -> None:
        """Saves the election: `election` for the checker, and the `vote_file` that a start reads."""
        self.election = election
        self.vote_file = encode_election(election, self.log.history)

    def load(self) -> ElectionState:
        """Returns the saved election; raises Refused."""
        if self.vote_file is None:
            return ElectionState()
        try:
            return decode_election(self.vote_file)
        except (ValueError, KeyError, TypeError) as error:
            raise Refused(f"vote file: {error}") from error

    def flip_in_vote_file(self, prng: random.Random) -> bool:
        if self.vote_file is None:
            return False
        data = bytearray(self.vote_file)
        data[prng.randrange(len(data))] ^= 1 << prng.randrange(8)
        self.vote_file = bytes(data)
        return True
