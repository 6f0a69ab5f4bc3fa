"""Rules of a leader that is asked to change the voters, or to make a static quorum dynamic.

One change at a time, each only when the one before is committed, as is a record of our own epoch: so any two majorities
in force share a voter (R10). A voter to be added is asked for its versions first and must have caught up; the new set
counts once it is appended, the answer waits for its commit. Source: KIP-853; Kafka's `AddVoterHandler`,
`RemoveVoterHandler`, `UpdateVoterHandler`, `LeaderState.maybeAppendUpgradedKRaftVersion`, whose order of checks and
error codes these are.
"""

from __future__ import annotations

from collections.abc import Iterable

from quorum.raft.leader_state import PendingChange
from quorum.raft.messages import (
    AddVoterRequest,
    AddVoterResponse,
    ApiVersionsRequest,
    ApiVersionsResponse,
    ChangeResponse,
    RemoveVoterRequest,
    RemoveVoterResponse,
    UpdateVoterRequest,
    UpdateVoterResponse,
)
from quorum.raft.ready import ControlBatch, KRaftVersionChange, VotersChange
from quorum.raft.refusals import leader_refusal
from quorum.raft.roles import Leader
from quorum.raft.state import State
from quorum.raft.types import NO_DIRECTORY, Endpoint, ReplicaKey, ensure
from quorum.raft.voters import DYNAMIC_QUORUM, Voter, VoterSet
from wire.errors import ErrorCode
from wire.primitives import uuid_to_text


class UpgradeRefused(Exception):
    """kraft.version cannot be what was asked for; the text says why."""


class _Refused(Exception):
    def __init__(self, error: ErrorCode, message: str | None = None) -> None:
        super().__init__(message)
        self.error = error
        self.message = message


# --- add


def on_add(state: State, request: AddVoterRequest, token: int, now: float) -> None:
    """Begins to add a voter, which is asked for its versions first; one change at a time.

    Refused as Kafka's `AddVoterHandler` does: not the leader, another cluster, a change under way, a voter of that id
    already, an endpoint missing, a voter that cannot be asked now.
    """
    try:
        leader, _ = _check_change(state, request.cluster_id, request.voter, "Add")
        assert request.voter is not None
        _check_endpoints(state, request.endpoints)
        voters = _committed_voters(state, leader, "adding")
        voter = Voter(request.voter, request.endpoints)
        if voter.id in voters.by_id:
            raise _Refused(
                ErrorCode.DUPLICATE_VOTER,
                f"The voter id for {_full(voter.key)} is already part of the set of voters {_keys(voters)}.",
            )
        peer = state.peer_of(voter)
        if not state.requests.is_ready(peer, now):
            raise _Refused(
                ErrorCode.REQUEST_TIMED_OUT,
                f"New voter {_full(voter.key)} is not ready to receive requests",
            )
    except _Refused as refusal:
        _refuse(state, AddVoterResponse, refusal, token)
        return
    leader.leader_state.change = PendingChange(
        AddVoterResponse,
        token,
        expires=now + state.timeouts.request,
        voter=voter,
        versions_token=state.send(peer, ApiVersionsRequest(), now),
        ack_when_committed=request.ack_when_committed,
    )


def on_versions(state: State, token: int, response: ApiVersionsResponse | None, now: float) -> None:
    """The voter to be added has told its versions (None: it cannot be reached); other tokens are of a
    change given up.
    """
    role = state.role
    change = role.leader_state.change if isinstance(role, Leader) else None
    if change is None or change.versions_token != token or change.voter is None:
        return
    assert isinstance(role, Leader)
    change.versions_token = None
    try:
        voter = _supporting(state, change.voter, response)
        if not role.leader_state.has_caught_up(voter.key, now):
            raise _Refused(
                ErrorCode.REQUEST_TIMED_OUT,
                f"Aborted add voter operation for {_full(voter.key)} since it is lagging behind",
            )
    except _Refused as refusal:
        _finish(state, role, refusal.error, refusal.message)
        return
    voters = state.voters.add(voter)
    ensure(voters is not None, "R10 the voter to be added is none yet", voter.key)
    assert voters is not None
    change.offset = _append_voters(state, role, voters)
    if not change.ack_when_committed and change.token is not None:
        # the change stays pending until it is committed
        state.reply(change.token, AddVoterResponse())
        change.token = None


def _supporting(state: State, voter: Voter, response: ApiVersionsResponse | None) -> Voter:
    error = ErrorCode.BROKER_NOT_AVAILABLE if response is None else ErrorCode.of(response.error)
    if response is None or error:
        raise _Refused(
            ErrorCode.REQUEST_TIMED_OUT,
            f"Aborted add voter operation for since API_VERSIONS returned an error {error.name}",
        )
    low, high = response.kraft_versions or (0, 0)
    level = state.log.history.kraft_version
    if not low <= level <= high:
        raise _Refused(
            ErrorCode.INVALID_REQUEST,
            f"Aborted add voter operation for {_full(voter.key)} since the kraft.version range"
            f" (min: {low}, max: {high}) doesn't support the finalized version {level}",
        )
    return voter._replace(kraft_version_min=low, kraft_version_max=high)


# --- remove


def on_remove(state: State, request: RemoveVoterRequest, token: int, now: float) -> None:
    """Writes the set of voters without one; answered when that is committed. Source: Kafka's `RemoveVoterHandler`."""
    try:
        leader, key = _check_change(state, request.cluster_id, request.voter, "Remove")
        before = _committed_voters(state, leader, "removing")
        voters = before.remove(key)
        if voters is None:
            raise _Refused(
                ErrorCode.VOTER_NOT_FOUND,
                f"Cannot remove voter {_full(key)} from the set of voters {_keys(before)}",
            )
    except _Refused as refusal:
        _refuse(state, RemoveVoterResponse, refusal, token)
        return
    leader.leader_state.change = PendingChange(
        RemoveVoterResponse,
        token,
        expires=now + state.timeouts.request,
        offset=_append_voters(state, leader, voters),
    )


# --- update


def on_update(state: State, request: UpdateVoterRequest, token: int, now: float) -> None:
    """A voter tells where it listens and what it speaks (KIP-853); written if it is another than is known."""
    error = _update(state, request, now)
    state.reply(token, state.make_response(UpdateVoterResponse, error))


def _update(state: State, request: UpdateVoterRequest, now: float) -> ErrorCode:
    refusal = leader_refusal(state, request.cluster_id, request.epoch)
    if refusal is not None:
        return refusal
    leader = state.role
    assert isinstance(leader, Leader)
    low, high = request.kraft_version_min, request.kraft_version_max
    is_sane = _is_full(request.voter) and _names_listener(state, request.endpoints)
    if not is_sane or not 0 <= low <= high:
        return ErrorCode.INVALID_REQUEST
    assert request.voter is not None
    if leader.leader_state.change is not None or leader.leader_state.high_watermark is None:
        return ErrorCode.REQUEST_TIMED_OUT
    before = _updatable(state, leader)
    if before is None:
        return ErrorCode.REQUEST_TIMED_OUT
    if not low <= state.log.history.kraft_version <= high:
        return ErrorCode.INVALID_REQUEST
    voters = before.update(Voter(request.voter, request.endpoints, low, high))
    if voters is None:
        return ErrorCode.VOTER_NOT_FOUND
    if not state.log.history.is_dynamic:
        leader.leader_state.discovered_voters = voters
    elif before.needs_update(voters.by_id[request.voter.id]):
        _append_voters(state, leader, voters)
    leader.leader_state.update_check_quorum(request.voter, now)
    return ErrorCode.NONE


def _updatable(state: State, leader: Leader) -> VoterSet | None:
    """The set to change: of the log, or what the voters of a static quorum have told; None while it is not certain."""
    if not state.log.history.is_dynamic:
        return leader.leader_state.discovered_voters
    return state.voters if _is_committed(state, leader) else None


# --- from static to dynamic


def upgrade(state: State, leader: Leader, version: int, *, validate_only: bool) -> None:
    """Appends the level and the voters, as they have told their directories, in one batch. Nothing to do if it is that
    level.

    Raises:
        UpgradeRefused: a downgrade, an unknown level, or not every voter is known to support it.
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


# --- what they share


def poll_change(state: State, leader: Leader, now: float) -> None:
    """Finishes the change that is committed or has taken too long."""
    change, reached = leader.leader_state.change, leader.leader_state.high_watermark
    assert change is not None
    if change.offset is not None and reached is not None and reached > change.offset:
        _finish(state, leader, ErrorCode.NONE)
    elif now >= change.expires:
        _finish(state, leader, ErrorCode.REQUEST_TIMED_OUT)


def is_voted_out(state: State, leader: Leader) -> bool:
    """The set without us is committed: others lead from now on."""
    return not leader.leader_state.is_voter and _is_committed(state, leader)


def _check_change(
    state: State, cluster_id: str | None, voter: ReplicaKey | None, verb: str
) -> tuple[Leader, ReplicaKey]:
    refusal = leader_refusal(state, cluster_id, state.epoch)
    if refusal is ErrorCode.INCONSISTENT_CLUSTER_ID:
        ours = state.identity.cluster_id
        raise _Refused(
            refusal, f'The given id "{cluster_id}" doesn\'t match the cluster id "{ours}"'
        )
    if refusal is not None:
        raise _Refused(refusal)
    if voter is None or not _is_full(voter):
        raise _Refused(
            ErrorCode.INVALID_REQUEST, f"{verb} voter request didn't include a valid voter"
        )
    assert isinstance(state.role, Leader)
    return state.role, voter


def _committed_voters(state: State, leader: Leader, doing: str) -> VoterSet:
    """The set that the next one is made of."""
    reached, history = leader.leader_state.high_watermark, state.log.history
    if leader.leader_state.change is not None:
        raise _Refused(
            ErrorCode.REQUEST_TIMED_OUT,
            "Request timed out waiting for leader to handle previous voter change request",
        )
    if reached is None:
        raise _Refused(
            ErrorCode.REQUEST_TIMED_OUT,
            "Request timed out waiting for leader to establish HWM and fence previous voter changes",
        )
    if not history.is_dynamic:
        raise _Refused(
            ErrorCode.UNSUPPORTED_VERSION,
            f"Cluster doesn't support {doing} voter because the kraft.version feature is"
            f" {history.kraft_version}",
        )
    if not _is_committed(state, leader):
        raise _Refused(
            ErrorCode.REQUEST_TIMED_OUT,
            "Request timed out waiting for voters to commit the latest voter change at"
            f" {history.voters_offset} with HWM {reached}",
        )
    return history.voters


def _is_committed(state: State, leader: Leader) -> bool:
    offset, reached = state.log.history.voters_offset, leader.leader_state.high_watermark
    return offset is not None and reached is not None and offset < reached


def _append_voters(state: State, leader: Leader, voters: VoterSet) -> int:
    ensure(_is_committed(state, leader), "R10 one uncommitted change at a time", voters)
    ensure(state.voters.overlaps(voters), "R10 consecutive sets overlap", state.voters, voters)
    return state.append(ControlBatch((VotersChange(voters),)))


def _finish(state: State, leader: Leader, error: ErrorCode, message: str | None = None) -> None:
    change = leader.leader_state.change
    assert change is not None
    leader.leader_state.change = None
    if change.token is not None:
        state.reply(change.token, change.response_class(error=int(error), message=message))


def _refuse(state: State, cls: type[ChangeResponse], refusal: _Refused, token: int) -> None:
    response = cls(error=int(refusal.error), message=refusal.message)
    state.reply(token, response)  # type: ignore[arg-type]


def _check_endpoints(state: State, endpoints: tuple[Endpoint, ...]) -> None:
    if not _names_listener(state, endpoints):
        listed = ", ".join(f"{one.name}://{one.host}:{one.port}" for one in endpoints)
        raise _Refused(
            ErrorCode.INVALID_REQUEST,
            f"Add voter request didn't include the endpoint ({listed}) for the default listener"
            f" {state.identity.listener}",
        )


def _names_listener(state: State, endpoints: tuple[Endpoint, ...]) -> bool:
    return any(one.name == state.identity.listener for one in endpoints)


def _is_full(key: ReplicaKey | None) -> bool:
    return key is not None and key.id >= 0 and key.directory_id != NO_DIRECTORY


def _full(key: ReplicaKey) -> str:
    return f"{key.id}:{uuid_to_text(key.directory_id)}"


def _keys(voters: Iterable[Voter]) -> str:
    return "[" + ", ".join(_full(voter.key) for voter in voters) + "]"
