"""Requests for the cluster id: one controller after the other, with a backoff, on a clock that jumps; and an observer
of a quorum in this process.
"""

import pytest
import trio

from tests.cluster.nodes import CLUSTER_ID
from tests.cluster.quorum_nodes import quorum_nodes
from tests.trimaran.client.listeners import Node, listening, nobody
from tests.zkcompat import build
from trimaran.wire.client.errors import (
    AuthenticationRefused,
    ConnectionLost,
    RequestTimedOut,
    VersionMismatch,
)
from trimaran.wire.errors import ErrorCode, RemoteProtocolError
from trimaran.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from trimaran.wire.security.listener import PLAINTEXT
from trimaran.zkcompat.quorum_feed import observer
from trimaran.zkcompat.quorum_feed.observer import (
    QuorumUnreachableError,
    find_cluster_id,
    open_observer,
    parse_controllers,
)

TWO = [("a", 1), ("b", 2)]


@pytest.fixture
def asked(monkeypatch):
    """Records the time and address of each request; each response is taken from `answers`, and exceptions are raised."""
    found, answers = [], []

    async def ask(host, port, security):
        found.append((round(trio.current_time() - began, 3), host, port, security))
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def run(*given, seconds=100.0):
        nonlocal began
        began = trio.current_time()
        answers[:] = given
        return await find_cluster_id(TWO, seconds), found

    began = 0.0
    monkeypatch.setattr(observer, "_ask_cluster_id", ask)
    return run


async def test_controllers_are_polled_in_turn_with_backoff(autojump_clock, asked):
    failures = [
        ConnectionLost("gone"),
        RequestTimedOut("late"),
        VersionMismatch("old"),
        RemoteProtocolError("wrong"),
    ]
    cluster_id, found = await asked(*failures * 3, "c")
    assert cluster_id == "c"
    seconds = [0, 0.2, 0.6, 1.4, 3.0, 6.2]
    times = [(at, host, port, PLAINTEXT) for at in seconds for host, port in TWO]
    assert found == [*times, (11.2, "a", 1, PLAINTEXT)]


async def test_first_reachable_controller_gives_cluster_id(autojump_clock, asked):
    assert (await asked("c"))[1] == [(0, "a", 1, PLAINTEXT)]
    assert (await asked(ConnectionLost("gone"), "d"))[0] == "d"


async def test_last_failure_is_reported_after_timeout(autojump_clock, asked):
    with pytest.raises(QuorumUnreachableError) as told:
        await asked(*[ConnectionLost("gone"), RequestTimedOut("late")] * 9, seconds=2.0)
    assert str(told.value) == "no controller answers (b:2: late)"


async def test_refused_login_is_raised_with_its_address(autojump_clock, asked):
    with pytest.raises(AuthenticationRefused, match="a:1: who are you"):
        await asked(AuthenticationRefused("who are you"))


def answer(code=0, message=None):
    return DescribeClusterResponse(
        error_code=code, error_message=message, endpoint_type=2, cluster_id="c", brokers=[]
    )


async def test_controller_is_requested_from_controllers():
    node = Node({DescribeClusterRequest: answer()})
    with listening(node) as address, nobody() as gone:
        assert await find_cluster_id([gone, address], 20) == "c"
    assert node.asked == [
        DescribeClusterRequest(include_cluster_authorized_operations=False, endpoint_type=2)
    ]


@pytest.mark.parametrize(
    ("message", "told"),
    [("not here", "DescribeCluster: not here"), (None, "DescribeCluster: 42")],
)
async def test_refusal_of_controller_is_raised(message, told):
    refusing = Node({DescribeClusterRequest: answer(ErrorCode.INVALID_REQUEST, message)})
    with listening(refusing) as (host, port):
        with pytest.raises(QuorumUnreachableError, match=f"{host}:{port}: {told}"):
            await find_cluster_id([(host, port)], 0.1)


def test_malformed_controller_address_is_named():
    assert parse_controllers("a:1,b:2") == TWO
    with pytest.raises(ValueError, match="HOST:PORT of a controller is expected"):
        parse_controllers("a")


async def test_observer_sees_committed_records_and_leader(tmp_path):
    with trio.fail_after(20):
        async with quorum_nodes(tmp_path) as cluster:
            for node_id in cluster.voters:
                await cluster.start(node_id)
            leader = (await cluster.leader()).node
            epoch = leader.leader.value.epoch
            last = leader.propose([build.broker(1)], epoch)
            bootstrap = [(peer.host, peer.port) for peer in cluster.voters.values()]
            async with open_observer(CLUSTER_ID, bootstrap, keep_until=last) as feed:
                await feed.wait_for(lambda feed: feed.ready and feed.leader is not None)
                assert feed.leader.id == leader.leader.value.leader_id
                assert feed.leader.epoch == epoch
                await feed.wait_for(lambda feed: feed.image.provenance.offset >= last)
                assert 1 in feed.image.cluster.brokers
                assert feed.kept_until == last
                peer = cluster.voters[feed.leader.id]
                assert feed.leader_address() == (peer.host, peer.port)
                assert feed.heard_ms > 0
