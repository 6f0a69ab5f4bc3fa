"""The topics, with the number of their partitions and of partitions with problems, and figures that a user chooses."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from trimaran.client import topic_figures
from trimaran.console.page import Page, PageRequest, Row, table
from trimaran.errors.user_error import Exit, UserError

if TYPE_CHECKING:
    from trimaran.wire.messages.metadata import MetadataResponseTopic

COLUMNS = ("topic", "partitions", "replicas", "under_replicated", "offline", "not_preferred")
SHOW = ("all", "under-replicated", "offline", "not-preferred", "internal")
# Figures take requests to all leaders, so they are read for the rows of the page, and to sort for this many topics.
SORTED_TOPICS_MAX = 1000


class Figure(NamedTuple):
    """A column that may be chosen."""

    key: str
    name: str
    is_default: bool


FIGURES = (
    Figure("size", "Size", is_default=True),
    Figure("records", "Records", is_default=True),
    Figure("rate", "Records/s", is_default=False),
    Figure("retention_ms", "Retention", is_default=True),
    Figure("cleanup", "Cleanup", is_default=False),
    Figure("last_write", "Last write", is_default=False),
)
NO_FIGURES = "none"


def view(question: PageRequest) -> dict[str, Any]:
    show = question.choice("show", SHOW)
    topics = {topic.name or "": topic for topic in question.cluster.topics()}
    rows = _rows_with_faults(list(topics.values()))
    internal = sum(row["internal"] for row in rows)
    match show:
        case "all":
            rows = [row for row in rows if not row["internal"]]
        case "internal":
            rows = [row for row in rows if row["internal"]]
        case _:
            rows = [row for row in rows if row[show.replace("-", "_")]]
    chosen = _chosen(question)
    figures = tuple(figure.key for figure in FIGURES)
    is_by_figure = question.text("sort").removeprefix("-") in figures
    if is_by_figure:
        rows = _filtered(question, rows)
        _add_figures(question, topics, rows, {*chosen, question.text("sort").removeprefix("-")})
    shown = table(
        question,
        rows,
        columns=(*COLUMNS, *(figures if is_by_figure else ())),
        sort="topic",
        search=("topic",),
    )
    if not is_by_figure:
        _add_figures(question, topics, shown["rows"], set(chosen))
    return {
        **shown,
        "show": show,
        "choices": SHOW,
        "internal": internal,
        "chosen": chosen,
        "columns": _columns(chosen),
        "names": {figure.key: figure.name for figure in FIGURES},
    }


def _chosen(question: PageRequest) -> list[str]:
    """Returns the chosen figures, in their order. Raises UserError for an unknown one."""
    text = question.text("columns")
    if not text:
        return [figure.key for figure in FIGURES if figure.is_default]
    wanted = set(text.split(",")) - {NO_FIGURES}
    if unknown := wanted - {figure.key for figure in FIGURES}:
        raise UserError(
            f"columns={text[:80]} in the address is wrong",
            f"there is no column {min(unknown)[:80]}",
            f"choose some of {', '.join(figure.key for figure in FIGURES)}",
            exit_code=Exit.USAGE,
        )
    return [figure.key for figure in FIGURES if figure.key in wanted]


def _columns(chosen: Sequence[str]) -> list[Row]:
    """Returns a row for each figure: whether it is chosen, and the `columns` of the address that changes this."""
    rows = []
    for figure in FIGURES:
        other = [one.key for one in FIGURES if (one.key in chosen) != (one.key == figure.key)]
        is_chosen = figure.key in chosen
        address = ",".join(other) or NO_FIGURES
        rows.append({"name": figure.name, "is_chosen": is_chosen, "address": address})
    return rows


def _filtered(question: PageRequest, rows: list[Row]) -> list[Row]:
    """Returns the rows that a figure is read for. Raises UserError if they are too many to sort."""
    wanted = question.text("filter").strip().lower()
    found = [row for row in rows if wanted in row["topic"].lower()]
    if len(found) > SORTED_TOPICS_MAX:
        raise UserError(
            f"{len(found):,} topics are too many to sort by {question.text('sort').removeprefix('-')}",
            f"each has to be asked for; up to {SORTED_TOPICS_MAX:,} topics are sorted by it",
            "filter the topics by a part of their names, then sort",
            exit_code=Exit.USAGE,
        )
    return found


def _add_figures(
    question: PageRequest,
    topics: Mapping[str, MetadataResponseTopic],
    rows: Sequence[Row],
    wanted: set[str],
) -> None:
    """Adds the wanted figures to the rows; None for one that is not known."""
    some = [topics[row["topic"]] for row in rows]
    sizes: Mapping[str, int] = {}
    counts: Mapping[str, topic_figures.RecordCount] = {}
    policies: Mapping[str, topic_figures.Policy] = {}
    writes: Mapping[str, int] = {}
    rates: Mapping[str, float] = {}
    with question.cluster.client() as client:
        if "size" in wanted:
            sizes = topic_figures.topic_sizes(client, some)
        if wanted & {"records", "rate"}:
            counts = topic_figures.record_counts(client, some)
            ends = {name: count.ends for name, count in counts.items()}
            rates = question.cluster.rates.read(ends, time.monotonic())
        if wanted & {"retention_ms", "cleanup"}:
            policies = topic_figures.policies(client, [row["topic"] for row in rows])
        if "last_write" in wanted:
            writes = topic_figures.last_writes(client, some)
    for row in rows:
        name = row["topic"]
        count, policy = counts.get(name), policies.get(name)
        known = {
            "size": sizes.get(name),
            "records": None if count is None else count.records,
            "rate": rates.get(name),
            "retention_ms": None if policy is None else policy.retention_ms,
            "cleanup": None if policy is None else policy.cleanup,
            "last_write": writes.get(name),
        }
        row.update({key: value for key, value in known.items() if key in wanted})


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
