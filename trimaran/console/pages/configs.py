"""Changes of configs of topics, brokers and other resources, with old values and times; from the metadata log."""

from __future__ import annotations

from typing import Any

from trimaran.console.page import Page, PageRequest, table
from trimaran.inspect.metadata.events import ConfigChange


def view(question: PageRequest) -> dict[str, Any]:
    rows = [_row(change) for change in question.cluster.log.configs()]
    return table(
        question,
        rows,
        columns=("offset", "resource", "key"),
        sort="-offset",
        search=("resource", "key"),
    )


def _row(change: ConfigChange) -> dict[str, Any]:
    """Returns a row; `timestamp_ms` is None for values from before the beginning of the log."""
    return {
        "offset": change.offset,
        "timestamp_ms": change.timestamp_ms if change.timestamp_ms >= 0 else None,
        "resource": change.address,
        "key": change.key,
        "value": change.value,
        "before": change.before,
    }


PAGE = Page("/configs", "Config history", "configs.html", view)
