"""Bootstrap lists, backoff, versions, routing: decisions without I/O."""

import pytest

from trimaran.wire.client.backoff import ExponentialBackoff
from trimaran.wire.client.bootstrap import Bootstrap, parse_bootstrap
from trimaran.wire.client.destinations import (
    AnyNode,
    ControllerNode,
    CoordinatorNode,
    LeaderNode,
    NodeWithId,
)
from trimaran.wire.client.errors import VersionMismatch
from trimaran.wire.client.routing import Routing
from trimaran.wire.client.versions import Negotiated
from trimaran.wire.identity import TopicPartition
from trimaran.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from trimaran.wire.messages.fetch import FetchRequest
from trimaran.wire.messages.find_coordinator import FindCoordinatorResponse
from trimaran.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)


def test_bootstrap_list_is_parsed():
    assert parse_bootstrap("a:1, b.example:9092 ,[::1]:2,PLAINTEXT://c:3") == [
        ("a", 1),
        ("b.example", 9092),
        ("::1", 2),
        ("c", 3),
    ]


@pytest.mark.parametrize(
    "text", ["", " , ", "a", "a:", ":1", "a:x", "a:0", "a:65536", "a:-1", "a:٣"]
)
def test_malformed_bootstrap_list_is_refused(text):
    with pytest.raises(ValueError, match="host:port"):
        parse_bootstrap(text)


def test_failed_node_is_replaced_by_next():
    a, b, c = ("a", 1), ("b", 1), ("c", 1)
    ring = Bootstrap([a, b], start=3)
    assert ring.current == b
    ring.failed(a)
    assert ring.current == b
    ring.failed(b)
    assert ring.current == a
    ring.learned([b, c])
    seen = []
    for _ in range(3):
        seen.append(ring.current)
        ring.failed(ring.current)
    assert seen == [a, b, c]
    ring.failed(a)
    ring.failed(b)
    ring.learned([])
    assert ring.current in (a, b)


def test_backoff_doubles_to_its_maximum_with_jitter():
    middle = ExponentialBackoff(0.1, 1, uniform=lambda: 0.5)
    assert [middle.failed() for _ in range(6)] == pytest.approx([0.1, 0.2, 0.4, 0.8, 1, 1])
    middle.succeeded()
    assert middle.failed() == pytest.approx(0.1)
    assert ExponentialBackoff(1, 2, uniform=lambda: 0.0).failed() == pytest.approx(0.8)
    assert ExponentialBackoff(1, 2, uniform=lambda: 1.0).failed() == pytest.approx(1.2)
    for _ in range(5000):
        assert middle.failed() <= 1.2


def test_backoff_without_randomness_is_exact():
    exact = ExponentialBackoff(0.05, 2)
    assert [exact.failed() for _ in range(8)] == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 2, 2]


def offers(*versions) -> Negotiated:
    keys = [ApiVersion(api_key=1, min_version=low, max_version=high) for low, high in versions]
    return Negotiated.from_response(ApiVersionsResponse(api_keys=keys))


def test_highest_common_version_is_chosen():
    ours = FetchRequest.VERSIONS
    assert offers((0, 4)).best(FetchRequest) == 4
    assert offers((0, 5)).best(FetchRequest) == 5
    assert offers((0, 32767)).best(FetchRequest) == ours.high
    assert offers((ours.high, 99)).best(FetchRequest) == ours.high
    for none in [(), ((0, 3),), ((ours.high + 1, 99),)]:  # other record formats before 4
        with pytest.raises(VersionMismatch):
            offers(*none).best(FetchRequest)


def metadata(leaders, *, brokers=(1, 2), topic_id=b"t" * 16, error=0, controller=2):
    """Returns a topic `t` whose partition i has `leaders[i]`, (leader, epoch)."""
    partitions = [
        MetadataResponsePartition(
            partition_index=i, leader_id=leader, leader_epoch=epoch, replica_nodes=[], isr_nodes=[]
        )
        for i, (leader, epoch) in enumerate(leaders)
    ]
    topic = MetadataResponseTopic(
        name="t", topic_id=topic_id, partitions=partitions, error_code=error
    )
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=i, host=f"n{i}", port=i) for i in brokers],
        controller_id=controller,
        topics=[topic],
    )


def routing() -> Routing:
    return Routing(Bootstrap([("boot", 1)]))


def test_router_initially_knows_only_bootstrap_addresses():
    known = routing()
    assert known.locate(AnyNode()) == ("boot", 1)
    for destination in (
        NodeWithId(1),
        ControllerNode(),
        LeaderNode(TopicPartition("t", 0)),
        CoordinatorNode("g"),
    ):
        assert known.locate(destination) is None


def test_metadata_contains_nodes_controller_and_leaders():
    known = routing()
    known.update_metadata(metadata([(1, 5), (-1, 7)]))
    assert known.locate(NodeWithId(2)) == known.locate(ControllerNode()) == ("n2", 2)
    assert known.locate(LeaderNode(TopicPartition("t", 0))) == ("n1", 1)
    assert known.locate(LeaderNode(TopicPartition("t", 1))) is None
    assert known.locate(LeaderNode(TopicPartition("t", 2))) is None
    assert known.topic_id("t") == b"t" * 16


def test_leaders_never_return_to_older_epoch():
    known = routing()
    known.update_metadata(metadata([(1, 5)]))
    known.update_metadata(metadata([(2, 4)]))
    assert known.leader(TopicPartition("t", 0)).leader_id == 1
    known.update_metadata(metadata([(2, 6)]))
    assert known.leader(TopicPartition("t", 0)).leader_id == 2
    known.update_metadata(metadata([(1, 0)], topic_id=b"u" * 16))
    assert known.leader(TopicPartition("t", 0)).leader_id == 1


def test_topic_error_keeps_known_leaders_unless_deleted():
    known = routing()
    known.update_metadata(metadata([(1, 5)]))
    known.update_metadata(metadata([], error=5))
    assert known.locate(LeaderNode(TopicPartition("t", 0))) == ("n1", 1)
    known.update_metadata(metadata([], error=3))
    assert known.locate(LeaderNode(TopicPartition("t", 0))) is None


def test_wrong_routes_are_forgotten():
    known = routing()
    known.update_metadata(metadata([(1, 5)]))
    group = CoordinatorNode("g")
    known.update_coordinator(group, FindCoordinatorResponse(node_id=1, host="n1", port=1))
    assert known.locate(group) == ("n1", 1)
    assert known.locate(CoordinatorNode("g", key_type=1)) is None
    for destination in (ControllerNode(), LeaderNode(TopicPartition("t", 0)), group, NodeWithId(2)):
        known.forget(destination)
        assert known.locate(destination) is None
    known.update_metadata(metadata([(2, 4)]))
    assert (
        known.locate(LeaderNode(TopicPartition("t", 0))) is None
    )  # the forgotten epoch still counts
    known.update_metadata(metadata([(2, 6)]))
    assert known.locate(LeaderNode(TopicPartition("t", 0))) == ("n2", 2)


def test_unavailable_coordinator_is_not_remembered():
    known = routing()
    answer = FindCoordinatorResponse(error_code=15, node_id=-1, host="", port=-1)
    known.update_coordinator(CoordinatorNode("g"), answer)
    assert known.locate(CoordinatorNode("g")) is None
