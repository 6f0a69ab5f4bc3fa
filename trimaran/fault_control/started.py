"""The clusters that `python -m trimaran.fault_control` starts, as seen by the control."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from trimaran.errors.user_error import Exit, UserError
from trimaran.fault_control.controlled import ControlledKafka, KafkaAt, NodeAction
from trimaran.testing.cluster import KafkaCluster
from trimaran.testing.embedded import EmbeddedKafka


def controlled_node(kafka: EmbeddedKafka) -> ControlledKafka:
    """Returns a node in this process; the only action on nodes that it supports is a restart."""

    def nodes() -> list[dict[str, object]]:
        return [{"id": 1, "role": "broker,controller", "address": kafka.bootstrap}]

    def restart(node: str) -> None:
        if node != "1":
            raise _refused(f"there is no node {node[:100]!r}", "the only node is 1")
        kafka.restart()

    return ControlledKafka(
        kafka.bootstrap, kafka, kafka.faults.fault_set, nodes, {NodeAction.RESTART: restart}
    )


def controlled_cluster(kafka: KafkaCluster) -> ControlledKafka:
    """Returns a cluster of processes behind a proxy; its topics are created without the proxy, and its faults."""
    brokers = [node["address"] for node in kafka.nodes() if node["role"] == "broker"]
    actions: dict[NodeAction, Callable[[str], object]] = {
        NodeAction.KILL: kafka.kill,
        NodeAction.PAUSE: kafka.pause,
        NodeAction.RESUME: kafka.resume,
        NodeAction.RESTART: kafka.restart,
        NodeAction.ISOLATE: kafka.isolate,
        NodeAction.FILL_DISK: lambda node: kafka.fill_disk(int(node)),
    }
    filled: set[str] = set()

    def guarded(action: NodeAction) -> Callable[[str], None]:
        def act(node: str) -> None:
            try:
                actions[action](node)
            except (RuntimeError, ValueError) as error:
                raise _refused(f"cannot {action} node {node[:100]!r}", str(error)) from None
            (filled.add if action is NodeAction.FILL_DISK else filled.discard)(node)

        return act

    def partition(sides: Sequence[Sequence[str]]) -> None:
        try:
            kafka.partition(*sides)
        except RuntimeError as error:
            raise _refused("cannot cut these links", str(error)) from None

    def recover() -> None:
        kafka.heal()
        for node in kafka.nodes():
            recover_node(node)

    def recover_node(node: dict[str, Any]) -> None:
        if node["state"] == "paused":
            kafka.resume(node["id"])
        elif node["state"] == "dead" or str(node["id"]) in filled:
            kafka.restart(node["id"])
            filled.discard(str(node["id"]))

    return ControlledKafka(
        kafka.bootstrap,
        KafkaAt(",".join(brokers)),
        kafka.faults.fault_set,
        kafka.nodes,
        {action: guarded(action) for action in actions},
        partition,
        kafka.heal,
        recover,
    )


def _refused(what: str, why: str) -> UserError:
    return UserError(
        what, why, "GET /v1/nodes lists the nodes and their states", exit_code=Exit.USAGE
    )
