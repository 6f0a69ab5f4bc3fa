"""The Raft core of the metadata quorum: inputs, one output value, one deadline. It does no I/O and has no clock and no
randomness of its own.

Inputs: `receive`, `request_failed`, `handle_timeout`, `propose`, `flushed`, `peer_down`, `resign`, `shutdown`. After
each of them (or after several `propose`) the driver takes `ready()` until it is None and does the work in it, then
sleeps until `deadline()` or the next input. `now` is in seconds of one monotonic clock.

Source: KIP-595, KIP-630, KIP-853, KIP-996; Kafka's `KafkaRaftClient`, `BatchAccumulator`.
"""

from __future__ import annotations

from math import inf

from trimaran.quorum.raft import changing, elections, following, joining, leading
from trimaran.quorum.raft.log_view import LogView
from trimaran.quorum.raft.messages import (
    AddVoterRequest,
    AnyResponse,
    ApiVersionsRequest,
    BeginQuorumEpochRequest,
    ChangeResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Message,
    RemoveVoterRequest,
    Request,
    Response,
    UpdateVoterRequest,
    UpdateVoterResponse,
    VoteRequest,
    VoteResponse,
)
from trimaran.quorum.raft.ready import Proposal, Ready
from trimaran.quorum.raft.roles import (
    Follower,
    Leader,
    Prospective,
    Resigned,
    Role,
    Unattached,
    describe,
)
from trimaran.quorum.raft.state import State
from trimaran.quorum.raft.types import ElectionState, Identity, Peer, Prng, Timeouts, ensure
from trimaran.quorum.raft.voters import VoterSet
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import NO_NODE, NO_OFFSET, LeaderEpoch, NodeId, Offset

_UNDONE = "the driver does each Ready before the next input"


class NotLeader(Exception):
    """`propose` was called for an epoch that this node does not lead, or no longer leads."""


class Raft:
    """One replica of the metadata log.

    Args:
        log: the open log, already flushed: all records in it are durable.
        election: the content of the vote file (`ElectionState()` if there is none).
    """

    def __init__(
        self,
        identity: Identity,
        log: LogView,
        election: ElectionState,
        *,
        timeouts: Timeouts | None = None,
        prng: Prng,
        now: float,
    ) -> None:
        timeouts = timeouts or Timeouts()
        log.history.configure(VoterSet.static(identity.voters.values()))
        role = _first_role(identity, log, election, timeouts, prng, now)
        self._state = State(identity, log, timeouts, prng, role, election)
        self._fetched_watermark = NO_OFFSET
        self._polled_at = now
        self._known_voters = self._state.voters
        if (
            self._state.is_voter
            and self._state.can_be_candidate
            and self._state.voters.majority == 1
        ):
            elections.become_prospective(self._state, now)
        self._poll(now)

    # --- inputs

    def receive(self, token: int, message: Message, now: float) -> None:
        """Handles a request (its token identifies the response to send) or a response (its token identifies our
        request).
        """
        ensure(self._state.is_drained, _UNDONE)
        if isinstance(message, Response):
            self._on_response(token, message, now)
        else:
            self._on_request(token, message, now)
        self._poll(now)

    def request_failed(self, token: int, now: float) -> None:
        """Handles a request that gets no response: the connection failed, it timed out, or the response was
        unusable.
        """
        ensure(self._state.is_drained, _UNDONE)
        state = self._state
        sent = state.requests.answered(token)
        if sent is not None:
            state.requests.back_off(sent.peer, now)
            changing.on_response(state, sent.peer, token, None, now)
        self._poll(now)

    def handle_timeout(self, now: float) -> None:
        """Does the work that is due; called at `deadline()`, and harmless at any other time."""
        ensure(self._state.is_drained, _UNDONE)
        self._poll(now)

    def propose(self, batch: bytes, count: int, epoch: LeaderEpoch) -> Offset:
        """Queues an atomic batch of `count` records; returns its base offset. It may be called repeatedly before
        `ready`.

        Raises:
            NotLeader: this node does not lead `epoch`.
        """
        state = self._state
        if not isinstance(state.role, Leader) or state.epoch != epoch:
            raise NotLeader(epoch)
        return state.propose(Proposal(batch, count))

    def upgrade_kraft_version(
        self, version: int, epoch: LeaderEpoch, *, validate_only: bool
    ) -> None:
        """Makes a static quorum dynamic (1); like `propose`, it may be called before `ready`.

        Raises:
            NotLeader: this node does not lead `epoch`.
            UpgradeRefused: the upgrade is refused; the message gives the reason.
        """
        state = self._state
        if not isinstance(state.role, Leader) or state.epoch != epoch:
            raise NotLeader(epoch)
        changing.upgrade(state, state.role, version, validate_only=validate_only)

    def flushed(self, end_offset: Offset, now: float) -> None:
        """Notes that all records below `end_offset` in the present log are on disk."""
        ensure(self._state.is_drained, _UNDONE)
        state = self._state
        ensure(
            end_offset <= state.log.end_offset,
            "R6 flushed is in the log",
            end_offset,
            state.log.end_offset,
        )
        state.flushed_offset = max(state.flushed_offset, end_offset)
        if isinstance(state.role, Leader):
            leading.on_flushed(state, state.role, now)
        elif isinstance(state.role, Follower):
            following.on_flushed(state, state.role, now)
        self._poll(now)

    def log_changed(self, now: float) -> None:
        """Continues the work that waited for the log: the driver has done the truncation, snapshot or append of a
        `Ready`.
        """
        self._update_voters(now)
        if isinstance(self._state.role, Leader):
            leading.after_append(self._state, now)
        else:
            following.after_append(self._state, self._fetched_watermark, now)
            self._fetched_watermark = NO_OFFSET
        self._poll(now)

    def _update_voters(self, now: float) -> None:
        """Applies a changed voter set of the log, which takes effect immediately."""
        state = self._state
        if self._known_voters is state.voters:
            return
        self._known_voters = state.voters
        if isinstance(state.role, Leader):
            state.role.leader_state.update_voters(state.voters, now)
        elif isinstance(state.role, Follower):
            following.update_fetch_timer(state, state.role, now)

    def peer_down(self, node_id: NodeId, now: float) -> None:
        """Notes that the process of `node_id` has ended: its connection broke, and its endpoint refuses new ones."""
        ensure(self._state.is_drained, _UNDONE)
        elections.leader_down(self._state, node_id, now)
        self._poll(now)

    def resign(self, now: float) -> None:
        """Resigns if this node leads."""
        ensure(self._state.is_drained, _UNDONE)
        if isinstance(self._state.role, Leader):
            leading.resign(self._state, self._state.role, now)
        self._poll(now)

    def shutdown(self, now: float) -> None:
        """Ends all candidacies; a leader hands over (EndQuorumEpoch) and waits for a higher epoch."""
        self._state.shutting_down = True
        self.resign(now)

    # --- outputs

    def ready(self) -> Ready | None:
        """Returns the work for the driver; None if there is none."""
        return self._state.take() if self._state.has_effects else None

    def deadline(self) -> float:
        """Returns when `handle_timeout` must be called; possibly infinite."""
        state = self._state
        role = state.role
        if isinstance(role, Leader):
            requests = state.requests.deadline(inf)
            return min(role.leader_state.deadline(), state.linger.deadline, requests)
        resumes_after = inf if following.is_waiting_for_flush(state) else self._polled_at
        requests = state.requests.deadline(resumes_after)
        own = self._role_deadline(role) if state.shutting_down else role.deadline
        if isinstance(role, Follower):
            return min(own, following.next_request_at(role, self._polled_at), requests)
        return min(own, requests)

    @property
    def role(self) -> Role:
        return self._state.role

    @property
    def epoch(self) -> LeaderEpoch:
        return self._state.epoch

    @property
    def leader_id(self) -> NodeId | None:
        """Returns the leader of the present epoch, possibly this node; None if unknown or resigned."""
        if isinstance(self._state.role, Resigned):
            return None
        leader = self._state.election.leader_id
        return None if leader == NO_NODE else leader

    @property
    def role_and_leader(self) -> tuple[type, LeaderEpoch, NodeId]:
        """Returns a value that changes whenever the role, the epoch or the leader changes."""
        role = self._state.role
        return type(role), role.epoch, self._state.election.leader_id

    @property
    def leader_peer(self) -> Peer | None:
        return self._state.leader_peer

    @property
    def high_watermark(self) -> Offset | None:
        return self._state.high_watermark

    @property
    def flushed_offset(self) -> Offset:
        return self._state.flushed_offset

    @property
    def log(self) -> LogView:
        return self._state.log

    @property
    def identity(self) -> Identity:
        return self._state.identity

    @property
    def election(self) -> ElectionState:
        return self._state.election

    def __str__(self) -> str:
        state = self._state
        known = "-" if state.high_watermark is None else state.high_watermark
        return (
            f"{state.identity.node_id}: {describe(state.role)} log={state.log.end_offset}@{state.log.last_epoch}"
            f" flushed={state.flushed_offset} hw={known}"
        )

    # --- internals

    def _role_deadline(self, role: Role) -> float:
        stays = self._state.shutting_down and not isinstance(role, Resigned)
        return inf if stays else role.deadline

    def _on_request(self, token: int, request: Request, now: float) -> None:
        state = self._state
        match request:
            case FetchRequest():
                leading.on_fetch(state, request, token, now)
            case VoteRequest():
                elections.on_vote_request(state, request, token, now)
            case BeginQuorumEpochRequest():
                elections.on_begin_request(state, request, token, now)
            case EndQuorumEpochRequest():
                elections.on_end_request(state, request, token, now)
            case FetchSnapshotRequest():
                leading.on_fetch_snapshot(state, request, token, now)
            case AddVoterRequest():
                changing.on_add(state, request, token, now)
            case RemoveVoterRequest():
                changing.on_remove(state, request, token, now)
            case UpdateVoterRequest():
                changing.on_update(state, request, token, now)
            case ApiVersionsRequest():
                raise ValueError("the registry of handlers answers ApiVersions")

    def _on_response(self, token: int, response: AnyResponse, now: float) -> None:
        state = self._state
        sent = state.requests.answered(token)
        if sent is None:
            return
        source = sent.peer
        if changing.on_response(state, source, token, response, now):
            return
        if self._on_response_without_header(source, response, now):
            return
        handled = following.check_response_header(state, source, response, now)
        if handled is False:
            state.requests.back_off(source, now)
            return
        if isinstance(response, FetchResponse) and following.is_duplicate_response(state, sent):
            state.requests.back_off(source, now)
            return
        state.requests.succeeded(source)
        if handled is None:
            self._on_current_epoch_response(source, response, now)

    def _on_response_without_header(self, source: Peer, response: AnyResponse, now: float) -> bool:
        """Handles a response without epoch and leader; returns False for any other response."""
        state = self._state
        match response:
            case ChangeResponse():
                joining.on_change_response(state, source, response, now)
            case UpdateVoterResponse(error=ErrorCode.UNSUPPORTED_VERSION):
                joining.on_update_response(state, now)
            case VoteResponse(error=ErrorCode.UNSUPPORTED_VERSION) if (
                response.is_top_level and isinstance(state.role, Prospective)
            ):
                # A voter from before KIP-996: there is no pre-vote in this quorum.
                elections.become_candidate(state, now)
            case _:
                return False
        return True

    def _on_current_epoch_response(self, source: Peer, response: AnyResponse, now: float) -> None:
        state = self._state
        match response:
            case FetchResponse():
                following.on_fetch_response(state, response, now)
                self._fetched_watermark = (
                    response.high_watermark if state.has_fetched else NO_OFFSET
                )
            case VoteResponse():
                elections.on_vote_response(state, source, response, now)
            case FetchSnapshotResponse():
                following.on_snapshot_response(state, response, now)
            case EndQuorumEpochResponse():
                leading.on_end_response(state, source.id)
            case UpdateVoterResponse():
                joining.on_update_response(state, now)
            case _:
                pass

    def _poll(self, now: float) -> None:
        """Does the work that the clock and the role require; after a change of role, also the work of the new role."""
        state = self._state
        self._polled_at = now
        state.requests.expire(now)
        before = None
        # Requests describe the log, so they wait until the driver has changed it (`log_changed` polls again).
        while before is not state.role and not state.has_log_work:
            before = state.role
            self._poll_role(before, now)

    def _poll_role(self, role: Role, now: float) -> None:
        state = self._state
        if isinstance(role, Leader):
            leading.poll_leader(state, role, now)
        elif isinstance(role, Resigned):
            leading.poll_resigned(state, role, now)
        elif now >= self._role_deadline(role):
            elections.on_expired(state, now)
        elif isinstance(role, Follower):
            following.poll_follower(state, role, now)
        elif isinstance(role, Unattached):
            following.poll_unattached(state, now)
        else:
            elections.ask_for_votes(state, now)


def _first_role(
    identity: Identity,
    log: LogView,
    election: ElectionState,
    timeouts: Timeouts,
    prng: Prng,
    now: float,
) -> Role:
    """Returns the role in which a replica starts, which never lets it lead or vote twice in one epoch."""
    voters = log.history.voters
    is_candidate = log.history.can_be_candidate(identity.key, None)
    can_be_candidate = identity.can_vote and log.refetch_end is None and is_candidate
    rank = sum(voter < identity.node_id for voter in voters.ids)
    soon = now + timeouts.start_delay * (1 + rank) + prng.uniform(0, timeouts.start_delay)
    deadline = soon if can_be_candidate else inf
    if election.epoch < log.last_epoch:
        return Unattached(log.last_epoch, deadline)
    if election.leader_id == identity.node_id and identity.can_vote:
        return Resigned(election.epoch, soon)
    leader = voters.get(election.leader_id)
    if leader is not None and leader.id != identity.node_id:
        patience = now + timeouts.fetch if can_be_candidate else inf
        check_at = now + timeouts.fetch if identity.maintains_voter else inf
        peer = leader.peer_on(identity.listener)
        return Follower(election.epoch, patience, peer, election.voted, next_voter_check=check_at)
    return Unattached(election.epoch, deadline, election.leader_id, election.voted)
