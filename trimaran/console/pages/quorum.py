"""The quorum: its voters and observers, their progress, and the history of leaders."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from trimaran.client.quorum import quorum_fields, replica_rows
from trimaran.console.charts import TimeSpan, bands
from trimaran.console.page import Page, PageRequest
from trimaran.errors.user_error import Exit, UserError
from trimaran.quorum.observing.description import describe_quorum_and_nodes

EPOCHS_SHOWN = 50


def view(question: PageRequest) -> dict[str, Any]:
    cluster = question.cluster
    with cluster.client() as client:
        partition, nodes = describe_quorum_and_nodes(client)
    if partition.error_code:
        raise UserError(
            "the quorum has no leader now",
            "no leader has been elected, or fewer than a majority of the voters are up",
            "wait a second for the election; trimaran ps shows the controllers of a local cluster",
            exit_code=Exit.NO,
        )
    rows = replica_rows(partition, nodes)
    # The leader lists observers in no particular order.
    rows.sort(key=lambda row: (row["role"] == "observer", row["id"]))
    return {**quorum_fields(partition), "rows": rows, **_of_the_log(question)}


def _of_the_log(question: PageRequest) -> dict[str, Any]:
    """Returns the data that only the log has."""
    if question.cluster.controllers is None:
        return {"epochs": None, "timeline": None}
    epochs = question.cluster.log.epochs()[-EPOCHS_SHOWN:]
    spans = [
        TimeSpan(
            f"controller {epoch.leader_id}", f"epoch {epoch.epoch}", epoch.from_ms, epoch.to_ms
        )
        for epoch in epochs
        if epoch.leader_id is not None
    ]
    return {
        "epochs": [asdict(epoch) | {"seconds": epoch.seconds} for epoch in reversed(epochs)],
        "timeline": bands(spans),
    }


PAGE = Page("/quorum", "Quorum", "quorum.html", view)
