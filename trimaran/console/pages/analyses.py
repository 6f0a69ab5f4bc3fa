"""The analyses that Spark runs over the logs: the question and the report of each, and the running analysis."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from trimaran.console.analyses import report_of, why_not
from trimaran.console.page import Page, PageRequest, table
from trimaran.spark.analyses.catalogue import ANALYSES


def view(question: PageRequest) -> dict[str, Any]:
    data = question.cluster.data
    rows = [
        {
            "place": place,
            "number": analysis.number,
            "name": analysis.name,
            "title": analysis.title,
            "question": analysis.question,
            "report_ms": _written(data, analysis.name),
        }
        for place, analysis in enumerate(ANALYSES.values(), 1)
    ]
    shown = table(
        question,
        rows,
        columns=("place", "name", "title", "report_ms"),
        sort="place",
        search=("number", "name", "title", "question"),
    )
    run, why = question.cluster.analyses.last(), why_not(data)
    return {
        **shown,
        "report_ms": _written(data, ""),
        "run": None if run is None else asdict(run),
        "missing": None if why is None else why.as_json(),
    }


def _written(data: Path | None, name: str) -> int | None:
    """Returns the time of the report; None if there is none."""
    if data is None:
        return None
    try:
        return report_of(data, name).stat().st_mtime_ns // 1_000_000
    except OSError:
        return None


PAGE = Page("/analyses", "Analyses", "analyses.html", view)
