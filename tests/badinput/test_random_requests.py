"""Complete requests with random fields: each gets a response or ends the connection, without an internal error."""

import contextlib

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.badinput.nodes import PEERS, TOPIC, running_cluster, unharmed
from tests.badinput.peer import Peer, ask, codes
from tests.badinput.test_decoding import served
from tests.badinput.test_quorum_requests import begin, epoch_of
from tests.examples import examples
from tests.wire.random_messages import random_message
from tests.wire.strategies import messages
from tests.wire.test_numbers import set_integers
from trimaran.wire.codec.declarations import Struct
from trimaran.wire.errors import LocalProtocolError
from trimaran.wire.messages.registry import REQUESTS

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.skipif(PEERS is not None, reason="Apache Kafka 4.3's controller ends by it"),
]

METADATA = "__cluster_metadata"
# The topic may be deleted by a case; each case checks that the node still serves.
FUZZED = "fuzzed"
ANSWER_SECONDS_MAX = 0.3


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """Yields a cluster that may receive any request."""
    with running_cluster(tmp_path_factory.mktemp("random")) as cluster:
        cluster.create(TOPIC, 2)
        cluster.create(FUZZED, 2)
        yield cluster


def knowing(message: Struct, own, rng) -> None:
    """Puts names and ids of the cluster into some fields, so that the message passes the first check."""
    known = {
        "name": [FUZZED, METADATA],
        "topic": [FUZZED, METADATA],
        "topic_name": [FUZZED, METADATA],
        "resource_name": [FUZZED, "1"],
        "resource_type": [2, 4],
        "topic_id": [own.topic_ids[FUZZED], bytes(15) + b"\1"],
        "cluster_id": [own.cluster_id],
        "group_id": ["g"],
        "broker_id": [12, 1],
        "replica_id": [-1, 11, 1],
        "controller_id": [1],
        "leader_id": [1],
        "partition": [0],
        "partition_index": [0],
        "index": [0],
    }
    for field in message.__fields__:
        value = getattr(message, field.name)
        if field.name in known and value is not None and rng.random() < 0.7:
            setattr(message, field.name, rng.choice(known[field.name]))
        elif isinstance(value, int) and rng.random() < 0.4:
            setattr(message, field.name, type(value)(rng.randrange(-1, 3)))
        if isinstance(value, Struct):
            value = value.replace()  # defaults are shared, so they must not be changed
            setattr(message, field.name, value)
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, Struct):
                knowing(item, own, rng)


@pytest.mark.parametrize("role", ["broker", "controller"])
@settings(
    examples(0.4),  # each example sends a request of every API, some of them with a wait
    phases=[Phase.explicit, Phase.generate],  # shrinking a run against a node takes too long
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_random_requests_leave_node_unharmed(own, role, data):
    node = getattr(own, role)
    with unharmed(node, lines_max=20, elections=True):
        for key, version in served(node):
            request = data.draw(messages(REQUESTS[key], version), label=REQUESTS[key].__name__)
            if REQUESTS[key].__name__ != "UnregisterBrokerRequest":
                knowing(request, own, data.draw(st.randoms()))
            peer = Peer(node.address)
            peer.socket.settimeout(ANSWER_SECONDS_MAX)
            with contextlib.closing(peer), contextlib.suppress(TimeoutError, LocalProtocolError):
                found = codes(peer.ask(request, version))
                assert "UNKNOWN_SERVER_ERROR" not in found, request


def test_unknown_leader_of_higher_epoch_is_believed_temporarily(own):
    """KIP-853: our set of voters may be older than the leader's. The belief ends when the leader is silent for a fetch
    timeout.
    """
    controller = own.controller
    with unharmed(controller, lines_max=20, elections=True):
        claimed = epoch_of(controller) + 1
        claim = begin(leader_id=77, leader_epoch=claimed)
        assert codes(ask(controller.address, claim, 1)) == {"NONE"}
    assert epoch_of(controller) > claimed


@pytest.mark.parametrize("end", [0, 1], ids=["lowest", "highest"])
@pytest.mark.parametrize("role", ["broker", "controller"])
def test_me8_extreme_integers_leave_node_unharmed(own, role, end):
    """All integer fields of every API have their least or greatest value. Delayed responses are not awaited."""
    node = getattr(own, role)
    with unharmed(node, lines_max=20, elections=True):
        for key, version in served(node):
            request = random_message(REQUESTS[key], version, 1)
            set_integers(request, version, end)
            peer = Peer(node.address)
            peer.socket.settimeout(ANSWER_SECONDS_MAX)
            with contextlib.closing(peer), contextlib.suppress(TimeoutError):
                found = codes(peer.ask(request, version))
                assert "UNKNOWN_SERVER_ERROR" not in found, request
