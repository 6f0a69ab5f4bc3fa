"""Rules of a leader: appending, answering fetches, advancing the high watermark, resigning.

Source: KIP-595, KIP-630, KIP-1166 (answer a fetcher with an old high watermark), Kafka's `KafkaRaftClient`. Kafka wakes
every replica for the record and again for the watermark, which makes two fetches of every replica for each change; one
is enough.
"""

from __future__ import annotations

from math import inf

from trimaran.quorum.raft import changing
from trimaran.quorum.raft.leader_state import (
    DEFERRED_BY_VOTERS_MAX,
    DEFERRED_MAX,
    DeferredFetch,
    LeaderState,
)
from trimaran.quorum.raft.log_view import ON_OUR_LOG, FetchValidation, validate_fetch
from trimaran.quorum.raft.messages import (
    EndQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Read,
    SnapshotRead,
)
from trimaran.quorum.raft.ready import (
    ControlBatch,
    ControlRecord,
    KRaftVersionChange,
    LeaderChange,
    VotersChange,
)
from trimaran.quorum.raft.refusals import leader_refusal
from trimaran.quorum.raft.roles import Leader, Resigned
from trimaran.quorum.raft.state import State
from trimaran.quorum.raft.types import ensure
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import NO_OFFSET, LeaderEpoch, NodeId, Offset

# The maximum time for which a fetch waits for new records, even if its request names a longer one.
MAX_WAIT = 30.0
# The offset of a formatted directory's voters in the history: before the first record.
BOOTSTRAP_OFFSET = Offset(-1)


def become_leader(state: State, granting: frozenset[NodeId], now: float) -> None:
    """Begins the epoch with a control record; earlier records are known to be committed only once it is committed."""
    ensure(state.log.last_epoch < state.epoch, "R1 our log already has records of", state.epoch)
    ensure(state.voters.is_majority(granting), "R1 a majority elects", granting)
    start = state.log.end_offset
    leader_state = LeaderState.begin(state.me, state.voters, state.timeouts, start, granting, now)
    if not state.log.history.is_dynamic:
        leader_state.discovered_voters = state.voters.update(state.me)
    state.become(Leader(state.epoch, start, leader_state))
    state.lost_elections = 0
    change = LeaderChange(state.me.id, state.voters.ids, tuple(sorted(granting)))
    state.append(ControlBatch((change, *_voters_to_repeat(state))))


def _voters_to_repeat(state: State) -> tuple[ControlRecord, ...]:
    """Returns control records with the voters if the log lacks them (they are only in the bootstrap snapshot) or has
    our old endpoints.
    """
    history = state.log.history
    if not history.is_dynamic:
        return ()
    ensure(history.voters_offset is not None, "a dynamic quorum has its voters in the log")
    if history.voters_offset != BOOTSTRAP_OFFSET and not history.voters.needs_update(state.me):
        return ()
    voters = history.voters.update(state.me)
    assert voters is not None
    return KRaftVersionChange(history.kraft_version), VotersChange(voters)


def after_append(state: State, now: float) -> None:
    """Responds to the fetches that wait for new records; called after the driver has appended."""
    if isinstance(state.role, Leader):
        _wake(state, state.role, now)


def on_flushed(state: State, leader: Leader, now: float) -> None:
    """Counts the records on our own disk towards the majority."""
    if leader.leader_state.flushed(state.flushed_offset):
        _on_high_watermark(state, leader, now)


def _on_high_watermark(state: State, leader: Leader, now: float) -> None:
    reached = leader.leader_state.high_watermark
    assert reached is not None
    ensure(reached <= state.log.end_offset, "R6 the high watermark is in the log", reached)
    state.commit(reached)
    _wake(state, leader, now)


# --- fetches


def on_fetch(state: State, request: FetchRequest, token: int, now: float) -> None:
    """Answers a fetch, or defers it until there are new records."""
    error, role = _fetch_error(state, request), state.role
    if error is not None:
        state.reply(token, state.make_response(FetchResponse, error))
        return
    assert isinstance(role, Leader)
    position = validate_fetch(state.log, request.fetch_offset, request.last_fetched_epoch)
    if position == ON_OUR_LOG:
        end = state.log.end_offset
        if role.leader_state.fetched_by(request.replica, request.fetch_offset, end, now):
            _on_high_watermark(state, role, now)
        respond_at = _respond_time(state, role, request, now)
        if respond_at > now and request.max_wait > 0:
            expires = min(respond_at, now + min(request.max_wait, MAX_WAIT))
            _defer(state, role.leader_state, DeferredFetch(token, request, expires))
            return
    state.reply(token, _fetch_response(state, role, request, position))


def _defer(state: State, leader_state: LeaderState, fetch: DeferredFetch) -> None:
    is_voter = fetch.request.replica in leader_state.voter_set
    if len(leader_state.deferred) < DEFERRED_MAX + is_voter * DEFERRED_BY_VOTERS_MAX:
        leader_state.deferred[fetch.token] = fetch
    else:
        state.reply(fetch.token, state.make_response(FetchResponse, ErrorCode.BROKER_NOT_AVAILABLE))


def _fetch_response(
    state: State, leader: Leader, request: FetchRequest, position: FetchValidation
) -> FetchResponse:
    read = None
    if position == ON_OUR_LOG and request.fetch_offset < state.log.end_offset:
        max_bytes = min(max(request.max_bytes, 0), state.timeouts.fetch_max_bytes)
        read = Read(request.fetch_offset, max_bytes)
    return FetchResponse(
        epoch=state.epoch,
        leader_id=state.election.leader_id,
        leader=state.leader_peer,
        diverging=position.diverging,
        snapshot_id=position.snapshot_id,
        read=read,
        high_watermark=_known_watermark(leader),
        log_start_offset=state.log.start_offset,
    )


def _fetch_error(state: State, request: FetchRequest) -> ErrorCode | None:
    refusal = leader_refusal(state, request.cluster_id, request.epoch)
    if refusal is ErrorCode.INCONSISTENT_CLUSTER_ID:
        return refusal
    sane = (
        request.max_wait >= 0
        and request.fetch_offset >= 0
        and 0 <= request.last_fetched_epoch <= request.epoch
        and request.replica.id != state.identity.node_id
    )
    return refusal if sane else ErrorCode.INVALID_REQUEST


def _known_watermark(leader: Leader) -> Offset:
    known = leader.leader_state.high_watermark
    return NO_OFFSET if known is None else known


def _respond_time(state: State, leader: Leader, request: FetchRequest, now: float) -> float:
    """Returns when to answer a fetch; infinite if the fetcher is up to date.

    A voter's copy counts towards the majority, so it gets every record immediately. A new watermark without records is
    sent with the next record or after a short time, except the first watermark. An observer acts only on committed
    records, so one response carries the records and the watermark.
    """
    is_voter = request.replica in leader.leader_state.voter_set
    if is_voter and request.fetch_offset < state.log.end_offset:
        return now
    if _known_watermark(leader) <= min(request.high_watermark, request.fetch_offset):
        return inf
    lingers = is_voter and request.high_watermark >= 0
    return now + state.timeouts.watermark_linger if lingers else now


def _wake(state: State, leader: Leader, now: float) -> None:
    """Answers the deferred fetches that have become answerable. Their offsets were counted when they arrived."""
    for deferred in list(leader.leader_state.deferred.values()):
        respond_at = _respond_time(state, leader, deferred.request, now)
        if respond_at <= now:
            _complete_deferred(state, leader, deferred)
        elif respond_at < deferred.expires:
            leader.leader_state.deferred[deferred.token] = deferred._replace(expires=respond_at)


def _complete_deferred(state: State, leader: Leader, deferred: DeferredFetch) -> None:
    """Answers a deferred fetch. It was valid on arrival and this leader still leads, but the log may start later by
    now.
    """
    if leader.leader_state.deferred.pop(deferred.token, None) is not None:
        request = deferred.request
        position = validate_fetch(state.log, request.fetch_offset, request.last_fetched_epoch)
        state.reply(deferred.token, _fetch_response(state, leader, request, position))


def on_fetch_snapshot(state: State, request: FetchSnapshotRequest, token: int, now: float) -> None:
    """Answers with a chunk, or with SNAPSHOT_NOT_FOUND, POSITION_OUT_OF_RANGE, or the error of a node that does not
    lead.
    """
    size = state.log.snapshot_size(request.snapshot_id) if request.snapshot_id.offset > 0 else None
    error = _fetch_snapshot_error(state, request, size)
    if error is not None:
        state.reply(token, state.make_response(FetchSnapshotResponse, error))
        return
    assert isinstance(state.role, Leader)
    state.role.leader_state.update_check_quorum(request.replica, now)
    max_bytes = min(max(request.max_bytes, 1), state.timeouts.snapshot_max_bytes)
    read = SnapshotRead(request.snapshot_id, request.position, max_bytes)
    state.reply(
        token,
        state.make_response(
            FetchSnapshotResponse,
            snapshot_id=request.snapshot_id,
            size=size,
            position=request.position,
            read=read,
        ),
    )


def _fetch_snapshot_error(
    state: State, request: FetchSnapshotRequest, size: int | None
) -> ErrorCode | None:
    refusal = leader_refusal(state, request.cluster_id, request.epoch)
    if refusal is not None:
        return refusal
    if size is None:
        return ErrorCode.SNAPSHOT_NOT_FOUND
    return None if 0 <= request.position < size else ErrorCode.POSITION_OUT_OF_RANGE


# --- periodic work of a leader


def poll_leader(state: State, leader: Leader, now: float) -> None:
    """Does the work that is due: times out a change, resigns without a majority, answers deferred fetches, announces
    itself to silent voters.
    """
    leader_state = leader.leader_state
    if leader_state.change is not None:
        changing.poll_change(state, leader, now)
    if now >= leader_state.check_deadline or changing.is_voted_out(state, leader):
        resign(state, leader, now)
        return
    if state.linger.has_ended(now):
        state.end_linger()
    for deferred in [
        deferred for deferred in leader_state.deferred.values() if now >= deferred.expires
    ]:
        _complete_deferred(state, leader, deferred)
    if now >= leader_state.begin_deadline:
        _announce(state, leader, now)


def _announce(state: State, leader: Leader, now: float) -> None:
    for voter in leader.leader_state.silent_voters(now):
        peer = state.peer_of(voter)
        if state.requests.is_ready(peer, now):
            state.send(peer, state.announcement(voter), now)
    leader.leader_state.begin_deadline = now + state.timeouts.begin_quorum_epoch


def resign(state: State, leader: Leader, now: float) -> None:
    """Resigns: notifies the other voters, the one with the longest log as the first successor, and waits for a new
    leader.
    """
    others = frozenset(peer.id for _, peer in state.other_voters)
    deadline = inf if state.shutting_down else state.election_deadline(now)
    state.become(Resigned(state.epoch, deadline, others, leader.leader_state.successors()))


def poll_resigned(state: State, resigned: Resigned, now: float) -> None:
    """Leaves the resigned role after an election timeout, into a higher epoch: no node may follow us in the old epoch
    again.
    """
    if now >= resigned.deadline:
        state.become_unattached(LeaderEpoch(state.epoch + 1), now)
        return
    for _, peer in state.other_voters:
        if peer.id in resigned.unacked and state.requests.is_ready(peer, now):
            request = EndQuorumEpochRequest(
                cluster_id=state.identity.cluster_id,
                epoch=state.epoch,
                leader_id=state.identity.node_id,
                successors=resigned.successors,
                endpoints=state.identity.endpoints,
            )
            state.send(peer, request, now)


def on_end_response(state: State, voter: NodeId) -> None:
    """Notes that a voter has learned of our resignation."""
    if isinstance(state.role, Resigned):
        state.update(state.role._replace(unacked=state.role.unacked - {voter}))
