"""One feed of events from the metadata log: elections, brokers, partitions, topics, configs, ACLs."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from trimaran.console.page import Page, PageRequest, Row, table
from trimaran.inspect.metadata.events import KINDS, MetadataEvent

ALL = "all"
FIELDS = tuple(field.name for field in fields(MetadataEvent))


def view(question: PageRequest) -> dict[str, Any]:
    kind = question.choice("kind", (ALL, *KINDS))
    events = question.cluster.log.events()
    rows = [row_of(event) for event in events if kind in (ALL, event.kind)]
    shown = table(
        question, rows, columns=("offset",), sort="-offset", search=("subject", "text", "kind")
    )
    return {**shown, "kind": kind, "kinds": (ALL, *KINDS)}


def row_of(event: MetadataEvent) -> Row:
    """Returns the event as a row; `dataclasses.asdict` would take ten times as long for ten thousand events."""
    return {name: getattr(event, name) for name in FIELDS}


PAGE = Page("/events", "Events", "events.html", view)
