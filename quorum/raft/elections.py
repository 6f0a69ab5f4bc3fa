"""Rules of elections: votes, pre-votes, and the ends of epochs.

Source: KIP-595, KIP-996, Kafka's `KafkaRaftClient` (handlers of Vote, BeginQuorumEpoch, EndQuorumEpoch). Differences
from Kafka: a voter that has seen the leader's process vanish requests pre-votes immediately and grants them; a refused
candidate tries again after a short random pause instead of the rest of its election timeout; in a static quorum,
requests of unknown nodes are refused. A dynamic quorum cannot refuse them, because our set may be older than the
candidate's (KIP-853).
"""

from __future__ import annotations

from math import inf

from trimaran.quorum.raft import leading
from trimaran.quorum.raft.log_view import end_of
from trimaran.quorum.raft.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    VoteRequest,
    VoteResponse,
)
from trimaran.quorum.raft.refusals import is_our_cluster
from trimaran.quorum.raft.roles import Candidate, Follower, Prospective, Unattached, grants
from trimaran.quorum.raft.state import State
from trimaran.quorum.raft.types import (
    EPOCH_JUMP_MAX,
    EPOCH_LIMIT,
    OffsetAndEpoch,
    Peer,
    ReplicaKey,
    ensure,
)
from trimaran.quorum.raft.voters import Voter
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import NO_NODE, LeaderEpoch, NodeId

# --- requests from other voters


def _refusal(
    state: State, cluster_id: str | None, sender: NodeId, epoch: LeaderEpoch
) -> ErrorCode | None:
    """Returns the error of a request that only a voter may send; None if it is valid."""
    if not is_our_cluster(state, cluster_id):
        return ErrorCode.INCONSISTENT_CLUSTER_ID
    if epoch < state.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if epoch >= EPOCH_LIMIT or epoch - state.epoch > EPOCH_JUMP_MAX:
        return ErrorCode.INVALID_REQUEST
    if sender < 0 or sender == state.identity.node_id or _is_unknown_sender(state, sender):
        return ErrorCode.INVALID_REQUEST
    return None


def _is_unknown_sender(state: State, sender: NodeId) -> bool:
    voters = state.voters
    return not state.log.history.is_dynamic and len(voters) > 0 and voters.get(sender) is None


def contradicts(state: State, leader_id: NodeId, epoch: LeaderEpoch) -> bool:
    """Returns whether a message names another leader of our epoch than the known one (R1): one of the two is not the
    leader, or two nodes have the same id. The sender is refused. A Kafka controller would exit here, so one such
    message to each would stop the whole quorum.
    """
    known = state.election.leader_id
    return epoch == state.epoch and leader_id >= 0 and known >= 0 and leader_id != known


def _claim_refusal(
    state: State, request: BeginQuorumEpochRequest | EndQuorumEpochRequest
) -> ErrorCode | None:
    """Returns the error of a request from a node that claims to lead, or to have led, an epoch."""
    error = _refusal(state, request.cluster_id, request.leader_id, request.epoch)
    if error is None and contradicts(state, request.leader_id, request.epoch):
        return ErrorCode.INVALID_REQUEST
    return error


def _is_for_us(state: State, voter: ReplicaKey | None) -> bool:
    return voter is None or voter.matches(state.key)


def on_vote_request(state: State, request: VoteRequest, token: int, now: float) -> None:
    """Handles a vote or pre-vote request immediately; a granted vote is durable before the response is sent."""
    state.reply(token, _handle_vote(state, request, now))


def _handle_vote(state: State, request: VoteRequest, now: float) -> VoteResponse:
    error = _refusal(state, request.cluster_id, request.candidate.id, request.epoch)
    # A candidate's log cannot have records of the epoch that it wants to lead; a pre-candidate's log can.
    newest = request.epoch if request.pre_vote else request.epoch - 1
    if error is None and not (0 <= request.last_epoch <= newest and request.end_offset >= 0):
        error = ErrorCode.INVALID_REQUEST
    if error is not None:
        return state.make_response(VoteResponse, error)
    if not _is_for_us(state, request.voter):
        # The request is for another voter, so its epoch has no meaning for us.
        return state.make_response(VoteResponse, ErrorCode.INVALID_VOTER_KEY)
    if request.epoch > state.epoch:
        state.become_unattached(request.epoch, now)
    up_to_date = (
        OffsetAndEpoch(request.end_offset, request.last_epoch).rank >= end_of(state.log).rank
    )
    granted = state.keeps_promises and grants(
        state.role, request.candidate, up_to_date, request.pre_vote
    )
    if granted and not request.pre_vote:
        _record_vote(state, request.candidate, now)
    elif not granted:
        _forget_rejection(state, request.candidate)
    return state.make_response(VoteResponse, granted=granted)


def _forget_rejection(state: State, candidate: ReplicaKey) -> None:
    """Forgets the candidate's refusal of our pre-vote: its own pre-vote request shows that it has given up its leader
    since.
    """
    role = state.role
    if isinstance(role, Prospective):
        state.update(role._replace(rejected=role.rejected - {candidate.id}))


def _record_vote(state: State, candidate: ReplicaKey, now: float) -> None:
    role = state.role
    ensure(
        isinstance(role, (Unattached, Prospective)),
        "R3 only a replica without a leader votes",
        role,
    )
    assert isinstance(role, (Unattached, Prospective))
    if role.voted is None:
        # The candidate has as good a chance as we have: give it a whole election timeout.
        state.update(role._replace(voted=candidate, deadline=state.election_deadline(now)))


def on_begin_request(
    state: State, request: BeginQuorumEpochRequest, token: int, now: float
) -> None:
    """Follows a leader of this or a newer epoch that announces itself, unless it contradicts the known leader."""
    error = _claim_refusal(state, request)
    if error is None:
        _follow_claimant(state, request, now)
        _on_leader_contact(state, now)
        if not _is_for_us(state, request.voter):
            error = ErrorCode.INVALID_VOTER_KEY
    state.reply(token, state.make_response(BeginQuorumEpochResponse, error or 0))


def _on_leader_contact(state: State, now: float) -> None:
    """Cancels the suspicion that our leader has ended, since it has sent a message."""
    role = state.role
    if isinstance(role, Follower) and role.leader_down:
        deadline = state.fetch_deadline(role.leader_id, now)
        state.update(role._replace(leader_down=False, deadline=deadline))


def on_end_request(state: State, request: EndQuorumEpochRequest, token: int, now: float) -> None:
    """Handles a leader's resignation: its preferred successor becomes a candidate immediately, the other voters later,
    in order.
    """
    error = _claim_refusal(state, request)
    if error is None:
        _follow_claimant(state, request, now)
        role = state.role
        if isinstance(role, Follower) and state.can_be_candidate:
            wait = _succession_wait(state, request.successors)
            deadline = min(role.deadline, now + wait)
            state.update(role._replace(leader_down=True, deadline=deadline))
    state.reply(token, state.make_response(EndQuorumEpochResponse, error or 0))


def _follow_claimant(
    state: State, request: BeginQuorumEpochRequest | EndQuorumEpochRequest, now: float
) -> None:
    """Follows the node that claims to lead, or to have led; the request has its endpoints."""
    claimant = Voter(ReplicaKey(request.leader_id), request.endpoints)
    maybe_follow(state, claimant.id, request.epoch, state.peer_of(claimant), now)


def _succession_wait(state: State, successors: tuple[ReplicaKey, ...]) -> float:
    """Returns the wait of this node: the first preferred successor does not wait, and each further one waits twice as
    long as the one before (Kafka's rule).
    """
    longest = state.timeouts.election_backoff_max
    for position, successor in enumerate(successors):
        if successor.matches(state.key):
            # With a very long list of successors a negative exponent underflows to zero, while 2.0 ** len would
            # overflow.
            return longest * 2.0 ** (position - len(successors)) if position else 0.0
    return longest


def maybe_follow(
    state: State, leader_id: NodeId, epoch: LeaderEpoch, hint: Peer | None, now: float
) -> bool:
    """Handles a claim that `leader_id` (-1: unknown) leads `epoch`, which does not contradict the known leader; returns
    whether the role changed.
    """
    if epoch < state.epoch or epoch >= EPOCH_LIMIT:
        return False
    if epoch == state.epoch and not _may_follow(state):
        return False
    # An epoch that we led but do not remember (a replaced disk): enter it unattached, so without a vote in it.
    is_other = leader_id >= 0 and leader_id != state.identity.node_id
    peer = state.find_peer(leader_id, hint) if is_other else None
    if peer is not None:
        state.become_follower(epoch, peer, now)
    elif epoch > state.epoch:
        state.become_unattached(epoch, now, max(leader_id, NO_NODE))
    else:
        return False
    return True


def _may_follow(state: State) -> bool:
    """Returns whether this replica may adopt a leader in its own epoch: not if the epoch has one already, even one that
    resigned or is in doubt.
    """
    match state.role:
        case Unattached() | Candidate():
            return True
        case Prospective(leader_id=leader_id):
            return leader_id == NO_NODE
        case _:
            return False


# --- candidacy


def on_expired(state: State, now: float) -> None:
    """Handles the end of the wait for a leader or for votes."""
    role = state.role
    if isinstance(role, Prospective):
        give_up_pre_vote(state, now)
    elif state.can_be_candidate:
        become_prospective(state, now)
    elif isinstance(role, (Follower, Unattached)):
        # The set without us was committed meanwhile.
        state.update(role._replace(deadline=inf))


def become_prospective(state: State, now: float) -> None:
    """Requests pre-votes; the epoch stays the same."""
    role = state.role
    gone = isinstance(role, Follower) and role.leader_down
    leader = role.leader if isinstance(role, Follower) else None
    election = state.election
    state.become(
        Prospective(
            state.epoch,
            state.election_deadline(now),
            leader,
            election.leader_id,
            election.voted,
            granted=state.own_vote,
            leader_down=gone,
        )
    )
    _advance_if_granted(state, now)


def become_candidate(state: State, now: float) -> None:
    deadline = state.election_deadline(now)
    state.become(
        Candidate(LeaderEpoch(state.epoch + 1), deadline, state.key, granted=state.own_vote)
    )
    _advance_if_granted(state, now)


def _advance_if_granted(state: State, now: float) -> None:
    role = state.role
    assert isinstance(role, (Prospective, Candidate))
    if not state.voters.is_majority(role.granted):
        return
    if isinstance(role, Prospective):
        become_candidate(state, now)
    else:
        leading.become_leader(state, role.granted, now)


def on_vote_response(state: State, voter: Peer, response: VoteResponse, now: float) -> None:
    """Counts a vote, granted or refused; ignores responses that arrive after the election."""
    role = state.role
    if not isinstance(role, (Prospective, Candidate)):
        return
    if response.granted:
        state.update(role._replace(granted=role.granted | {voter.id}))
        _advance_if_granted(state, now)
    elif isinstance(role, Prospective) and role.leader_down:
        # The voter will notice the leader's end within milliseconds: retry.
        state.requests.back_off(voter, now)
    else:
        state.update(role._replace(rejected=role.rejected | {voter.id}))
        _handle_loss(state, now)


def _handle_loss(state: State, now: float) -> None:
    """Handles a refusal. Once a majority has responded, with at least one refusal, a candidate no longer waits for the
    silent voters: the dead leader is among them, and after a split vote its response would never come.
    """
    role = state.role
    assert isinstance(role, (Prospective, Candidate))
    if isinstance(role, Prospective):
        if not _can_win(state, role):
            give_up_pre_vote(state, now)
    elif state.voters.is_majority(role.granted | role.rejected):
        state.update(role._replace(deadline=min(role.deadline, state.backoff_deadline(now))))


def give_up_pre_vote(state: State, now: float) -> None:
    """Ends the pre-vote: follows the leader again if there is one to reach, otherwise waits for another."""
    role = state.role
    assert isinstance(role, Prospective)
    if role.leader is not None:
        state.become_follower(role.epoch, role.leader, now)
        return
    state.become_unattached(role.epoch, now, role.leader_id)
    assert isinstance(state.role, Unattached)
    state.update(state.role._replace(deadline=state.backoff_deadline(now)))


def ask_for_votes(state: State, now: float) -> None:
    """Sends vote requests to the voters that have not responded, while a win is still possible."""
    role = state.role
    assert isinstance(role, (Prospective, Candidate))
    if not _can_win(state, role):
        return
    end = end_of(state.log)
    for voter, peer in state.other_voters:
        has_answered = peer.id in role.granted or peer.id in role.rejected
        if has_answered or not state.requests.is_ready(peer, now):
            continue
        request = VoteRequest(
            cluster_id=state.identity.cluster_id,
            epoch=state.epoch,
            candidate=state.key,
            voter=voter.key,
            last_epoch=end.epoch,
            end_offset=end.offset,
            pre_vote=isinstance(role, Prospective),
        )
        state.send(peer, request, now)


def _can_win(state: State, role: Prospective | Candidate) -> bool:
    return len(state.voters) - len(role.rejected) >= state.voters.majority


def leader_down(state: State, node_id: NodeId, now: float) -> None:
    """Handles the end of the leader's process: succeeds it by rank, and grants pre-votes from then on."""
    role = state.role
    if not state.can_be_candidate:
        return
    if isinstance(role, Prospective) and role.leader_id == node_id:
        state.update(role._replace(leader_down=True, rejected=frozenset()))
    if isinstance(role, Follower) and role.leader_id == node_id and not role.leader_down:
        jitter = state.prng.uniform(0, state.timeouts.succession_jitter)
        wait = state.succession_wait(node_id) + jitter
        state.update(role._replace(leader_down=True, deadline=min(role.deadline, now + wait)))
