"""A request on a listener other than the voters' gets the leader's address for that listener name."""

from types import SimpleNamespace

import pytest

from tests.broker.calls import finished
from trimaran.node.replicated.pending import PendingResponse
from trimaran.quorum.handlers.context import core_response
from trimaran.quorum.raft import messages as core
from trimaran.quorum.raft.types import Identity, Peer, VoterEndpoint

VOTERS, LOGINS = VoterEndpoint("VOTERS", "a", 1), VoterEndpoint("LOGINS", "a", 2)
OF_ONE = Peer(1, "a", 1)
OF_TWO = Peer(2, "b", 3)


async def advertised_leader(leader, listener):
    """Returns the leader's endpoint as advertised by node 1, which has the listeners of voter 2."""
    identity = Identity(1, endpoints=(VOTERS, LOGINS), listener="VOTERS")
    voter = SimpleNamespace(
        endpoints=(VoterEndpoint("VOTERS", "b", 3), VoterEndpoint("Logins", "b", 4))
    )

    pending = PendingResponse()
    pending.complete(core.FetchResponse(epoch=1, leader_id=leader.id, leader=leader))
    node = SimpleNamespace(
        settings=SimpleNamespace(identity=identity), voters={2: voter}, handle=lambda _: pending
    )
    call = SimpleNamespace(
        header=SimpleNamespace(api_version=17), connection=SimpleNamespace(listener=listener)
    )
    context = SimpleNamespace(node=node)
    steps = core_response(context, call, None, core.FetchResponse, lambda answer, _: answer)
    return (await finished(steps)).leader


@pytest.mark.parametrize(
    ("leader", "listener", "expected"),
    [
        (OF_ONE, "VOTERS", OF_ONE),
        (OF_ONE, "logins", Peer(1, "a", 2)),
        (OF_TWO, "LOGINS", Peer(2, "b", 4)),
        (OF_TWO, "UNKNOWN", None),
        (Peer(3, "c", 5), "LOGINS", None),
    ],
)
async def test_leader_is_named_by_request_listener(leader, listener, expected):
    assert await advertised_leader(leader, listener) == expected
