"""`quorum status|replication`: leader, epoch, high watermark, and the progress of each voter and observer. `quorum
history`: the leaders and their times.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from trimaran.cli import kafka_text
from trimaran.cli.connect import CONTROLLERS, QUORUM_NODES, Controllers, QuorumNodes
from trimaran.cli.metadata_source import open_source
from trimaran.cli.output import (
    Format,
    KafkaFormat,
    clock,
    put,
    say,
    show_data,
    show_fields,
    show_rows,
)
from trimaran.client import quorum
from trimaran.errors import connecting
from trimaran.errors.user_error import Exit, UserError
from trimaran.quorum.metadata import epochs as metadata_epochs
from trimaran.quorum.observing import description
from trimaran.wire import blocking
from trimaran.wire.client import bootstrap as client_bootstrap
from trimaran.wire.client import errors
from trimaran.wire.identity import Offset

COLUMNS = ("id", "role", "log_end_offset", "lag", "last_fetch_ms_ago", "last_caught_up_ms_ago")
REPLICATION_COLUMNS = ("id", "role", "directory_id", *COLUMNS[2:])


def status(*, nodes: QuorumNodes = QUORUM_NODES, output: KafkaFormat = "table") -> None:
    """Shows the quorum as its leader sees it: leader, epoch, high watermark, and the lag of each replica."""
    found = _described(nodes)
    if output == "kafka":
        put(kafka_text.quorum_status(found.cluster_id, found.fields, found.rows))
        return
    if not show_data({**found.fields, "replicas": found.rows}, output):
        show_fields(found.fields, output)
        put()
        show_rows(found.rows, output, columns=COLUMNS)


def replication(*, nodes: QuorumNodes = QUORUM_NODES, output: KafkaFormat = "table") -> None:
    """Shows the progress of each voter and observer, with its directory id."""
    rows = _described(nodes).rows
    show_rows(
        rows,
        output,
        columns=REPLICATION_COLUMNS,
        kafka=lambda: kafka_text.quorum_replication(rows),
    )


class _Quorum(NamedTuple):
    cluster_id: str
    fields: dict[str, Any]
    rows: list[dict[str, Any]]


def _described(asked: QuorumNodes) -> _Quorum:
    """Returns the description of the quorum, and reports clocks that differ. Raises UserError if there is no leader."""
    try:
        with asked.connected() as client:
            partition, nodes = description.describe_quorum_and_nodes(
                client, timeout=asked.leader_seconds
            )
            cluster_id = quorum.cluster_id_of(client, of_controllers=asked.are_controllers)
    except UserError as error:
        if error.exit_code == Exit.USAGE or not asked.are_controllers:
            raise
        if (explained := _no_majority(asked.addresses)) is not None:
            raise explained from error
        raise
    if partition.error_code:
        raise UserError(
            f"the quorum at {asked.addresses} has no leader",
            "no leader has been elected, or fewer than a majority of the voters are up",
            "wait a second for the election; trimaran ps shows the controllers of a local cluster",
            exit_code=Exit.NO,
        )
    if (difference := quorum.clock_difference(partition)) is not None:
        say(f"warning: {difference}")
    return _Quorum(
        cluster_id, quorum.quorum_fields(partition), quorum.replica_rows(partition, nodes)
    )


def history(
    path: Path | None = None,
    *,
    controllers: Controllers = CONTROLLERS,
    output: Format = "table",
) -> None:
    """Shows the leaders of the quorum with their times, and the gaps without a leader.

    Args:
        path: A directory with a metadata log, ours or Apache Kafka's; by default that of the running quorum.
    """
    with open_source(path, controllers) as source:
        base = source.base(None) if path is None else None
        start = Offset(0) if base is None else base.end_offset
        epochs = list(metadata_epochs.epochs_of(source.batches(start)))
    if show_data([asdict(epoch) | {"seconds": epoch.seconds} for epoch in epochs], output):
        return
    show_rows(
        [
            {
                "epoch": epoch.epoch,
                "leader": epoch.leader_id,
                "from": clock(epoch.from_ms),
                "to": clock(epoch.to_ms),
                "for": f"{epoch.seconds:.1f} s",
                "records": epoch.records,
                "first_offset": epoch.first_offset,
                "gap_before": None if epoch.gap_before_ms is None else f"{epoch.gap_before_ms} ms",
            }
            for epoch in epochs
        ],
        output,
    )


def _no_majority(bootstrap: str) -> UserError | None:
    """Returns the error for a quorum without a leader, with the controllers that respond; None if no controller
    responds.
    """
    try:
        addresses = client_bootstrap.parse_bootstrap(bootstrap)
    except ValueError:
        return None
    unreachable = []
    for address in addresses:
        try:
            blocking.BlockingConnection(address, timeout=1.0).close()
        except (errors.ConnectionLost, errors.RequestTimedOut):
            unreachable.append(str(address))
    if len(unreachable) == len(addresses):
        return None
    return connecting.no_quorum(unreachable, len(addresses), Exit.NO)
