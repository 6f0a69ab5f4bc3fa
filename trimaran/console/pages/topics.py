"""The topics, with the number of their partitions and of partitions with problems."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from trimaran.console.page import Page, PageRequest, Row, table

if TYPE_CHECKING:
    from trimaran.wire.messages.metadata import MetadataResponseTopic

COLUMNS = ("topic", "partitions", "replicas", "under_replicated", "offline", "not_preferred")
SHOW = ("all", "under-replicated", "offline", "not-preferred", "internal")


def view(question: PageRequest) -> dict[str, Any]:
    show = question.choice("show", SHOW)
    rows = _rows_with_faults(question.cluster.topics())
    internal = sum(row["internal"] for row in rows)
    match show:
        case "all":
            rows = [row for row in rows if not row["internal"]]
        case "internal":
            rows = [row for row in rows if row["internal"]]
        case _:
            rows = [row for row in rows if row[show.replace("-", "_")]]
    shown = table(question, rows, columns=COLUMNS, sort="topic", search=("topic",))
    return {**shown, "show": show, "choices": SHOW, "internal": internal}


def _rows_with_faults(topics: Sequence[MetadataResponseTopic]) -> list[Row]:
    rows = []
    for topic in topics:
        offline = under_replicated = not_preferred = replicas = 0
        for partition in topic.partitions:
            assigned, leader = partition.replica_nodes, partition.leader_id
            replicas = max(replicas, len(assigned))
            under_replicated += len(partition.isr_nodes) < len(assigned)
            offline += leader < 0
            not_preferred += leader >= 0 and leader != assigned[0]
        rows.append(
            {
                "topic": topic.name or "",
                "partitions": len(topic.partitions),
                "replicas": replicas,
                "under_replicated": under_replicated,
                "offline": offline,
                "not_preferred": not_preferred,
                "internal": topic.is_internal,
            }
        )
    return rows


PAGE = Page("/topics", "Topics", "topics.html", view)
