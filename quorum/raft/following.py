"""Rules of a follower and of a replica without a leader: fetching, truncating, appending, fetching snapshots.

Source: KIP-595, KIP-630, Kafka's `KafkaRaftClient`. A voter sends its next fetch only when it has flushed what it
appended: the fetch offset is its acknowledgement to the leader.
"""

from __future__ import annotations

from math import inf

from trimaran.quorum.raft import elections, joining
from trimaran.quorum.raft.log_view import end_of, truncation_offset
from trimaran.quorum.raft.messages import (
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Response,
)
from trimaran.quorum.raft.ready import SnapshotChunk
from trimaran.quorum.raft.requests import Sent
from trimaran.quorum.raft.roles import Follower, SnapshotFetch, SnapshotLoss, Unattached
from trimaran.quorum.raft.state import State
from trimaran.quorum.raft.types import OffsetAndEpoch, Peer
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import NO_OFFSET, Offset

# The seconds between two attempts to fetch the same snapshot; doubled with every consecutive failure, and randomly
# reduced by up to a half. A leader finds the damage at its next start, or writes another snapshot; until then each
# attempt transfers the whole snapshot.
SNAPSHOT_PAUSE = 0.1
SNAPSHOT_PAUSE_MAX = 30.0


def check_response_header(
    state: State, source: Peer, response: Response, now: float
) -> bool | None:
    """Handles the common header of responses.

    Returns True if the response is handled, False if the peer must back off, None if the response is for the present
    epoch and its own handler must process it.
    """
    if response.is_top_level:
        return False
    hint = response.leader
    if response.error == 0 and hint is None and isinstance(response, FetchResponse):
        # Only a leader answers a fetch without error, so it is at the address of the request.
        hint = Peer(response.leader_id, source.host, source.port)
    if elections.contradicts(state, response.leader_id, response.epoch):
        return False
    changed = elections.maybe_follow(state, response.leader_id, response.epoch, hint, now)
    if changed and response.error:
        return True
    if response.epoch != state.epoch:
        return False
    if changed and not isinstance(response, FetchResponse):
        return True
    if isinstance(response, (FetchResponse, FetchSnapshotResponse)) and not _is_of_leader(
        state, response
    ):
        return False
    return None if response.error == 0 or response.error in _SNAPSHOT_LOST else False


def _is_of_leader(state: State, response: FetchResponse | FetchSnapshotResponse) -> bool:
    """Returns whether the response is from the leader that we follow."""
    return isinstance(state.role, Follower) and response.leader_id == state.role.leader_id


# The leader has another snapshot, or no longer has one: the same request would get the same response forever.
_SNAPSHOT_LOST = (ErrorCode.SNAPSHOT_NOT_FOUND, ErrorCode.POSITION_OUT_OF_RANGE)


def is_duplicate_response(state: State, sent: Sent) -> bool:
    """Returns whether the response is obsolete: the log end has changed since the request; or the leader responds at
    another address than its own (a bootstrap server's) while a request to its own address is pending.
    """
    role = state.role
    if not isinstance(role, Follower):
        return False
    if sent.log_end != state.log.end_offset:
        return True
    return sent.peer.id != role.leader.id and state.requests.is_in_flight(role.leader)


def on_fetch_response(state: State, response: FetchResponse, now: float) -> None:
    """Truncates, begins a snapshot or appends, as the leader requires; ignores a response that makes no progress."""
    role = state.role
    if not isinstance(role, Follower):
        return
    if not _makes_progress(state, response):
        # This counts as silence: a voter looks for another leader after its fetch timeout.
        state.requests.back_off(role.leader, now)
        return
    if response.diverging is not None:
        state.truncate(truncation_offset(state.log, response.diverging))
    elif response.snapshot_id is not None:
        role = _begin_snapshot(state, role, response.snapshot_id, now)
    else:
        if len(response.records):
            state.append_fetched(response.records)
        elif response.high_watermark >= 0:
            state.commit(min(response.high_watermark, state.log.end_offset))
            role = _note_caught_up(state, role, response.high_watermark)
    state.update(_reset_fetch_timeout(state, role, now))


def _makes_progress(state: State, response: FetchResponse) -> bool:
    """Returns False if the response would undo committed records (R7) or lead to the same request again."""
    log, committed = state.log, state.committed_offset
    if response.diverging is not None:
        return committed <= truncation_offset(log, response.diverging) < log.end_offset
    if response.snapshot_id is not None:
        is_newer = response.snapshot_id.rank > end_of(log).rank
        is_known = response.snapshot_id.epoch <= state.epoch
        return is_newer and is_known and response.snapshot_id.offset >= committed
    return True


def after_append(state: State, high_watermark: Offset, now: float) -> None:
    """Applies the high watermark after the fetched records are in the log. These records may be the ones that kept us
    from being a candidate.
    """
    if high_watermark >= 0:
        state.commit(min(high_watermark, state.log.end_offset))
        if isinstance(state.role, Follower):
            state.update(_note_caught_up(state, state.role, high_watermark))
            update_fetch_timer(state, state.role, now)


def _note_caught_up(state: State, role: Follower, high_watermark: Offset) -> Follower:
    if role.has_caught_up or state.log.end_offset < high_watermark:
        return role
    return role._replace(has_caught_up=True)


def _reset_fetch_timeout(state: State, role: Follower, now: float) -> Follower:
    """Restarts the fetch timeout, since the leader has responded."""
    deadline = state.fetch_deadline(role.leader_id, now) if state.can_be_candidate else inf
    return role._replace(deadline=deadline, has_fetched=True, leader_down=False)


def on_flushed(state: State, role: Follower, now: float) -> None:
    """Restarts the fetch timeout after a flush: the delay of our own disk must not count as the leader's silence."""
    if role.deadline < inf and not role.leader_down and _is_flushed(state):
        state.update(role._replace(deadline=state.fetch_deadline(role.leader_id, now)))


def update_fetch_timer(state: State, role: Follower, now: float) -> None:
    """Starts the fetch timeout of a follower that may now be a candidate, and stops it for one that may not."""
    if not state.can_be_candidate:
        state.update(role._replace(deadline=inf))
    elif role.deadline == inf:
        state.update(role._replace(deadline=state.fetch_deadline(role.leader_id, now)))


def on_snapshot_response(state: State, response: FetchSnapshotResponse, now: float) -> None:
    """Accepts a chunk of the snapshot and requests the next one; an unexpected chunk ends the fetch of that
    snapshot.
    """
    role = state.role
    if not isinstance(role, Follower) or role.snapshot is None:
        return
    fetch = role.snapshot
    is_gone = response.error != 0 or response.snapshot_id != fetch.snapshot_id
    # The log may have more committed records than the snapshot by now.
    is_gone = is_gone or fetch.snapshot_id.offset < state.committed_offset
    end = fetch.position + len(response.data)
    if (
        is_gone
        or response.position != fetch.position
        or end > response.size
        or end == fetch.position
    ):
        # The snapshot was damaged, or the leader has dropped or replaced it: fetch again.
        state.update(
            _lose_snapshot(state, _reset_fetch_timeout(state, role, now), fetch.snapshot_id, now)
        )
        return
    is_last = end == response.size
    state.take_snapshot_chunk(
        SnapshotChunk(fetch.snapshot_id, fetch.position, response.data, is_last)
    )
    onward = None if is_last else SnapshotFetch(fetch.snapshot_id, end)
    loss = None if is_last else role.loss
    state.update(_reset_fetch_timeout(state, role, now)._replace(snapshot=onward, loss=loss))
    if is_last:
        state.commit(fetch.snapshot_id.offset)


def _begin_snapshot(
    state: State, role: Follower, snapshot_id: OffsetAndEpoch, now: float
) -> Follower:
    """Begins to fetch a snapshot: immediately, unless it is the one that failed before."""
    loss = role.loss
    if loss is None or loss.snapshot_id != snapshot_id:
        return role._replace(snapshot=SnapshotFetch(snapshot_id), loss=None)
    if now >= loss.until:
        return role._replace(snapshot=SnapshotFetch(snapshot_id))
    return role._replace(resume=_next_fetch_time(state, loss.until, now))


def _lose_snapshot(
    state: State, role: Follower, snapshot_id: OffsetAndEpoch, now: float
) -> Follower:
    """Gives up a snapshot with a backoff: a snapshot that is damaged on the leader's disk remains damaged for long, and
    is large.
    """
    losses = 1 if role.loss is None else role.loss.losses + 1
    until = now + state.random_pause(SNAPSHOT_PAUSE, SNAPSHOT_PAUSE_MAX, losses - 1)
    loss = SnapshotLoss(snapshot_id, losses, until)
    return role._replace(snapshot=None, loss=loss, resume=_next_fetch_time(state, until, now))


def _next_fetch_time(state: State, until: float, now: float) -> float:
    """Returns the time of the next fetch: the same delay as if there were no records to fetch, so that the leader
    receives our fetches and can name another snapshot.
    """
    return min(until, now + state.timeouts.fetch_max_wait)


# --- requests


def poll_follower(state: State, role: Follower, now: float) -> None:
    """Keeps one fetch pending at the leader; requests the leader from other nodes while it does not respond.

    A voter can wait, because it has a fetch timeout and a new leader announces itself to it. An observer has no fetch
    timeout and receives no announcement, and a frozen leader does not refuse connections.
    """
    if not _is_flushed(state) or state.shutting_down or now < role.resume:
        return
    requests = state.requests
    if requests.is_ready(role.leader, now):
        if not requests.is_waiting(now):
            news = joining.next_request(state, role, now) if now >= role.next_voter_check else None
            state.send(role.leader, news or _next_request(state, role), now)
    elif role.deadline == inf or requests.is_backing_off(role.leader, now):
        _find_leader(state, now)


def poll_unattached(state: State, now: float) -> None:
    if _is_flushed(state) and not state.shutting_down:
        _find_leader(state, now)


def _is_flushed(state: State) -> bool:
    return not state.can_vote or state.flushed_offset >= state.log.end_offset


def _find_leader(state: State, now: float) -> None:
    if state.requests.is_waiting(now):
        return
    peer = state.next_discovery(now)
    if peer is not None:
        state.send(peer, _fetch(state, max_wait=0.0), now)


def _next_request(state: State, role: Follower) -> FetchRequest | FetchSnapshotRequest:
    if role.snapshot is None:
        return _fetch(state, state.timeouts.fetch_max_wait)
    return FetchSnapshotRequest(
        cluster_id=state.identity.cluster_id,
        epoch=state.epoch,
        replica=state.key,
        snapshot_id=role.snapshot.snapshot_id,
        position=role.snapshot.position,
        max_bytes=state.timeouts.snapshot_max_bytes,
    )


def _fetch(state: State, max_wait: float) -> FetchRequest:
    return FetchRequest(
        cluster_id=state.identity.cluster_id,
        epoch=state.epoch,
        replica=state.key,
        fetch_offset=state.log.end_offset,
        last_fetched_epoch=state.log.last_epoch,
        high_watermark=NO_OFFSET if state.high_watermark is None else state.high_watermark,
        max_wait=max_wait,
        max_bytes=state.timeouts.fetch_max_bytes,
    )


def next_request_at(role: Follower, after: float) -> float:
    """Returns when a check of the voters or the next fetch of a failed snapshot is due; infinite if only an event can
    wake us.
    """
    if role.resume > after:
        return role.resume
    return role.next_voter_check if role.next_voter_check > after else inf


def is_waiting_for_flush(state: State) -> bool:
    return not _is_flushed(state) and isinstance(state.role, (Follower, Unattached))
