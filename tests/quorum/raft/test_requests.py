"""Requests in flight: one at a time to each peer, timed out, repeated with growing pauses."""

from __future__ import annotations

from math import inf

import pytest

from trimaran.quorum.raft.requests import CONNECTIONS_MAX, RequestManager
from trimaran.quorum.raft.types import Peer, Timeouts

TIMES = Timeouts(request=2.0, retry_backoff=0.02, retry_backoff_max=0.1)
PEER, OTHER = Peer(2, "test", 2), Peer(3, "test", 3)


def manager(**changes: float) -> RequestManager:
    return RequestManager(Timeouts(**changes) if changes else TIMES)


def send(requests: RequestManager, peer: Peer = PEER, now: float = 0.0) -> int:
    return requests.sent(peer, 0, TIMES.patience, now)


def states(requests: RequestManager, now: float) -> tuple[bool, bool, bool]:
    """Returns whether the peer may be asked, is being asked, is backing off."""
    return (
        requests.is_ready(PEER, now),
        requests.is_in_flight(PEER),
        requests.is_backing_off(PEER, now),
    )


def test_peer_is_available_asked_or_backing_off():
    requests = manager()
    assert states(requests, 0.0) == (True, False, False), "never asked"
    token = send(requests)
    assert states(requests, 0.0) == (False, True, False)
    requests.answered(token)
    assert states(requests, 0.0) == (True, False, False)
    requests.back_off(PEER, 1.0)
    assert states(requests, 1.01) == (False, False, True)
    assert states(requests, 1.0 + TIMES.retry_backoff) == (True, False, False)
    send(requests, now=2.0)
    requests.back_off(PEER, 2.0)
    assert states(requests, 2.01) == (False, True, False), "what is asked already is asked"


def test_pauses_double_up_to_the_longest():
    requests, now = manager(), 0.0
    pauses = []
    for _ in range(5):
        requests.back_off(PEER, now)
        pauses.append(requests.deadline(now) - now)
        now += 1
    assert pauses == pytest.approx([0.02, 0.04, 0.08, 0.1, 0.1])
    requests.succeeded(PEER)
    assert requests.deadline(now) == inf
    requests.back_off(PEER, now)
    assert requests.deadline(now) - now == pytest.approx(0.02)


def test_longest_pause_is_at_least_the_first():
    requests = manager(retry_backoff=0.5, retry_backoff_max=0.1)
    requests.back_off(PEER, 0.0)
    assert requests.deadline(0.0) == 0.5


def test_unanswered_request_is_overdue_dropped_then_repeated():
    requests = manager()
    token = send(requests)
    assert (requests.is_waiting(0.0), requests.deadline(0.0)) == (True, TIMES.patience)
    assert not requests.is_waiting(TIMES.patience)
    assert requests.deadline(TIMES.patience) == TIMES.request
    requests.expire(TIMES.request)
    assert requests.answered(token) is None, "too late"
    assert requests.is_backing_off(PEER, TIMES.request)


def test_each_request_expires_at_its_own_time():
    requests = manager()
    early, late = send(requests, PEER, 0.0), send(requests, OTHER, 1.0)
    requests.expire(TIMES.request)
    assert requests.answered(early) is None
    assert requests.answered(late) is not None


def test_peer_that_failed_last_is_not_awaited():
    requests = manager()
    requests.back_off(PEER, 0.0)
    send(requests, now=1.0)
    assert not requests.is_waiting(1.0)


def test_only_idle_connections_are_evicted_when_full():
    requests = manager()
    for node_id in range(100, 100 + CONNECTIONS_MAX - 3):
        requests.answered(send(requests, Peer(node_id)))
    assert len(requests._connections) == CONNECTIONS_MAX - 3
    token = send(requests, PEER)
    requests.back_off(OTHER, 0.0)
    requests.back_off(Peer(4), -1.0)
    assert len(requests._connections) == CONNECTIONS_MAX
    now = -1.0 + TIMES.retry_backoff
    requests.back_off(Peer(4), now - TIMES.retry_backoff)
    requests.succeeded(Peer(4))
    send(requests, Peer(5), 0.01)
    assert set(requests._connections) == {PEER.id, OTHER.id, 5}
    assert requests.answered(token) is not None
