"""`health`: one sentence about a cluster, and every reason why it is not healthy."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from trimaran.cli import global_options
from trimaran.cli.connect import BROKERS, Brokers
from trimaran.cli.output import Format, put, show_data
from trimaran.client import brokers as client_brokers
from trimaran.client import certificates, partitions, quorum
from trimaran.client import health as client_health
from trimaran.errors.user_error import Exit
from trimaran.local import state_file
from trimaran.zkcompat.commands import tree_views

if TYPE_CHECKING:
    from trimaran.wire.blocking import BlockingClient

POLL_SECONDS = 1.0


def health(
    *,
    exit_when_healthy: Annotated[bool, Parameter(negative=())] = False,
    watch: Annotated[float | None, Parameter(name="--watch")] = None,
    brokers: Brokers = BROKERS,
    output: Format = "table",
) -> int:
    """Says whether the cluster is healthy. Exit code 1 if it is not.

    A cluster is healthy if a majority of the voters has caught up, no broker is fenced, and every partition has a
    leader, all its replicas in sync, and at least min.insync.replicas of them. If the local cluster mirrors to
    ZooKeeper, a mirror must be alive and in contact with the quorum. Leaders that are not the preferred ones,
    certificates of brokers that expire soon, and clocks that differ are reported, but do not make a cluster unhealthy.

    Args:
        exit_when_healthy: Check every second, and exit when the cluster is healthy.
        watch: Check again at this interval in seconds, until Ctrl-C.
    """
    if watch is None and not exit_when_healthy:
        return _once(brokers, output)
    global_options.watched(
        lambda: _once(brokers, output),
        POLL_SECONDS if watch is None else watch,
        until_ok=exit_when_healthy,
    )
    return Exit.OK


def _once(brokers: Brokers, output: str) -> int:
    with brokers.connected() as client:
        beside = [
            *_of_mirror(brokers),
            *certificates.broker_certificates(client, datetime.now(UTC)),
        ]
        found = _judged(client, brokers.leader_seconds, beside)
    if not show_data(found, output):
        put(found["sentence"])
        for reason in found["reasons"]:
            put(f"  {reason['level']:<8} {reason['text']}")
    return Exit.OK if found["healthy"] else Exit.NO


def _judged(
    client: BlockingClient, leader_seconds: float, beside: list[client_health.Reason]
) -> dict[str, Any]:
    """Judges the responses of the brokers, together with the reasons in `beside`; waits up to `leader_seconds` for a
    leader.
    """
    topics = partitions.topics_of(client, None)
    brokers = client_brokers.broker_rows(client, topics)
    under_min_isr = len(partitions.partitions_of(client, topics, [partitions.is_under_min_isr]))
    _, voters, of_quorum = quorum.ask_quorum(client, leader_seconds)
    counts = client_health.count_partitions(topics)
    found = client_health.judge(voters, brokers, counts, under_min_isr, [*of_quorum, *beside])
    return {
        "healthy": found.is_healthy,
        "level": found.level,
        "sentence": found.sentence,
        "reasons": [reason._asdict() for reason in found.reasons],
        "voters": len(voters),
        "brokers": len(brokers),
        **counts._asdict(),
        "under_min_isr": under_min_isr,
    }


def _of_mirror(brokers: Brokers) -> list[client_health.Reason]:
    """Returns the problems of the local cluster's mirror, if the command is for the local cluster."""
    path = state_file.nearest(brokers.data)
    if not (path / state_file.FILE_NAME).exists():
        return []
    state = state_file.read(path)
    if not state.zookeeper or state.bootstrap != brokers.addresses:
        return []

    try:
        found = tree_views.status(state.zookeeper, {})
    except Exception as error:  # noqa: BLE001 - whatever kazoo says, ZooKeeper does not answer
        return [
            client_health.Reason(
                client_health.WARNING,
                f"ZooKeeper does not answer: {type(error).__name__}",
                "zookeeper",
            )
        ]
    if not found.mirror_alive:
        return [client_health.Reason(client_health.WARNING, "no mirror is alive", "zookeeper")]
    if not found.quorum_alive:
        return [
            client_health.Reason(
                client_health.WARNING, "the mirror has no contact with the quorum", "zookeeper"
            )
        ]
    return []
