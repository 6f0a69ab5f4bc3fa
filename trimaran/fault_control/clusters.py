"""The cluster over HTTP: topics, faults of nodes and links, and the reset between two tests."""

from __future__ import annotations

from typing import Any

from trimaran.client.topics import topic_rows
from trimaran.fault_control.controlled import ControlledKafka, NodeAction
from trimaran.fault_control.requests import (
    ControlAnswer,
    ControlRequest,
    NotFound,
    NotSupported,
    fitting,
    refused,
)
from trimaran.fault_control.rules import checked_seed

_INT_MAX = (1 << 31) - 1


def show_cluster(cluster: ControlledKafka, _: ControlRequest) -> ControlAnswer:
    content = {
        "bootstrap": cluster.bootstrap,
        "seed": cluster.faults.seed,
        "nodes": cluster.nodes(),
        "node_actions": [str(action) for action in cluster.node_actions],
        "links": cluster.partition is not None,
    }
    return ControlAnswer(content=content)


def reset(cluster: ControlledKafka, request: ControlRequest) -> ControlAnswer:
    given = request.fields({"seed", "topics"})
    seed = checked_seed(given.get("seed", cluster.faults.seed))
    with_topics = given.get("topics", False)
    if not isinstance(with_topics, bool):
        raise refused(f"topics is {str(with_topics)[:100]!r}", "write true or false")
    cluster.faults.clear()
    cluster.faults.seed = seed
    cluster.recover()
    if with_topics:
        for row in _topics(cluster):
            cluster.kafka.delete_topic(row["topic"])
    return ControlAnswer(204)


def list_topics(cluster: ControlledKafka, _: ControlRequest) -> ControlAnswer:
    rows, left_off = fitting(_topics(cluster))
    return ControlAnswer(content={"topics": rows, "left_off": left_off})


def _topics(cluster: ControlledKafka) -> list[dict[str, Any]]:
    """Returns the topics without Kafka's own."""
    with cluster.kafka.client() as client:
        return topic_rows([topic for topic in client.refresh(None).topics if not topic.is_internal])


def create_topic(cluster: ControlledKafka, request: ControlRequest) -> ControlAnswer:
    given = request.fields({"name", "partitions", "replication", "configs"})
    name, configs = given.get("name"), given.get("configs", {})
    if not isinstance(name, str) or not name:
        raise refused(f"name is {str(name)[:100]!r}", "write the name of a topic")
    if not isinstance(configs, dict):
        raise refused("configs is no object", 'write for example {"cleanup.policy": "compact"}')
    cluster.kafka.create_topic(
        name,
        partitions=_count(given, "partitions", 1),
        replication=_count(given, "replication", -1),
        configs=configs,
    )
    return ControlAnswer(201, {"name": name})


def _count(given: dict[str, Any], key: str, default: int) -> int:
    value = given.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int) or not -1 <= value <= _INT_MAX:
        raise refused(f"{key} is {str(value)[:100]!r}", "write a whole number")
    return value


def delete_topic(cluster: ControlledKafka, request: ControlRequest) -> ControlAnswer:
    name = request.path["topic"]
    if name not in [row["topic"] for row in _topics(cluster)]:
        raise NotFound(f"there is no topic {name[:250]!r}", "it was not created", "create it first")
    cluster.kafka.delete_topic(name)
    return ControlAnswer(204)


def list_nodes(cluster: ControlledKafka, _: ControlRequest) -> ControlAnswer:
    return ControlAnswer(content={"nodes": cluster.nodes()})


def act_on_node(cluster: ControlledKafka, request: ControlRequest) -> ControlAnswer:
    word, node = request.path["action"], request.path["node"]
    if word not in [str(action) for action in NodeAction]:
        raise NotFound(
            f"there is no action {word[:100]!r}", "it is unknown", f"use {', '.join(NodeAction)}"
        )
    act = cluster.node_actions.get(NodeAction(word))
    if act is None:
        raise _not_supported(word, cluster)
    act(node)
    return ControlAnswer(content={"nodes": cluster.nodes()})


def partition(cluster: ControlledKafka, request: ControlRequest) -> ControlAnswer:
    sides = request.fields({"sides"}).get("sides")
    if not isinstance(sides, list) or not all(isinstance(side, list) and side for side in sides):
        raise refused("sides is no list of lists", 'write for example {"sides": [[11], [12, 13]]}')
    if cluster.partition is None:
        raise _not_supported("partition", cluster)
    cluster.partition([[str(node) for node in side] for side in sides])
    return ControlAnswer(204)


def heal(cluster: ControlledKafka, _: ControlRequest) -> ControlAnswer:
    if cluster.heal is None:
        raise _not_supported("heal", cluster)
    cluster.heal()
    return ControlAnswer(204)


def _not_supported(word: str, cluster: ControlledKafka) -> NotSupported:
    known = ", ".join(cluster.node_actions)
    return NotSupported(
        f"{word} is not implemented for this cluster",
        f"its nodes support {known}" if known else "its nodes are not ours, or in one process",
        "trimaran up --control starts a cluster of processes, whose nodes and links can be broken",
    )
