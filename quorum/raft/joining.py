"""Rules of a follower that changes its entry in the voter set: updates, automatic join.

Once per fetch timeout the follower compares its entry in the newest set with its own identity. A voter with other
endpoints or versions than in the set sends UpdateRaftVoter; in a static quorum it does so once for each leader, because
that leader may receive a request to make the quorum dynamic. A controller that is not a voter joins if so configured
(`controller.quorum.auto.join.enable`): it first has an older incarnation of its node, with another directory, removed,
and then itself added. Source: KIP-853, KAFKA-19082; Kafka's `KafkaRaftClient.pollFollower…`.
"""

from __future__ import annotations

from math import inf

from trimaran.quorum.raft.messages import (
    AddVoterRequest,
    ChangeResponse,
    RemoveVoterRequest,
    Request,
    UpdateVoterRequest,
)
from trimaran.quorum.raft.roles import Follower
from trimaran.quorum.raft.state import State
from trimaran.quorum.raft.types import Peer
from trimaran.wire.errors import ErrorCode

# Refusals that a later attempt may overcome, or that mean that no change is needed.
_NO_FAILURE = (
    ErrorCode.NONE,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.DUPLICATE_VOTER,
    ErrorCode.VOTER_NOT_FOUND,
)


def next_request(state: State, role: Follower, now: float) -> Request | None:
    """Returns the request about our entry in the voter set, once the check is due; sending a request counts as
    a check.
    """
    state.update(role._replace(next_voter_check=now + state.timeouts.fetch))
    if state.is_voter:
        return _update(state) if _must_update(state, role) else None
    if state.identity.auto_join and state.log.history.is_dynamic and role.has_caught_up:
        # The committed records have been read, so every finalized level is known.
        return _join(state)
    return None


def _must_update(state: State, role: Follower) -> bool:
    if state.log.history.is_dynamic:
        return state.voters.needs_update(state.me)
    return not role.has_updated_voter


def _update(state: State) -> UpdateVoterRequest:
    return UpdateVoterRequest(
        cluster_id=state.identity.cluster_id,
        epoch=state.epoch,
        voter=state.me.key,
        endpoints=state.me.endpoints,
        kraft_version_min=state.me.kraft_version_min,
        kraft_version_max=state.me.kraft_version_max,
    )


def _join(state: State) -> AddVoterRequest | RemoveVoterRequest:
    former = state.voters.get(state.identity.node_id)
    if former is not None:
        return RemoveVoterRequest(cluster_id=state.identity.cluster_id, voter=former.key)
    return AddVoterRequest(
        cluster_id=state.identity.cluster_id,
        voter=state.me.key,
        endpoints=state.me.endpoints,
        # The commit needs our own fetches, which would wait for the response.
        ack_when_committed=False,
    )


def on_update_response(state: State, now: float) -> None:
    """Handles the leader's acceptance of our update, or its lack of support for it."""
    role = state.role
    if isinstance(role, Follower):
        deadline = state.fetch_deadline(role.leader_id, now) if state.can_be_candidate else inf
        state.update(role._replace(has_updated_voter=True, deadline=deadline))


def on_change_response(state: State, source: Peer, response: ChangeResponse, now: float) -> None:
    """Handles the response to our AddRaftVoter, RemoveRaftVoter or UpdateRaftVoter; failures are tried again later."""
    if response.error in _NO_FAILURE:
        state.requests.succeeded(source)
    else:
        state.requests.back_off(source, now)
