"""Assumptions of the rules: roles change only according to the table, nothing committed is truncated or undone, and
every effect is passed to the driver.
"""

from __future__ import annotations

import pytest

from tests.quorum.raft.test_core import ME, VOTERS, Talk, fetched, follower_of_2, log_of, vote
from tests.simulation.storage import Entry
from trimaran.quorum.raft.ready import SnapshotChunk
from trimaran.quorum.raft.roles import Candidate, Follower, Prospective, Unattached
from trimaran.quorum.raft.types import (
    ElectionState,
    Identity,
    InvariantViolated,
    OffsetAndEpoch,
    Peer,
    ReplicaKey,
)

OBSERVER = Identity(7, bytes([7]) * 16, "ours", VOTERS)
NOBODY: frozenset[int] = frozenset()


@pytest.mark.parametrize(
    "role", [Unattached(4), Candidate(6, 1.0, ME.key, NOBODY), Follower(4, 1.0, VOTERS[2])], ids=str
)
def test_roles_change_only_along_the_table(role):
    state = Talk(election=ElectionState(5)).raft._state
    with pytest.raises(InvariantViolated, match="transition"):
        state.become(role)


def test_observer_cannot_become_candidate():
    state = Talk(me=OBSERVER).raft._state
    with pytest.raises(InvariantViolated, match="observer"):
        state.become(Prospective(0, 1.0, None, -1, None, NOBODY))


def test_role_with_proposals_cannot_be_left():
    talk = Talk().lead()
    talk.raft.propose(b"x", 1, talk.raft.epoch)
    with pytest.raises(InvariantViolated, match="proposals"):
        talk.raft._state.become_unattached(9, talk.now)


@pytest.mark.parametrize(
    ("role", "broken"),
    [
        (Follower(5, 1.0, VOTERS[2], ReplicaKey(2)), "update keeps the role"),
        (Unattached(6, 1.0, -1, ReplicaKey(2)), "update keeps the role"),
        (Unattached(5, 1.0, -1, ReplicaKey(3)), "update Unattached"),
    ],
)
def test_role_epoch_and_vote_are_constant_within_role(role, broken):
    state = Talk(election=ElectionState(5, -1, ReplicaKey(2))).raft._state
    with pytest.raises(InvariantViolated, match=broken):
        state.update(role)


def test_noted_vote_is_passed_to_driver():
    talk = Talk(election=ElectionState(5))
    state = talk.raft._state
    role = state.role
    assert isinstance(role, Unattached)
    state.update(role._replace(voted=ReplicaKey(3)))
    ready = talk.raft.ready()
    assert ready is not None
    assert ready.election == ElectionState(5, -1, ReplicaKey(3))


def test_node_does_not_follow_itself():
    with pytest.raises(InvariantViolated, match="R1"):
        Talk().raft._state.become_follower(3, Peer(1, "h", 1), 0.0)


def test_committed_records_are_never_truncated():
    state = follower_of_2(log_of((2, 1), (2, 1)), high_watermark=2).raft._state
    with pytest.raises(InvariantViolated, match="R7"):
        state.truncate(1)
    state.truncate(2)


def test_leader_neither_truncates_nor_loads_snapshot():
    state = Talk().lead().raft._state
    with pytest.raises(InvariantViolated, match="leader"):
        state.truncate(5)
    with pytest.raises(InvariantViolated, match="R9"):
        state.take_snapshot_chunk(SnapshotChunk(OffsetAndEpoch(9, 1), 0, b"x", False))


def test_truncation_makes_nothing_durable():
    log = log_of((4, 1))
    state = follower_of_2(log).raft._state
    log.append(Entry(4, 6, 1, 4, 0))
    state.truncate(5)
    assert state.flushed_offset == 4
    state.truncate(3)
    assert state.flushed_offset == 3


def test_snapshot_never_reverts_committed_records():
    state = follower_of_2(log_of((2, 1), (2, 1)), high_watermark=2).raft._state
    state.take_snapshot_chunk(SnapshotChunk(OffsetAndEpoch(1, 1), 0, b"x", False))
    with pytest.raises(InvariantViolated, match="R7"):
        state.take_snapshot_chunk(SnapshotChunk(OffsetAndEpoch(1, 1), 0, b"x", True))
    state.take_snapshot_chunk(SnapshotChunk(OffsetAndEpoch(2, 1), 0, b"x", True))
    assert state.flushed_offset == 2, "a snapshot is durable when it is taken over"


def test_any_snapshot_is_accepted_before_first_commit():
    state = follower_of_2(log_of((2, 1))).raft._state
    state.take_snapshot_chunk(SnapshotChunk(OffsetAndEpoch(0, 3), 0, b"x", True))
    assert state.flushed_offset == 0


@pytest.mark.parametrize(("me", "must_flush"), [(ME, True), (OBSERVER, False)], ids=str)
def test_voter_flushes_its_appends(me, must_flush):
    """An observer's fetch is no acknowledgement."""
    talk = follower_of_2(me=me)
    talk.raft.receive(talk.tokens[-1], fetched(records=b"x"), talk.now)
    ready = talk.raft.ready()
    assert ready is not None
    assert ready.append is not None
    assert ready.needs_flush is must_flush


def test_nothing_is_flushed_without_appends():
    talk = Talk()
    talk.raft.receive(1, vote(), talk.now)
    ready = talk.raft.ready()
    assert ready is not None
    assert not ready.needs_flush


def test_flushed_offset_never_exceeds_the_log():
    talk = Talk(log_of((5, 1)))
    with pytest.raises(InvariantViolated, match="R6"):
        talk.raft.flushed(6, talk.now)
    talk.flush(3)
    assert talk.raft.flushed_offset == 5, "and an older report takes nothing back"
