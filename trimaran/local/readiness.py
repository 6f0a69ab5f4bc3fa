"""The readiness of a local cluster and the roles of its nodes, by requests to the nodes, not by their processes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

from trimaran.errors.user_error import Exit, UserError
from trimaran.local import control
from trimaran.local.layout import NodePlan
from trimaran.local.start_failure import died_while_starting, last_words
from trimaran.local.state_file import ClusterState
from trimaran.quorum.observing.description import describe_quorum
from trimaran.wire.blocking import BlockingClient
from trimaran.wire.client.bootstrap import parse_bootstrap
from trimaran.wire.client.errors import ConnectionLost, RequestTimedOut, VersionMismatch
from trimaran.wire.errors import KafkaError
from trimaran.wire.identity import NO_NODE, NO_TIMESTAMP, NodeId
from trimaran.wire.messages.describe_quorum import DescribeQuorumResponsePartitionData

POLL_SECONDS = 0.01
READY_SECONDS_MAX = 60.0  # three brokers take a second, or twenty on a loaded machine
RESPONSE_SECONDS = 2.0
NO_RESPONSE = (ConnectionLost, RequestTimedOut, VersionMismatch)


class Acquaintance:
    """Checks in steps whether every broker lists all brokers, since the `Supervisor` has other work meanwhile.

    The time counts from the first request.
    """

    def __init__(self, brokers: Mapping[str, NodeId | None], seconds_max: float) -> None:
        """`brokers` has the ids by address."""
        self._expected = set(brokers.values())
        self._left = list(brokers)
        self._seconds_max = seconds_max
        self._deadline: float | None = None

    def made(self) -> bool:
        """Queries one broker, for at most `RESPONSE_SECONDS`; returns True once every broker knows all.

        Raises:
            UserError: the time has run out.
        """
        if not self._left:
            return True
        if self._deadline is None:
            self._deadline = time.monotonic() + self._seconds_max
        seen = brokers_seen_by(self._left[0])
        if self._expected <= seen:
            del self._left[0]
        elif time.monotonic() > self._deadline:
            raise self._timeout(self._left[0], seen)
        return not self._left

    def _timeout(self, address: str, seen: set[NodeId]) -> UserError:
        return UserError(
            f"the brokers do not see each other after {self._seconds_max:.0f} s",
            f"{address} sees {sorted(seen)} of {sorted(i for i in self._expected if i is not None)}",
            "see the log files of the nodes, next to their directories",
            exit_code=Exit.TIMEOUT,
        )


def wait_until_serving(control_path: str, node: NodePlan) -> None:
    """Returns when a node that the supervisor has started serves.

    Raises:
        UserError: it has ended, or does not serve within `READY_SECONDS_MAX`.
    """
    deadline = time.monotonic() + READY_SECONDS_MAX
    while (state := control.ask(control_path, "state", node=node.name)["state"]) == "starting":
        if time.monotonic() > deadline:
            raise UserError(
                f"{node.name} does not serve after {READY_SECONDS_MAX:.0f} s",
                last_words(node.log_file),
                f"trimaran ps shows the other nodes: a broker waits for a quorum; see {node.log_file}",
                exit_code=Exit.TIMEOUT,
            )
        time.sleep(POLL_SECONDS)
    if state == "dead":
        raise died_while_starting(node, "the other nodes go on")


def brokers_seen_by(address: str) -> set[NodeId]:
    """Returns the ids of the brokers that the broker at `address` lists; none if it does not respond."""
    try:
        with BlockingClient(parse_bootstrap(address), timeout=RESPONSE_SECONDS) as client:
            client.refresh()
            return set(client.routing.nodes)
    except NO_RESPONSE:
        return set()


def active_controller(state: ClusterState) -> NodeId:
    """Returns the id of the quorum's leader."""
    leader = _leader(state)
    if leader is None:
        raise UserError(
            "the quorum has no leader now",
            "no controller knows of a leader",
            "wait a second for the election; trimaran ps shows the controllers",
        )
    return leader


def _leader(state: ClusterState) -> NodeId | None:
    quorum = _quorum(state)
    return None if quorum is None else quorum.leader_id


def _quorum(state: ClusterState) -> DescribeQuorumResponsePartitionData | None:
    """Returns the quorum as reported by its leader. The controllers are queried one after the other, since a
    disconnected one knows no leader.
    """
    for node in state.nodes:
        if node.role != "controller" or node.state != "running":
            continue
        try:
            with BlockingClient(
                node.address, of_controllers=True, timeout=RESPONSE_SECONDS
            ) as client:
                found = describe_quorum(client, timeout=RESPONSE_SECONDS)
        except (*NO_RESPONSE, KafkaError):
            continue
        if not found.error_code and found.leader_id >= 0:
            return found
    return None


def roles_now(state: ClusterState) -> ClusterState:
    """Returns the state with `leader`, `follower`, `active` or `fenced` instead of `running`, if the cluster reports
    it.
    """
    if not state.is_up():
        return state
    quorum = _quorum(state)
    leader = None if quorum is None else quorum.leader_id
    witness = _best_informed(state, quorum)
    active = brokers_seen_by(witness) if witness else set()

    def role(node_role: str, node_id: NodeId | None) -> str:
        if node_role == "controller":
            return "leader" if node_id == leader else "follower"
        return "active" if node_id in active else "fenced"

    nodes = (
        replace(n, state=role(n.role, n.id)) if n.state == "running" and n.id is not None else n
        for n in state.nodes
    )
    return replace(state, nodes=tuple(nodes))


def _best_informed(
    state: ClusterState, quorum: DescribeQuorumResponsePartitionData | None
) -> str | None:
    """Returns the address of the broker with the newest metadata, since a disconnected one has old metadata."""
    fetched = (
        {observer.replica_id: observer.last_fetch_timestamp for observer in quorum.observers}
        if quorum
        else {}
    )
    running = [n for n in state.nodes if n.role == "broker" and n.state == "running"]
    best = max(running, key=lambda n: fetched.get(n.id or NO_NODE, NO_TIMESTAMP), default=None)
    return best.address if best else None
