"""A running Kafka as seen by the control: its rules, its topics, and the faults of its nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self

from trimaran.faults.fault_set import FaultSet
from trimaran.testing.kafka import Kafka
from trimaran.wire.security.listener import ClientSecurity


class NodeAction(StrEnum):
    """A fault of a node, or its end."""

    KILL = "kill"
    PAUSE = "pause"
    RESUME = "resume"
    RESTART = "restart"
    ISOLATE = "isolate"
    FILL_DISK = "fill-disk"
    SLOW_DISK = "slow-disk"
    SKEW_CLOCK = "skew-clock"


def _no_nodes() -> list[dict[str, Any]]:
    return []


def _nothing() -> None:
    return


class KafkaAt(Kafka):
    """A Kafka at an address, which another program starts and stops."""

    def __init__(self, bootstrap: str, security: ClientSecurity | None = None) -> None:
        self.bootstrap = bootstrap
        self.security = security

    def start(self) -> Self:
        return self

    def stop(self) -> None:
        """Does nothing: the Kafka keeps running."""

    def diagnosis(self) -> str:
        return f"the Kafka at {self.bootstrap}, whose nodes are not known here"


@dataclass(frozen=True, slots=True)
class ControlledKafka:
    """`bootstrap` is the address for the clients under test. Topics are created and deleted at `kafka`, which may be
    the same Kafka without faults. Actions that `node_actions` lacks are not supported.

    `partition` cuts links between sides and returns nothing; `recover` ends all faults of nodes.
    """

    bootstrap: str
    kafka: Kafka
    faults: FaultSet
    nodes: Callable[[], list[dict[str, Any]]] = _no_nodes
    node_actions: Mapping[NodeAction, Callable[[str], object]] = field(default_factory=dict)
    partition: Callable[[Sequence[Sequence[str]]], object] | None = None
    heal: Callable[[], object] | None = None
    recover: Callable[[], object] = _nothing
