"""Mutants of voter changes, of damaged disks, of the driver and of the metadata above the log."""

from __future__ import annotations

from bisect import bisect_right
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from tests.simulation import member
from tests.simulation.mutants.mutant import Mutant, both
from tests.simulation.node import SimNode
from tests.simulation.storage import SimLog
from trimaran.quorum.controller.tasks.activation import activation_records
from trimaran.quorum.metadata.loader import MetadataLoader
from trimaran.quorum.metadata.records import image_to_records
from trimaran.quorum.raft import changing, following, leader_state, leading, log_view, state
from trimaran.quorum.raft import messages as core
from trimaran.quorum.raft.ready import ControlBatch, VotersChange
from trimaran.quorum.raft.roles import Leader
from trimaran.quorum.raft.types import OffsetAndEpoch, ReplicaKey
from trimaran.quorum.raft.voters import Voter, VoterSet
from trimaran.wire.errors import ErrorCode
from trimaran.wire.records.transactions import AbortTransactionRecord, BeginTransactionRecord

Patch = AbstractContextManager[Any]


# --- R10


def _two_changes_at_once() -> Patch:
    """Redpanda b1e1e02."""

    def voters(raft: state.State, _leader: Leader, _doing: str) -> VoterSet:
        return raft.log.history.voters

    return both(
        mock.patch.object(changing, "_committed_voters", voters),
        mock.patch.object(changing, "_is_committed", return_value=True),
    )


def _changes_before_its_own_commit() -> Patch:
    real = changing._committed_voters

    def voters(raft: state.State, leader: Leader, doing: str) -> VoterSet:
        if leader.leader_state.high_watermark is None and raft.log.history.is_dynamic:
            return raft.log.history.voters
        return real(raft, leader, doing)

    return both(
        mock.patch.object(changing, "_committed_voters", voters),
        mock.patch.object(changing, "_append_voters", _append_unchecked),
    )


def _append_unchecked(raft: state.State, _leader: Leader, voters: VoterSet) -> int:
    return raft.append(ControlBatch((VotersChange(voters),)))


def _counts_removed_voters() -> Patch:
    def update_voters(self: leader_state.LeaderState, voter_set: VoterSet, _now: float) -> None:
        self.others = voter_set.others(self.me.key)
        for voter in self.others:
            self.voters.setdefault(voter.id, leader_state.FetchProgress(voter.key))

    return mock.patch.object(leader_state.LeaderState, "update_voters", update_voters)


def _leads_on_when_voted_out() -> Patch:
    """KAFKA-17604."""
    return mock.patch.object(changing, "is_voted_out", return_value=False)


def _removes_two_at_once() -> Patch:
    real = VoterSet.remove

    def remove(self: VoterSet, key: ReplicaKey) -> VoterSet | None:
        voters = real(self, key)
        if voters is None or len(voters) < 2:
            return voters
        return VoterSet({i: voter for i, voter in voters.by_id.items() if i != voters.ids[-1]})

    return mock.patch.object(VoterSet, "remove", remove)


def _snapshots_without_voters() -> Patch:
    real = SimNode._snapshot_bytes
    return mock.patch.object(
        SimNode, "_snapshot_bytes", lambda self, _version, _voters: real(self, 0, None)
    )


# --- R15


def _votes_though_damaged() -> Patch:
    return mock.patch.object(state.State, "keeps_promises", property(lambda _self: True))


def _damage_is_forgotten() -> Patch:
    """ "Truncate at the first bad checksum" (NATS, CORDS)."""
    real = SimLog.recover

    def recover(self: SimLog) -> bool:
        real(self)
        self.refetch_end = None
        return False

    return mock.patch.object(SimLog, "recover", recover)


def _votes_once_it_is_as_long() -> Patch:
    """The fetched data may be another node's uncommitted tail."""

    def keeps(self: state.State) -> bool:
        upto = self.log.refetch_end
        return upto is None or self.log.end_offset + 3 >= upto

    return mock.patch.object(state.State, "keeps_promises", property(keeps))


# --- log and watermark


def _watermark_beyond_the_log() -> Patch:
    def after_append(raft: state.State, high_watermark: int, _now: float) -> None:
        if high_watermark >= 0:
            raft.commit(high_watermark + 1)

    return mock.patch.object(following, "after_append", after_append)


def _truncates_one_batch_too_little() -> Patch:
    real = log_view.truncation_offset

    def offset(log: SimLog, diverging: OffsetAndEpoch) -> int:
        cut = real(log, diverging)
        at = bisect_right(log.ends, cut)
        return log.ends[at] if at < len(log.ends) else cut

    return mock.patch.object(following, "truncation_offset", offset)


def _truncates_to_the_watermark() -> Patch:
    """KIP-101: a new follower truncates everything above its own high watermark."""
    real = state.State.become_follower

    def become(self: state.State, epoch: int, leader: Any, now: float) -> None:
        real(self, epoch, leader, now)
        if self.high_watermark is not None and self.high_watermark < self.log.end_offset:
            self.truncate(self.high_watermark)

    return mock.patch.object(state.State, "become_follower", become)


def _answers_count_twice() -> Patch:
    """R13: a duplicated response is accepted again."""

    def answered(self: Any, token: int) -> Any:
        sent = self._by_token.get(token)
        if sent is not None and self._connections[sent.peer.id].token == token:
            self._connections[sent.peer.id].token = None
        return sent

    return both(
        mock.patch("trimaran.quorum.raft.requests.RequestManager.answered", answered),
        mock.patch("trimaran.quorum.raft.requests.RequestManager.is_waiting", return_value=False),
    )


def _counts_diverged_fetches() -> Patch:
    real = leading.on_fetch

    def on_fetch(raft: state.State, request: Any, token: int, now: float) -> None:
        if isinstance(raft.role, Leader) and request.epoch == raft.epoch:
            offset = min(request.fetch_offset, raft.log.end_offset)
            if raft.role.leader_state.fetched_by(request.replica, offset, raft.log.end_offset, now):
                leading._on_high_watermark(raft, raft.role, now)
        real(raft, request, token, now)

    return mock.patch.object(leading, "on_fetch", on_fetch)


def _observers_count() -> Patch:
    real = leader_state.LeaderState._advance

    def advance(self: leader_state.LeaderState) -> bool:
        ends = [p.end_offset for p in (*self.voters.values(), *self.observers.values())]
        offset = sorted(ends, reverse=True)[self.voter_set.majority - 1]
        if offset <= max(self.high_watermark or 0, self.start_offset):
            return False
        self.high_watermark = offset
        return True

    assert real is not None
    fetched = mock.patch.object(leader_state.LeaderState, "fetched_by", _fetched_by_anybody)
    return both(mock.patch.object(leader_state.LeaderState, "_advance", advance), fetched)


def _fetched_by_anybody(
    self: leader_state.LeaderState, replica: ReplicaKey, offset: int, leader_end: int, now: float
) -> bool:
    self._find(replica, now).fetched(offset, leader_end, now)
    self.update_check_quorum(replica, now)
    return self._advance()


def _snapshot_between_boundaries() -> Patch:
    """KAFKA-17713: the snapshot's offset is not the end of a batch."""
    real = SimLog.add_snapshot

    def maybe(self: SimNode) -> None:
        if self.applied - self.log.start_offset >= 6:
            offset = self.applied - 1
            self.world.checker.snapshots(self, offset, self.state)
            if self.metadata is not None:
                self.metadata.save(OffsetAndEpoch(offset, self.applied_epoch))
            real(self.log, OffsetAndEpoch(offset, self.applied_epoch), b"0|0||")

    return mock.patch.object(SimNode, "_maybe_snapshot", maybe)


def _snapshot_of_another_epoch() -> Patch:
    real = SimLog.add_snapshot

    def add(self: SimLog, snapshot_id: OffsetAndEpoch, *rest: Any) -> None:
        real(self, snapshot_id._replace(epoch=max(0, snapshot_id.epoch - 1)), *rest)

    return mock.patch.object(SimLog, "add_snapshot", add)


# --- the driver


def _no_fsync() -> Patch:
    """KAFKA-10533: Kafka tested its own simulation by omitting this flush."""

    def flush(self: SimNode) -> None:
        self._flush_wanted = self._flushing = False
        end, life = self.log.end_offset, self.life

        def done() -> None:
            if self.alive and life == self.life and end <= self.log.end_offset:
                self._guard(lambda: self.raft.flushed(end, self.now))

        self.world.after(0.001, done)

    return mock.patch.object(SimNode, "_flush", flush)


def _opening_flushes_nothing() -> Patch:
    def recover(self: SimLog) -> bool:
        self.flushing = []
        return False

    return mock.patch.object(SimLog, "recover", recover)


def _applies_what_is_not_committed() -> Patch:
    real = SimNode._apply
    return mock.patch.object(SimNode, "_apply", lambda self, _upto: real(self, self.log.end_offset))


def _acks_what_is_appended() -> Patch:
    def ack(self: SimNode, _role: object) -> None:
        for end, _epoch, _payload in self._proposals:
            found = self.log.chain_at(end)
            if found is not None:
                self.world.checker.acks(self, end, found)
        self._proposals.clear()

    return mock.patch.object(SimNode, "_ack", ack)


def _acks_for_a_later_epoch() -> Patch:
    """Redpanda #3003: the result of a replication is used after the epoch has changed."""

    def ack(self: SimNode, _role: object) -> None:
        reached = self.raft.high_watermark or 0
        while self._proposals and self._proposals[0][0] <= reached:
            end, _epoch, payload = self._proposals.pop(0)
            self._ack_one(end, payload)

    return mock.patch.object(SimNode, "_ack", ack)


# --- the metadata


def _aborted_counts() -> Patch:
    real = MetadataLoader._mark

    def mark(self: MetadataLoader, record: Any, before: Any) -> None:
        if isinstance(record, AbortTransactionRecord):
            self._in_transaction = False
        else:
            real(self, record, before)

    return mock.patch.object(MetadataLoader, "_mark", mark)


def _publishes_inside_transactions() -> Patch:
    real = MetadataLoader._mark

    def mark(self: MetadataLoader, record: Any, before: Any) -> None:
        if not isinstance(record, BeginTransactionRecord):
            real(self, record, before)

    return mock.patch.object(MetadataLoader, "_mark", mark)


def _new_leader_aborts_nothing() -> Patch:
    real = activation_records

    def records(image: Any, bootstrap: Any, *, in_transaction: bool) -> Any:
        return real(image, bootstrap, in_transaction=in_transaction and False)

    return mock.patch("tests.simulation.member.activation_records", records)


def _snapshot_loses_configs() -> Patch:
    real = image_to_records

    def records(image: Any) -> Any:
        return (item for item in real(image) if type(item).__name__ != "ConfigRecord")

    saved = member.Member.save

    def save(self: member.Member, snapshot_id: OffsetAndEpoch) -> None:
        with mock.patch("tests.simulation.member.image_to_records", records):
            saved(self, snapshot_id)

    return mock.patch.object(member.Member, "save", save)


def _writes_endpoints_that_another_answers_at() -> Patch:
    """KAFKA-20661, and the remaining bug after its fix: the endpoint responds, but with any identity."""
    return mock.patch.object(changing, "_check_identity")


def _takes_brokers_for_controllers() -> Patch:
    real = changing._check_identity

    def check(raft: state.State, voter: Voter, response: core.BeginQuorumEpochResponse) -> None:
        if response.error != ErrorCode.UNSUPPORTED_VERSION:
            real(raft, voter, response)

    return mock.patch.object(changing, "_check_identity", check)


CHANGES = (
    Mutant("endpoints of another are written", _writes_endpoints_that_another_answers_at, ("R16",)),
    Mutant("brokers become voters", _takes_brokers_for_controllers, ("R16",)),
    Mutant("two voter changes at once", _two_changes_at_once, ("R10", "L1")),
    Mutant("changes voters before its own commit", _changes_before_its_own_commit, ("R10",)),
    Mutant("counts removed voters", _counts_removed_voters, ("R6", "R10", "R11", "L1")),
    Mutant("leads on when voted out", _leads_on_when_voted_out, ("R10",)),
    Mutant("removes two voters at once", _removes_two_at_once, ("R10",)),
    Mutant(
        "snapshots without voters", _snapshots_without_voters, ("R1", "R6", "R9", "R10", "L1", "a")
    ),
    Mutant("votes though damaged", _votes_though_damaged, ("R15",)),
    Mutant("damage is forgotten", _damage_is_forgotten, ("R4", "R5", "R6", "R7", "R8")),
    Mutant("votes once its log is as long", _votes_once_it_is_as_long, ("R15",)),
)
LOGS = (
    Mutant("watermark beyond the log", _watermark_beyond_the_log, ("R6", "R7", "R8")),
    Mutant("truncates a batch too little", _truncates_one_batch_too_little, ("R4", "L1")),
    Mutant("truncates to the watermark", _truncates_to_the_watermark, ("R7", "R5")),
    Mutant("answers count twice", _answers_count_twice, ("R4", "R7", "R8", "L1", "hostile")),
    Mutant("counts diverged fetches", _counts_diverged_fetches, ("R6",)),
    Mutant("observers count", _observers_count, ("R6", "R10")),
    Mutant("snapshot between boundaries", _snapshot_between_boundaries, ("R9",)),
    Mutant("snapshot of another epoch", _snapshot_of_another_epoch, ("R4", "R5", "R7", "R9", "L1")),
)
DRIVER = (
    Mutant("no fsync", _no_fsync, ("R6",)),
    Mutant("opening flushes nothing", _opening_flushes_nothing, ("R6", "R4", "R7")),
    Mutant("applies what is not committed", _applies_what_is_not_committed, ("R6", "R8")),
    Mutant("acks what is appended", _acks_what_is_appended, ("R5",)),
    Mutant("acks for a later epoch", _acks_for_a_later_epoch, ("R5",)),
    Mutant("aborted transactions count", _aborted_counts, ("R14",)),
    Mutant("publishes inside transactions", _publishes_inside_transactions, ("R14",)),
    Mutant("new leader aborts nothing", _new_leader_aborts_nothing, ("R14", "C1")),
    Mutant("snapshot loses configs", _snapshot_loses_configs, ("C1", "R9")),
)
