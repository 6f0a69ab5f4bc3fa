"""The proxy in front of a node, with clients of other projects."""

import asyncio  # noqa: TID251 - aiokafka is made for it
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest
from aiokafka import AIOKafkaProducer

from tests.certificates import Certificates
from tests.librdkafka import Consumer, Producer
from trimaran.faults.fault_set import FaultSet
from trimaran.faults.proxy import FaultProxy, ProxyLoop, ProxySettings
from trimaran.faults.proxy_addresses import AddressRewriter
from trimaran.testing import EmbeddedKafka
from trimaran.testing.faults import KafkaFaults
from trimaran.testing.proxied import ProxyThread
from trimaran.wire.blocking import BlockingClient
from trimaran.wire.client.bootstrap import parse_bootstrap
from trimaran.wire.identity import Address
from trimaran.wire.messages.describe_cluster import DescribeClusterBroker, DescribeClusterResponse
from trimaran.wire.messages.fetch import FetchResponse, NodeEndpoint
from trimaran.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from trimaran.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
)
from trimaran.wire.messages.registry import ApiKey


@pytest.fixture(scope="module")
def kafka():
    with EmbeddedKafka() as running:
        yield running


@pytest.fixture
def proxied(kafka):
    """Yields the faults of a proxy, and its address."""
    rules = FaultSet()
    proxy = ProxyThread(ProxySettings(parse_bootstrap(kafka.bootstrap)), rules)
    yield KafkaFaults(rules), proxy.bootstrap
    proxy.stop()


def test_clients_stay_on_the_proxy(kafka, proxied):
    faults, bootstrap = proxied
    topic = kafka.create_topic("through-a-proxy")
    seen = faults.add(api=["Produce", "Fetch"])
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(5):
        producer.produce(topic, b"%d" % number)
    assert producer.flush(60) == 0
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    assert [record.value() for record in consumer.consume(5, timeout=60)] == [
        b"%d" % number for number in range(5)
    ]
    consumer.close()
    assert {each.api for each in seen.seen} == {ApiKey.PRODUCE, ApiKey.FETCH}
    assert {each.peer.broker for each in seen.seen} == {1}


def test_error_is_retried_by_another_client(kafka, proxied):
    faults, bootstrap = proxied
    topic = kafka.create_topic("retried", partitions=2)
    rule = faults.add(
        api="Produce", topic=topic, partition=1, error="NOT_LEADER_OR_FOLLOWER", times=2
    )

    async def produce():
        async with AIOKafkaProducer(bootstrap_servers=bootstrap, retry_backoff_ms=10) as producer:
            sent = [await producer.send(topic, b"v", partition=n) for n in (0, 1)]
            return [(await each).offset for each in sent]

    assert asyncio.run(produce()) == [0, 0]
    assert (rule.applied, faults.unmatched()) == (2, [])


def test_topics_of_newer_fetches_are_known_by_name(kafka, proxied):
    faults, bootstrap = proxied
    topic = kafka.create_topic("by-id")
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, b"v")
    assert producer.flush(60) == 0
    rule = faults.add(api="Fetch", topic=topic, error="NOT_LEADER_OR_FOLLOWER", times=1)
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "g2", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    assert [record.value() for record in consumer.consume(1, timeout=60)] == [b"v"]
    consumer.close()
    assert rule.seen[0].version >= 13


def test_client_of_dead_upstream_is_disconnected():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        rules = FaultSet()
        proxy = ProxyThread(ProxySettings([Address(*unused.getsockname())]), rules)
    host, port = proxy.bootstrap.split(":")
    with socket.create_connection((host, int(port)), 60) as client:
        client.settimeout(60)
        assert client.recv(1) == b""
    proxy.stop()
    assert "a client was not connected to broker -1" in str(rules.trace)


def test_proxy_refuses_itself_as_upstream():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = Address(*unused.getsockname())
    with pytest.raises(ProxyLoop):
        FaultProxy(ProxySettings([address], address), FaultSet()).open()


def test_tls_begins_and_ends_in_proxies(kafka):
    certificates = Certificates()
    rules = FaultSet()
    inner = ProxyThread(
        ProxySettings(parse_bootstrap(kafka.bootstrap), tls=certificates.server_context()), rules
    )
    outer = ProxyThread(
        ProxySettings(parse_bootstrap(inner.bootstrap), upstream_tls=certificates.client_context()),
        FaultSet(),
    )
    seen = KafkaFaults(rules).add(api="Metadata")
    topic = kafka.create_topic("tls")
    with BlockingClient(outer.bootstrap) as client:
        response = client.refresh([topic])
        assert [found.name for found in response.topics] == [topic]
    assert seen.matched
    outer.stop()
    inner.stop()


def ports():
    opened = []

    def open_port(node_id):
        opened.append(node_id)
        return Address("proxy", 1000 + node_id)

    return opened, AddressRewriter(open_port)


def test_addresses_of_each_response_are_rewritten():
    opened, rewriter = ports()
    broker = {"host": "real", "port": 9}
    responses = [
        MetadataResponse(brokers=[MetadataResponseBroker(node_id=1, **broker)], topics=[]),
        DescribeClusterResponse(
            error_code=0,
            error_message=None,
            cluster_id="c",
            brokers=[DescribeClusterBroker(broker_id=1, **broker)],
        ),
        FetchResponse(responses=[], node_endpoints=[NodeEndpoint(node_id=1, **broker)]),
        FindCoordinatorResponse(coordinators=[], error_code=0, node_id=1, **broker),
    ]
    for response in responses:
        assert rewriter.rewrite(response)
        (found,) = [
            each for array in ("brokers", "node_endpoints") for each in getattr(response, array, ())
        ] or [response]
        assert (found.host, found.port) == ("proxy", 1001)
    assert opened == [1]
    assert rewriter.upstream == {1: Address("real", 9)}


def test_nothing_is_rewritten_where_no_broker_is_named():
    _, rewriter = ports()
    assert not rewriter.wants(ApiKey.FETCH, 15)
    assert rewriter.wants(ApiKey.FETCH, 16)
    assert not rewriter.wants(ApiKey.HEARTBEAT, 0)
    assert not rewriter.wants(ApiKey.METADATA, 99)
    nowhere = Coordinator(key="g", node_id=-1, host="", port=-1, error_code=15, error_message=None)
    assert not rewriter.rewrite(
        FindCoordinatorResponse(coordinators=[nowhere], error_code=0, node_id=-1, host="", port=-1)
    )
    assert not rewriter.rewrite(FetchResponse(responses=[]))


def test_brokers_keep_their_ports_when_they_move():
    opened, rewriter = ports()
    for port in (9, 10, 1001):
        response = MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=1, host="real", port=port)], topics=[]
        )
        assert rewriter.rewrite(response)
        assert response.brokers[0].port == 1001
    response = MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=1, host="proxy", port=1001)], topics=[]
    )
    rewriter.rewrite(response)
    assert opened == [1]
    assert rewriter.upstream == {1: Address("real", 1001)}


def test_own_client_reads_metadata_in_parallel(kafka, proxied):
    _, bootstrap = proxied

    def nodes(_number):
        with BlockingClient(bootstrap) as client:
            response = client.refresh(None)
            return {f"{broker.host}:{broker.port}" for broker in response.brokers}

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(nodes, range(4)))
    assert len({frozenset(each) for each in found}) == 1
    assert kafka.bootstrap not in found[0]
