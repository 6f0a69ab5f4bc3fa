"""Single rules at their edges: persistence, promises, losses and refusals."""

from __future__ import annotations

import pytest

from tests.quorum.raft.test_core import Talk, log_of, vote
from trimaran.quorum.raft import messages as core
from trimaran.quorum.raft.log_view import ON_OUR_LOG, FetchValidation, validate_fetch
from trimaran.quorum.raft.roles import Unattached
from trimaran.quorum.raft.types import ElectionState, OffsetAndEpoch, Timeouts
from trimaran.wire.errors import ErrorCode


def test_epoch_learned_from_others_is_persisted():
    """This holds even if the epoch causes no request (all peers back off) and no record."""
    talk = Talk()
    talk.raft._state.become_unattached(9, talk.now)
    ready = talk.raft.ready()
    assert ready is not None
    assert (ready.election, ready.sends) == (ElectionState(9), ())


def test_bootstrap_snapshot_cannot_be_fetched():
    log = log_of((5, 1))
    log.add_snapshot(OffsetAndEpoch(0, 0), b"what the first leader writes")
    talk = Talk(log, ElectionState(1)).lead()
    asked = core.FetchSnapshotRequest(
        cluster_id="ours",
        epoch=2,
        replica=core.ReplicaKey(2),
        snapshot_id=OffsetAndEpoch(0, 0),
        position=0,
        max_bytes=10,
    )
    answer = talk.ask(asked)
    assert answer is not None
    assert answer.error == ErrorCode.SNAPSHOT_NOT_FOUND


@pytest.mark.parametrize(
    ("snapshot_id", "position"),
    [
        (OffsetAndEpoch(0, 0), ON_OUR_LOG),
        (OffsetAndEpoch(1, 1), FetchValidation(snapshot_id=OffsetAndEpoch(1, 1))),
        (OffsetAndEpoch(5, 1), FetchValidation(snapshot_id=OffsetAndEpoch(5, 1))),
    ],
)
def test_empty_log_begins_with_available_snapshot(snapshot_id, position):
    log = log_of((1, 1), (4, 1))
    log.add_snapshot(snapshot_id, b"x")
    assert validate_fetch(log, 0, 0) == position


@pytest.mark.parametrize(
    ("refetch_end", "watermark", "keeps"),
    [(None, None, True), (8, None, False), (8, 7, False), (8, 8, True), (8, 9, True)],
)
def test_promises_are_kept_once_lost_data_is_committed(refetch_end, watermark, keeps):
    """R15: other nodes rely on its acknowledgements, which include the lost data."""
    log = log_of((5, 1))
    log.refetch_end = refetch_end
    state = Talk(log, ElectionState(1)).raft._state
    state.high_watermark = watermark
    assert state.keeps_promises is keeps


def test_lingering_records_are_lost_with_the_epoch():
    """No other node has it, and its proposer is notified: it must not reappear in a later epoch of the same leader."""
    timeouts = Timeouts(append_linger=5.0, linger_max_bytes=100)
    talk = Talk(timeouts=timeouts).lead()
    talk.raft.propose(b"xy", 2, talk.raft.epoch)
    end = talk.log.end_offset
    talk.ask(vote(epoch=7, last_epoch=1, end_offset=9))
    assert isinstance(talk.raft.role, Unattached)
    talk.now = talk.raft.role.deadline - timeouts.retry_backoff  # other due work is done first
    talk.raft.handle_timeout(talk.now)
    talk._drain()
    talk.lead()
    leader_change = 1
    talk.now += timeouts.append_linger
    talk.raft.handle_timeout(talk.now)
    talk._drain()
    assert talk.log.end_offset == end + leader_change


def test_snapshot_no_longer_wanted_is_ignored():
    talk = Talk()
    talk.ask(core.BeginQuorumEpochRequest(cluster_id="ours", epoch=3, leader_id=2, voter=None))
    snapshot_id = OffsetAndEpoch(9, 2)
    talk.answer(core.FetchResponse(epoch=3, leader_id=2, snapshot_id=snapshot_id))
    assert isinstance(talk.sends[-1], core.FetchSnapshotRequest)
    asked = talk.tokens[-1]
    state = talk.raft._state
    role = state.role
    state.update(role._replace(snapshot=None))
    talk.raft.receive(
        asked,
        core.FetchSnapshotResponse(
            epoch=3, leader_id=2, snapshot_id=snapshot_id, size=4, position=0, data=b"data"
        ),
        talk.now,
    )
    ready = talk.raft.ready()
    assert ready is None or ready.snapshot is None
