"""Groups of all kinds with their lag, and one group with its members."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trimaran.client.group_members import group_described
from trimaran.client.groups import (
    HIDDEN,
    group_rows,
    lag_rows,
    total_lag,
    total_lags,
)
from trimaran.client.record_ages import RecordAges
from trimaran.client.share_deliveries import Deliveries, deliveries
from trimaran.console.page import NotHere, Page, PageRequest, Row, table
from trimaran.wire.identity import TopicPartition

# The time for the metrics of one node: a page is answered within 15 s.
METRICS_SECONDS = 2.0
COLUMNS = ("group", "type", "state", "coordinator")


def view(question: PageRequest) -> dict[str, Any]:
    """Returns the groups, with the lag only of those on the page, since it takes requests for each."""
    with question.cluster.client() as client:
        rows = group_rows(client)
        shown = table(
            question, rows, columns=COLUMNS, sort="group", search=("group", "type", "state")
        )
        ages = RecordAges(client)
        for row in shown["rows"]:
            lags = total_lags(client, row, ages, all_ages=False) or HIDDEN
            row.update({name: lags[name] for name in ("topics", "lag", "lag_seconds")})
    return shown


def view_one(question: PageRequest) -> dict[str, Any]:
    """Returns a group with its members, and the partitions in which it has a position. `rows` of a share group have its
    deliveries, if metrics are known.
    A streams group has its topology.
    """
    name = question.path["group"]
    with question.cluster.client() as client:
        row = next(
            (group_row for group_row in group_rows(client) if group_row["group"] == name), None
        )
        if row is None:
            raise NotHere(
                f"there is no group {name[:249]}",
                "no coordinator lists it",
                "the list of groups shows what there is, and what you may see",
            )
        described = group_described(client, name)
        ages = RecordAges(client)
        offsets = lag_rows(client, described, ages)
    columns: tuple[str, ...] = ("topic", "partition", "lag", "lag_seconds")
    if described["type"] == "share":
        _add_deliveries(question, name, offsets)
        columns = (*columns, "in_flight", "timed_out")
    shown = table(question, offsets, columns=columns, sort="topic", search=("topic",))
    seconds = [row["lag_seconds"] for row in offsets if row["lag_seconds"] is not None]
    return {
        **row,
        "epoch": described["epoch"],
        "assignor": described["assignor"],
        "topology_epoch": described.get("topology_epoch"),
        "subtopologies": described.get("subtopologies", ()),
        "has_metrics": bool(question.cluster.metrics()),
        "members": [_member(member, described["type"]) for member in described["members"]],
        "lag": total_lag(offsets),
        "lag_seconds": max(seconds, default=None),
        "without_seconds": sorted(ages.denied),
        **shown,
    }


def _add_deliveries(question: PageRequest, group: str, rows: list[Row]) -> None:
    """Adds the records in flight to each row; a partition without a share session has none."""
    sources = question.cluster.metrics()
    found = deliveries(sources, group, METRICS_SECONDS)
    for row in rows:
        told = found.get(TopicPartition(row["topic"], row["partition"]), Deliveries())
        row["in_flight"] = told.in_flight if sources else None
        row["timed_out"] = told.timed_out if sources else None


def _member(member: Mapping[str, Any], kind: str) -> Row:
    """Returns the assignments of a member as `topic-0`; for Streams, subtopology and partition as `0_1`."""
    separator = "_" if kind == "streams" else "-"
    named = {
        role: [
            f"{name}{separator}{index}"
            for name, some in member.get(role, {}).items()
            for index in some
        ]
        for role in ("assignment", "standby", "warmup")
    }
    return {"process": None, **member, **named}


PAGE = Page("/groups", "Groups", "groups.html", view)
PAGE_OF_ONE = Page("/groups/{group:path}", "Group", "group.html", view_one)
