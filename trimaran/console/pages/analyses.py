"""The analyses that Spark runs over the logs: what each answers, and where the last report is."""

from __future__ import annotations

from typing import Any

from trimaran.console.page import Page, Question, table


def view(question: Question) -> dict[str, Any]:
    from spark.analyses.catalogue import ANALYSES

    rows = [
        {
            "place": place,
            "number": one.number,
            "name": one.name,
            "title": one.title,
            "question": one.question,
        }
        for place, one in enumerate(ANALYSES.values(), 1)
    ]
    shown = table(
        question,
        rows,
        columns=("place", "name", "title"),
        sort="place",
        search=("number", "name", "title", "question"),
    )
    return {**shown, "report": _last_report(question)}


def _last_report(question: Question) -> dict[str, Any] | None:
    """Of the local cluster, where `trimaran analyze` leaves it."""
    if question.cluster.data is None:
        return None
    index = question.cluster.data / "report" / "index.html"
    try:
        written = index.stat().st_mtime_ns // 1_000_000
    except OSError:
        return None
    return {"path": str(index), "timestamp_ms": written}


PAGE = Page("/analyses", "Analyses", "analyses.html", view)
