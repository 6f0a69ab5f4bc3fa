"""Whether a local cluster is ready and who plays which part: asked over the wire, not of the processes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

from trimaran.errors import Exit, UserError
from trimaran.local.state_file import ClusterState
from wire.blocking import BlockingClient
from wire.client.bootstrap import parse_bootstrap
from wire.client.errors import ConnectionLost, RequestTimedOut, VersionMismatch

POLL_SECONDS = 0.01
ANSWER_SECONDS = 2.0
NO_ANSWER = (ConnectionLost, RequestTimedOut, VersionMismatch)


class Acquaintance:
    """Whether every broker lists all brokers; whoever asks has other things to do meanwhile (`Supervisor`).

    The time is counted from the first question.
    """

    def __init__(self, brokers: Mapping[str, int | None], seconds_max: float) -> None:
        """`brokers`: the id by address."""
        self._expected = set(brokers.values())
        self._left = list(brokers)
        self._seconds_max = seconds_max
        self._deadline: float | None = None

    def made(self) -> bool:
        """Asks one broker, for `ANSWER_SECONDS` at most, until all have been found to know all.

        Raises:
            UserError: the time is over.
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

    def _timeout(self, address: str, seen: set[int]) -> UserError:
        return UserError(
            f"the brokers do not see each other after {self._seconds_max:.0f} s; the cluster was stopped",
            f"{address} sees {sorted(seen)} of {sorted(i for i in self._expected if i is not None)}",
            "look into the nodes' logs, which lie beside their directories",
            exit_code=Exit.TIMEOUT,
        )


def brokers_seen_by(address: str) -> set[int]:
    """Ids of the brokers that the broker at `address` lists; none when it does not answer."""
    try:
        with BlockingClient(parse_bootstrap(address), timeout=ANSWER_SECONDS) as client:
            client.refresh()
            return set(client.routing.nodes)
    except NO_ANSWER:
        return set()


def active_controller(state: ClusterState) -> int:
    """The id of the quorum's leader."""
    leader = _leader(state)
    if leader is None:
        raise UserError(
            "the quorum has no leader now",
            "no controller answered that it knows one",
            "trimaran ps shows the controllers; an election takes about a second",
        )
    return leader


def _leader(state: ClusterState) -> int | None:
    try:
        with BlockingClient(
            state.controller_bootstrap, of_controllers=True, timeout=ANSWER_SECONDS
        ) as client:
            client.refresh()
            found = client.routing.controller_id
            return found if found >= 0 else None
    except NO_ANSWER:
        return None


def roles_now(state: ClusterState) -> ClusterState:
    """The same state with `leader`, `follower`, `active`, `fenced` in place of `running`, where the cluster says so."""
    if not state.is_up():
        return state
    leader = _leader(state)
    brokers = next(
        (n.address for n in state.nodes if n.role == "broker" and n.state == "running"), None
    )
    active = brokers_seen_by(brokers) if brokers else set()

    def role(node_role: str, node_id: int | None) -> str:
        if node_role == "controller":
            return "leader" if node_id == leader else "follower"
        return "active" if node_id in active else "fenced"

    nodes = (
        replace(n, state=role(n.role, n.id)) if n.state == "running" and n.id is not None else n
        for n in state.nodes
    )
    return replace(state, nodes=tuple(nodes))
