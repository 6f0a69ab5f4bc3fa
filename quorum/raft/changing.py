"""Rules of a leader that changes the voter set, or makes a static quorum dynamic.

Changes are made one at a time, each only after the previous change and a record of our own epoch are committed;
therefore any two majorities in effect share a voter (R10). A node with new endpoints, including a node to be added, is
first queried there: first for its versions, then to verify that it is the controller with that id and directory in this
cluster (R16). A node to be added must have caught up; the new set takes effect when it is appended, and the response
waits for its commit. Source: KIP-853, KAFKA-20661; Kafka's `AddVoterHandler`, `RemoveVoterHandler`,
`UpdateVoterHandler`, `LeaderState.maybeAppendUpgradedKRaftVersion`, with the same order of checks and error codes.
Kafka queries only the versions, so that a broker may become a voter.
"""

from __future__ import annotations

from collections.abc import Iterable

from trimaran.quorum.raft.leader_state import PendingChange
from trimaran.quorum.raft.messages import (
    AddVoterRequest,
    AddVoterResponse,
    AnyResponse,
    ApiVersionsRequest,
    ApiVersionsResponse,
    BeginQuorumEpochResponse,
    ChangeResponse,
    RemoveVoterRequest,
    RemoveVoterResponse,
    UpdateVoterRequest,
    UpdateVoterResponse,
)
from trimaran.quorum.raft.ready import ControlBatch, KRaftVersionChange, VotersChange
from trimaran.quorum.raft.refusals import leader_refusal
from trimaran.quorum.raft.roles import Leader
from trimaran.quorum.raft.state import State
from trimaran.quorum.raft.types import (
    ASKED_ID,
    NO_DIRECTORY,
    Peer,
    ReplicaKey,
    VoterEndpoint,
    ensure,
)
from trimaran.quorum.raft.voters import DYNAMIC_QUORUM, Voter, VoterSet
from trimaran.wire.buffers.primitives import uuid_to_text
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import Address, NodeId, Offset
from trimaran.wire.text.endpoint import endpoints_problem


class UpgradeRefused(Exception):
    """The quorum cannot move to the requested kraft.version; the message gives the reason."""


class _ChangeRefused(Exception):
    def __init__(self, error: ErrorCode, message: str | None = None) -> None:
        super().__init__(message)
        self.error = error
        self.message = message


# --- add


def on_add(state: State, request: AddVoterRequest, token: int, now: float) -> None:
    """Begins to add a voter by requesting its versions; one change at a time.

    Refuses the same requests as Kafka's `AddVoterHandler`: not the leader, another cluster, a pending change, an
    existing voter with that id, a missing endpoint, a voter that cannot be contacted now.
    """
    try:
        leader, _ = _check_change(state, request.cluster_id, request.voter, "Add")
        assert request.voter is not None
        _check_endpoints(state, request.endpoints)
        voters = _committed_voters(state, leader, "adding")
        voter = Voter(request.voter, request.endpoints)
        if voter.id in voters.by_id:
            raise _ChangeRefused(
                ErrorCode.DUPLICATE_VOTER,
                f"The voter id for {_full(voter.key)} is already part of the set of voters {_keys(voters)}.",
            )
        change = PendingChange(
            AddVoterResponse,
            token,
            expires=now + state.timeouts.request,
            voter=voter,
            ack_when_committed=request.ack_when_committed,
        )
        _query_endpoint(state, leader, change, now)
    except _ChangeRefused as refusal:
        _refuse(state, AddVoterResponse, refusal, token)


# --- querying a voter's endpoint


def _query_endpoint(state: State, leader: Leader, change: PendingChange, now: float) -> None:
    """Queries the endpoint of the change's voter; `on_response` handles the response."""
    assert change.voter is not None
    peer = state.peer_of(change.voter)._replace(id=NodeId(ASKED_ID - change.voter.id))
    if not state.requests.is_ready(peer, now):
        raise _ChangeRefused(
            ErrorCode.REQUEST_TIMED_OUT,
            f"New voter {_full(change.voter.key)} is not ready to receive requests",
        )
    leader.leader_state.change = change
    change.question = state.send(peer, ApiVersionsRequest(), now)


def on_response(
    state: State, source: Peer, token: int, response: AnyResponse | None, now: float
) -> bool:
    """Handles the response of a queried endpoint (None: it is unreachable). Returns whether the token belongs to that
    query; the response has no other effect, since the node may belong to another cluster.
    """
    role = state.role
    change = role.leader_state.change if isinstance(role, Leader) else None
    if change is None or change.question != token or change.voter is None:
        return False
    assert isinstance(role, Leader)
    change.question = None
    if response is not None:
        state.requests.succeeded(source)
    try:
        if isinstance(response, BeginQuorumEpochResponse):
            _check_identity(state, change.voter, response)
            _write_verified(state, role, change, now)
            return True
        versions = response if isinstance(response, ApiVersionsResponse) else None
        change.voter = _supporting(state, change, versions)
        if change.response_class is AddVoterResponse:
            _check_caught_up(role, change.voter, now)
        change.question = state.send(source, state.announcement(change.voter), now)
    except _ChangeRefused as refusal:
        _finish(state, role, refusal.error, refusal.message)
    return True


def _supporting(state: State, change: PendingChange, response: ApiVersionsResponse | None) -> Voter:
    assert change.voter is not None
    verb, voter = _verb(change), change.voter
    error = ErrorCode.BROKER_NOT_AVAILABLE if response is None else ErrorCode.of(response.error)
    if response is None or error:
        raise _ChangeRefused(
            ErrorCode.REQUEST_TIMED_OUT,
            f"Aborted {verb} voter operation for since API_VERSIONS returned an error {error.name}",
        )
    low, high = response.kraft_versions or (0, 0)
    level = state.log.history.kraft_version
    if not low <= level <= high:
        raise _ChangeRefused(
            ErrorCode.INVALID_REQUEST,
            f"Aborted {verb} voter operation for {_full(voter.key)} since the kraft.version range"
            f" (min: {low}, max: {high}) doesn't support the finalized version {level}",
        )
    if change.response_class is UpdateVoterResponse:
        return voter  # the voter's request had the versions
    return voter._replace(kraft_version_min=low, kraft_version_max=high)


def _verb(change: PendingChange) -> str:
    return "update" if change.response_class is UpdateVoterResponse else "add"


def _check_caught_up(leader: Leader, voter: Voter, now: float) -> None:
    if not leader.leader_state.has_caught_up(voter.key, now):
        raise _ChangeRefused(
            ErrorCode.REQUEST_TIMED_OUT,
            f"Aborted add voter operation for {_full(voter.key)} since it is lagging behind",
        )


# Errors of a node that is not the expected one, in response to our announcement.
_OTHER_NODES = {
    ErrorCode.UNSUPPORTED_VERSION: (ErrorCode.INVALID_REQUEST, "is no controller"),
    ErrorCode.INVALID_VOTER_KEY: (ErrorCode.INVALID_REQUEST, "has another node id or directory id"),
    ErrorCode.INVALID_REQUEST: (
        ErrorCode.INVALID_REQUEST,
        "accepts only itself as the leader",
    ),
    ErrorCode.INCONSISTENT_CLUSTER_ID: (
        ErrorCode.INCONSISTENT_CLUSTER_ID,
        "belongs to another cluster",
    ),
}


def _check_identity(state: State, voter: Voter, response: BeginQuorumEpochResponse) -> None:
    """Checks that the node accepted an announcement that only that voter accepts."""
    error = ErrorCode.of(response.error)
    if not error:
        return
    code, why = _OTHER_NODES.get(error, (ErrorCode.REQUEST_TIMED_OUT, f"answers {error.name}"))
    peer = state.peer_of(voter)
    raise _ChangeRefused(
        code,
        f"The node at {Address(peer.host, peer.port)} is not voter {_full(voter.key)}: it {why}",
    )


def _write_verified(state: State, leader: Leader, change: PendingChange, now: float) -> None:
    """Writes the voter set with the voter and its verified endpoint."""
    assert change.voter is not None
    if change.response_class is UpdateVoterResponse:
        error = _write_update(state, leader, change.voter)
        if not error:
            leader.leader_state.update_check_quorum(change.voter.key, now)
        _finish(state, leader, error)
        return
    voters = state.voters.add(change.voter)
    ensure(voters is not None, "R10 the voter to be added is none yet", change.voter.key)
    assert voters is not None
    change.offset = _append_voters(state, leader, voters)
    if not change.ack_when_committed:
        # The change stays pending until it is committed.
        state.respond_to_change(change, ErrorCode.NONE)


# --- removing a voter


def on_remove(state: State, request: RemoveVoterRequest, token: int, now: float) -> None:
    """Writes the voter set without the voter; the response is sent after the commit. Source: Kafka's
    `RemoveVoterHandler`.
    """
    try:
        leader, key = _check_change(state, request.cluster_id, request.voter, "Remove")
        before = _committed_voters(state, leader, "removing")
        voters = before.remove(key)
        if voters is None:
            raise _ChangeRefused(
                ErrorCode.VOTER_NOT_FOUND,
                f"Cannot remove voter {_full(key)} from the set of voters {_keys(before)}",
            )
    except _ChangeRefused as refusal:
        _refuse(state, RemoveVoterResponse, refusal, token)
        return
    leader.leader_state.change = PendingChange(
        RemoveVoterResponse,
        token,
        expires=now + state.timeouts.request,
        offset=_append_voters(state, leader, voters),
    )


# --- updating a voter


def on_update(state: State, request: UpdateVoterRequest, token: int, now: float) -> None:
    """Handles the endpoints and versions that a voter reports (KIP-853). New endpoints are written once the voter has
    responded there: with an unreachable endpoint in the set, two of three healthy voters could never elect a leader
    again.
    """
    try:
        is_known = _check_update(state, request, token, now)
    except _ChangeRefused as refusal:
        state.reply(token, state.make_response(UpdateVoterResponse, refusal.error))
        return
    if is_known:
        state.reply(token, state.make_response(UpdateVoterResponse))


def _check_update(state: State, request: UpdateVoterRequest, token: int, now: float) -> bool:
    """Returns True if the set is up to date; otherwise begins to query the voter's endpoint."""
    refusal = leader_refusal(state, request.cluster_id, request.epoch)
    if refusal is not None:
        raise _ChangeRefused(refusal)
    leader, key = state.role, request.voter
    assert isinstance(leader, Leader)
    low, high = request.kraft_version_min, request.kraft_version_max
    if key is None or not _is_full(key) or key.id == state.key.id or not 0 <= low <= high:
        # Our own endpoints are left out of the response
        raise _ChangeRefused(ErrorCode.INVALID_REQUEST)
    _check_endpoints(state, request.endpoints)
    if leader.leader_state.change is not None or leader.leader_state.high_watermark is None:
        raise _ChangeRefused(ErrorCode.REQUEST_TIMED_OUT)
    before = _updatable(state, leader)
    if before is None:
        raise _ChangeRefused(ErrorCode.REQUEST_TIMED_OUT)
    if not low <= state.log.history.kraft_version <= high:
        raise _ChangeRefused(ErrorCode.INVALID_REQUEST)
    voter = Voter(key, request.endpoints, low, high)
    if before.update(voter) is None:
        raise _ChangeRefused(ErrorCode.VOTER_NOT_FOUND)
    if not before.needs_update(voter):
        leader.leader_state.update_check_quorum(key, now)
        return True
    expires = now + state.timeouts.request
    _query_endpoint(state, leader, PendingChange(UpdateVoterResponse, token, expires, voter), now)
    return False


def _write_update(state: State, leader: Leader, voter: Voter) -> ErrorCode:
    """Writes the new state of the voter. The quorum may have become dynamic in the meantime."""
    before = _updatable(state, leader)
    if before is None:
        return ErrorCode.REQUEST_TIMED_OUT
    voters = before.update(voter)
    if voters is None:
        return ErrorCode.VOTER_NOT_FOUND
    if not state.log.history.is_dynamic:
        leader.leader_state.discovered_voters = voters
    else:
        _append_voters(state, leader, voters)
    return ErrorCode.NONE


def _updatable(state: State, leader: Leader) -> VoterSet | None:
    """Returns the set to change: the set in the log, or the set that the voters of a static quorum have reported; None
    while it is uncertain.
    """
    if not state.log.history.is_dynamic:
        return leader.leader_state.discovered_voters
    return state.voters if _is_committed(state, leader) else None


# --- upgrading a static quorum to a dynamic one


def upgrade(state: State, leader: Leader, version: int, *, validate_only: bool) -> None:
    """Appends the level and the voters, with the directories that they have reported, in one batch. Does nothing at
    that level already.

    Raises:
        UpgradeRefused: the level is lower or unknown, or not every voter is known to support it.
    """
    present = leader.leader_state.pending_kraft_version or state.log.history.kraft_version
    if version == present:
        return
    discovered_voters = leader.leader_state.discovered_voters
    if version < present:
        raise UpgradeRefused(
            f"Invalid upgrade of kraft.version from version {present} to {version}"
            " because the new version is a downgrade"
        )
    if discovered_voters is None or version != DYNAMIC_QUORUM:
        raise UpgradeRefused(
            f"Invalid upgrade of kraft.version from version {present} to {version}"
        )
    if not discovered_voters.supports(version) or any(
        v.key.directory_id == NO_DIRECTORY for v in discovered_voters
    ):
        raise UpgradeRefused(
            f"Invalid upgrade of kraft.version to {version} because not all of the voters support it"
        )
    if validate_only:
        return
    leader.leader_state.discovered_voters = None
    leader.leader_state.pending_kraft_version = version
    state.append(ControlBatch((KRaftVersionChange(version), VotersChange(discovered_voters))))


# --- shared functions


def poll_change(state: State, leader: Leader, now: float) -> None:
    """Finishes a change that is committed or has timed out."""
    change, reached = leader.leader_state.change, leader.leader_state.high_watermark
    assert change is not None
    if change.offset is not None and reached is not None and reached > change.offset:
        _finish(state, leader, ErrorCode.NONE)
    elif now >= change.expires:
        _finish(state, leader, ErrorCode.REQUEST_TIMED_OUT)


def is_voted_out(state: State, leader: Leader) -> bool:
    """Returns whether a set without us is committed: this leader must then resign."""
    return not leader.leader_state.is_voter and _is_committed(state, leader)


def _check_change(
    state: State, cluster_id: str | None, voter: ReplicaKey | None, verb: str
) -> tuple[Leader, ReplicaKey]:
    refusal = leader_refusal(state, cluster_id, state.epoch)
    if refusal is ErrorCode.INCONSISTENT_CLUSTER_ID:
        ours = state.identity.cluster_id
        raise _ChangeRefused(
            refusal, f'The given id "{cluster_id}" doesn\'t match the cluster id "{ours}"'
        )
    if refusal is not None:
        raise _ChangeRefused(refusal)
    if voter is None or not _is_full(voter):
        raise _ChangeRefused(
            ErrorCode.INVALID_REQUEST, f"{verb} voter request didn't include a valid voter"
        )
    assert isinstance(state.role, Leader)
    return state.role, voter


def _committed_voters(state: State, leader: Leader, doing: str) -> VoterSet:
    """Returns the committed set, on which the next one is based."""
    reached, history = leader.leader_state.high_watermark, state.log.history
    if leader.leader_state.change is not None:
        raise _ChangeRefused(
            ErrorCode.REQUEST_TIMED_OUT,
            "Request timed out waiting for leader to handle previous voter change request",
        )
    if reached is None:
        raise _ChangeRefused(
            ErrorCode.REQUEST_TIMED_OUT,
            "Request timed out waiting for leader to establish HWM and fence previous voter changes",
        )
    if not history.is_dynamic:
        raise _ChangeRefused(
            ErrorCode.UNSUPPORTED_VERSION,
            f"Cluster doesn't support {doing} voter because the kraft.version feature is"
            f" {history.kraft_version}",
        )
    if not _is_committed(state, leader):
        raise _ChangeRefused(
            ErrorCode.REQUEST_TIMED_OUT,
            "Request timed out waiting for voters to commit the latest voter change at"
            f" {history.voters_offset} with HWM {reached}",
        )
    return history.voters


def _is_committed(state: State, leader: Leader) -> bool:
    offset, reached = state.log.history.voters_offset, leader.leader_state.high_watermark
    return offset is not None and reached is not None and offset < reached


def _append_voters(state: State, leader: Leader, voters: VoterSet) -> Offset:
    ensure(_is_committed(state, leader), "R10 one uncommitted change at a time", voters)
    ensure(state.voters.overlaps(voters), "R10 consecutive sets overlap", state.voters, voters)
    return state.append(ControlBatch((VotersChange(voters),)))


def _finish(state: State, leader: Leader, error: ErrorCode, message: str | None = None) -> None:
    change = leader.leader_state.change
    assert change is not None
    leader.leader_state.change = None
    if change.question is not None:
        # a later response of the endpoint must not be taken for a peer's
        state.requests.answered(change.question)
    state.respond_to_change(change, error, message)


def _refuse(state: State, cls: type[ChangeResponse], refusal: _ChangeRefused, token: int) -> None:
    response = cls(error=int(refusal.error), message=refusal.message)
    state.reply(token, response)  # type: ignore[arg-type]


def _check_endpoints(state: State, endpoints: tuple[VoterEndpoint, ...]) -> None:
    if endpoints and (why := endpoints_problem(endpoints)) is not None:
        raise _ChangeRefused(ErrorCode.INVALID_REQUEST, f"The voter's endpoints are invalid: {why}")
    if not _names_listener(state, endpoints):
        listed = ", ".join(
            f"{endpoint.name}://{Address(endpoint.host, endpoint.port)}" for endpoint in endpoints
        )
        raise _ChangeRefused(
            ErrorCode.INVALID_REQUEST,
            f"Add voter request didn't include the endpoint ({listed}) for the default listener"
            f" {state.identity.listener}",
        )


def _names_listener(state: State, endpoints: tuple[VoterEndpoint, ...]) -> bool:
    return any(endpoint.name == state.identity.listener for endpoint in endpoints)


def _is_full(key: ReplicaKey | None) -> bool:
    return key is not None and key.id >= 0 and key.directory_id != NO_DIRECTORY


def _full(key: ReplicaKey) -> str:
    return f"{key.id}:{uuid_to_text(key.directory_id)}"


def _keys(voters: Iterable[Voter]) -> str:
    return "[" + ", ".join(_full(voter.key) for voter in voters) + "]"
