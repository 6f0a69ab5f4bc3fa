"""The requests of the scale bench to a cluster of either system, with one connection to each broker."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager

from bench.clusters import Cluster
from trimaran.quorum.observing.description import describe_quorum_request
from trimaran.wire.blocking import BlockingConnection
from trimaran.wire.client.bootstrap import parse_bootstrap
from trimaran.wire.client.errors import ConnectionLost, ConnectRefused, RequestTimedOut
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import Address
from trimaran.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from trimaran.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
)
from trimaran.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from trimaran.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

SECONDS_MAX = 180.0
PAUSE_SECONDS = 0.05  # the pause between two requests: a response about 10,000 partitions costs a broker about 20 ms
LATEST = -1

Clients = Mapping[int, BlockingConnection]
"""Connections by broker id; 0 is the connection to any broker, for requests that brokers forward."""


@contextmanager
def open_clients(cluster: Cluster) -> Iterator[Clients]:
    """Opens a connection to each broker, once all accept one."""
    with ExitStack() as stack:
        clients: dict[int, BlockingConnection] = {}
        for address in parse_bootstrap(cluster.bootstrap):
            client = _connected(address)
            stack.callback(client.close)
            clients[_id_at(client, address)] = client
        yield {0: next(iter(clients.values())), **clients}


def _connected(address: Address) -> BlockingConnection:
    deadline = time.monotonic() + SECONDS_MAX
    while True:
        try:
            return BlockingConnection(address, timeout=5.0)
        except (
            ConnectRefused,
            ConnectionLost,
            RequestTimedOut,
        ):  # a broker listens before it serves
            if time.monotonic() > deadline:
                raise
            time.sleep(PAUSE_SECONDS)


def _id_at(client: BlockingConnection, address: Address) -> int:
    deadline = time.monotonic() + SECONDS_MAX
    while time.monotonic() < deadline:
        for broker in client.call(MetadataRequest(topics=[])).brokers:
            if broker.port == address[1]:
                return int(broker.node_id)
        time.sleep(PAUSE_SECONDS)
    raise RuntimeError(f"no broker listens at {address}")


def create_topics(
    client: BlockingConnection, partitions: Mapping[str, int], replication: int = 3
) -> None:
    """Creates all topics in one request, and retries those without a response in time, as on a busy machine.

    A retry, also one of a broker after a change of the controller, may find that the topic exists already.
    """
    left = dict(partitions)
    deadline = time.monotonic() + SECONDS_MAX
    while left and time.monotonic() < deadline:
        for topic in _create_topics(client, left, replication):
            if topic.error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                del left[topic.name]
            elif topic.error_code != ErrorCode.REQUEST_TIMED_OUT:
                raise RuntimeError(f"{topic.name}: {topic.error_code} {topic.error_message}")
    if left:
        raise RuntimeError(f"{len(left)} topics were not made within {SECONDS_MAX:.0f} s")


def _create_topics(
    client: BlockingConnection, partitions: Mapping[str, int], replication: int
) -> list[CreatableTopicResult]:
    topics = [
        CreatableTopic(
            name=name,
            num_partitions=count,
            replication_factor=replication,
            assignments=[],
            configs=[],
        )
        for name, count in partitions.items()
    ]
    response = client.call(CreateTopicsRequest(topics=topics), timeout=SECONDS_MAX)
    return list(response.topics)


def create_partitions(client: BlockingConnection, name: str, count: int) -> None:
    """Creates partitions as `create_topics` does; a retry may find that they exist already."""
    topic = CreatePartitionsTopic(name=name, count=count, assignments=None)
    request = CreatePartitionsRequest(topics=[topic], timeout_ms=60_000, validate_only=False)
    deadline = time.monotonic() + SECONDS_MAX
    asked_before = False
    while True:
        result = client.call(request, timeout=SECONDS_MAX).results[0]
        made_before = asked_before and result.error_code == ErrorCode.INVALID_PARTITIONS
        if not result.error_code or made_before:
            return
        if result.error_code != ErrorCode.REQUEST_TIMED_OUT or time.monotonic() > deadline:
            raise RuntimeError(f"{name}: {result.error_code} {result.error_message}")
        asked_before = True


def quorum_epoch(client: BlockingConnection) -> int:
    """Returns the epoch of the metadata quorum's leader; every election increases it."""
    response = client.call(describe_quorum_request(), timeout=SECONDS_MAX)
    return int(response.topics[0].partitions[0].leader_epoch)


def _metadata(client: BlockingConnection, name: str) -> MetadataResponse:
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False
    )
    response: MetadataResponse = client.call(request, timeout=SECONDS_MAX)
    return response


def known_everywhere(clients: Clients, name: str, count: int, pause: float = 0.0) -> bool:
    """Waits until the metadata of every broker has all partitions of the topic, each with a leader."""
    time.sleep(pause)
    for broker_id, client in clients.items():
        if broker_id:
            partitions = _metadata(client, name).topics[0].partitions
            if len(partitions) < count or any(partition.leader_id < 0 for partition in partitions):
                return False
    return True


def all_applied(clients: Clients, name: str, count: int, of_each: int | None = None) -> bool:
    """Waits until every partition has a leader that serves it, which requires its log; `of_each` limits the number of
    partitions that are checked for each leader.
    """
    partitions = _metadata(clients[0], name).topics[0].partitions
    if len(partitions) < count or any(partition.leader_id < 0 for partition in partitions):
        return False
    led: dict[int, list[int]] = {}
    for partition in partitions:
        led.setdefault(partition.leader_id, []).append(partition.partition_index)
    return all(
        broker_id in clients and _all_answer(clients[broker_id], name, indices[:of_each])
        for broker_id, indices in led.items()
    )


def _all_answer(client: BlockingConnection, name: str, indices: list[int]) -> bool:
    wanted = [ListOffsetsPartition(partition_index=index, timestamp=LATEST) for index in indices]
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=name, partitions=wanted)]
    )
    response = client.call(request, timeout=SECONDS_MAX)
    return not any(partition.error_code for partition in response.topics[0].partitions)


def seconds_until(holds: Callable[[], bool], pause: float = PAUSE_SECONDS) -> float:
    began = time.perf_counter()
    while not holds():
        if time.perf_counter() - began > SECONDS_MAX:
            raise RuntimeError(f"not within {SECONDS_MAX:.0f} s")
        time.sleep(pause)
    return time.perf_counter() - began
