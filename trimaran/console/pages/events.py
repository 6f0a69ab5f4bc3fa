"""One feed of what happened: elections, brokers, partitions, topics, configs, rights; from the metadata log."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from trimaran.console.page import Page, Question, table
from trimaran.metadata.events import KINDS

ALL = "all"


def view(question: Question) -> dict[str, Any]:
    kind = question.choice("kind", (ALL, *KINDS))
    events = question.cluster.log.events()
    rows = [asdict(one) for one in events if kind in (ALL, one.kind)]
    shown = table(
        question, rows, columns=("offset",), sort="-offset", search=("subject", "text", "kind")
    )
    return {**shown, "kind": kind, "kinds": (ALL, *KINDS)}


PAGE = Page("/events", "Events", "events.html", view)
