"""Whether a local cluster is ready and who plays which part: asked over the wire, not of the processes."""

from __future__ import annotations

import time
from dataclasses import replace

from trimaran.errors import Exit, UserError
from trimaran.local.state_file import ClusterState
from wire.blocking import BlockingClient
from wire.client.bootstrap import parse_bootstrap
from wire.client.errors import ConnectionLost, RequestTimedOut, VersionMismatch

POLL_SECONDS = 0.01
ANSWER_SECONDS = 2.0
NO_ANSWER = (ConnectionLost, RequestTimedOut, VersionMismatch)


def wait_until_brokers_see_each_other(state: ClusterState, seconds_max: float) -> None:
    """Returns when every broker lists all brokers; a UserError when that does not happen in time."""
    expected = {n.id for n in state.nodes if n.role == "broker"}
    deadline = time.monotonic() + seconds_max
    for address in [n.address for n in state.nodes if n.role == "broker"]:
        while expected - (seen := brokers_seen_by(address)):
            if time.monotonic() > deadline:
                raise UserError(
                    f"the brokers do not see each other after {seconds_max:.0f} s",
                    f"{address} sees {sorted(seen)} of {sorted(i for i in expected if i is not None)}",
                    "trimaran quorum status shows whether the controllers have a leader; logs lie beside the "
                    "directories",
                    exit_code=Exit.TIMEOUT,
                )
            time.sleep(POLL_SECONDS)


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
