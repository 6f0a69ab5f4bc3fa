"""The times from kill -9 of a partition's leader to the next ack, and until the killed broker is in the ISR again."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from bench.accounting import percentile
from bench.clusters import Cluster, Opener
from bench.load import create_topic
from bench.results import Figure
from bench.sizes import sized
from trimaran.wire.blocking import BlockingClient
from trimaran.wire.client.bootstrap import parse_bootstrap
from trimaran.wire.client.errors import ConnectionLost, RequestTimedOut
from trimaran.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

ROUNDS = sized(7, 1)
SECONDS_MAX = 60.0
SETTLE_SECONDS = 3.0  # the pause between rounds, so that the restarted node follows again


def broker_failover(open_cluster: Opener, system: str) -> list[Figure]:
    """Measures the time from kill -9 of a partition's leader to its next ack, and from the restart until it is in the
    ISR again.
    """
    acks, returns = [], []
    with open_cluster(3, 3, {}) as cluster:
        create_topic(cluster, "failover", 1, 3)
        for _ in range(ROUNDS):
            time.sleep(SETTLE_SECONDS)
            victim = _leader_of_partition(cluster, "failover")
            producer = Producer(
                {
                    "bootstrap.servers": cluster.bootstrap,
                    "acks": "all",
                    "linger.ms": 0,
                    "log_level": 0,
                }
            )
            _acked(producer)
            cluster.kill(victim)
            acks.append(_seconds_until(partial(_acked, producer)))
            began = time.perf_counter()
            cluster.start(victim)
            _seconds_until(partial(_in_sync, cluster, "failover", victim))
            returns.append(time.perf_counter() - began)
    bench = "broker-failover"
    return [
        Figure(
            bench,
            "kill -9 partition leader, next ack, p50",
            "s",
            "lower",
            system,
            percentile(acks, 0.5),
        ),
        Figure(bench, "kill -9 partition leader, next ack, max", "s", "lower", system, max(acks)),
        Figure(
            bench,
            "started at once, in every ISR again, p50",
            "s",
            "lower",
            system,
            percentile(returns, 0.5),
        ),
    ]


def _seconds_until(attempt: Callable[[], bool]) -> float:
    began = time.perf_counter()
    while not attempt():
        if time.perf_counter() - began > SECONDS_MAX:
            raise RuntimeError(f"not within {SECONDS_MAX} s")
    return time.perf_counter() - began


def _acked(producer: Producer) -> bool:
    outcome: list[bool] = []
    producer.produce(
        "failover", b"x", partition=0, on_delivery=lambda error, _: outcome.append(error is None)
    )
    producer.flush(SECONDS_MAX)
    return bool(outcome and outcome[0])


def _leader_of_partition(cluster: Cluster, topic: str) -> int:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    return admin.list_topics(topic, timeout=10).topics[topic].partitions[0].leader


def _in_sync(cluster: Cluster, topic: str, node_id: int) -> bool:
    """Returns whether the node is in the ISR of the topic's partition again, according to every broker."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
    try:
        for address in parse_bootstrap(cluster.bootstrap):
            with BlockingClient([address], timeout=1.0) as client:
                partition = client.call(None, request).topics[0].partitions[0]
                if node_id not in partition.isr_nodes:
                    return False
    except (ConnectionLost, RequestTimedOut):
        return False
    return True
