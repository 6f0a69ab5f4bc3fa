"""Clusters of one kind for applications, and the kills of their nodes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.cluster.processes import until
from tests.interop.controllers import SECONDS_MAX, Controllers, controllers
from tests.interop.kills import MINUTES, seconds_of
from tests.interop.suites.applications import reading

VOTERS, BROKERS = (1, 2, 3), (11, 12, 13)
# Internal topics have few partitions, so that they fail over quickly on a busy machine.
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.min.session.timeout.ms": "10000",
    "group.streams.session.timeout.ms": "10000",
    "offsets.topic.num.partitions": "6",
    "super.users": "User:ANONYMOUS",
    "transaction.state.log.num.partitions": "6",
}


def seconds() -> float:
    """Returns the duration of the kills."""
    return seconds_of(float(os.environ.get(MINUTES, "1")))


class Nodes:
    """A cluster with the interface that `Kills` needs."""

    def __init__(self, found: Controllers) -> None:
        self._found = found
        self.bootstrap = found.bootstrap(*found.brokers)

    def brokers(self) -> set[int]:
        return set(self._found.brokers)

    def active_controller(self) -> int:
        leader: int = until(self._leader, "an active controller", SECONDS_MAX)
        return leader

    def _leader(self) -> int | None:
        found = self._found.quorum()
        return found.leader_id if found is not None and found.leader_id > 0 else None

    def kill(self, node: int) -> None:
        """Kills a node once all replicas are in sync, because losses from two dead brokers of three are not a fault."""
        until(lambda: reading.is_whole(self.bootstrap), "all replicas are in sync", SECONDS_MAX)
        self._found.kill(node)

    def restart(self, node: int) -> None:
        self._found.start(node)


@contextlib.contextmanager
def cluster(
    kind: str, root: Path, voters: Sequence[int] = VOTERS, brokers: Sequence[int] = BROKERS
) -> Iterator[Nodes]:
    """Starts this many nodes of a kind; internal topics have three replicas, or one if there is only one broker."""
    copies = min(len(brokers), 3)
    settings = {
        **SETTINGS,
        "default.replication.factor": copies,
        "min.insync.replicas": min(copies, 2),
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.min.isr": min(copies, 2),
        "transaction.state.log.replication.factor": copies,
    }
    root.mkdir()
    with controllers(
        root, dict.fromkeys(voters, kind), dict.fromkeys(brokers, kind), settings
    ) as found:
        for voter in voters:
            found.format(voter, "--initial-controllers", found.initial)
            found.start(voter)
        found.start_brokers()
        yield Nodes(found)
