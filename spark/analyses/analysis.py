"""What an analysis is: SQL over our views, a plot of the small result, and verdicts in plain words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go
    from pyspark.sql import DataFrame

POINTS_MAX = 10_000  # of a plot: more makes browsers slow and shows nothing new

BLUE, GREEN, AMBER, ORANGE, RED, GREY = (
    "#2f6db3",
    "#3a8f5c",
    "#d9a520",
    "#dd7a2b",
    "#c23b3b",
    "#9aa3ad",
)
PALETTE = (BLUE, ORANGE, GREEN, "#7a5bb0", AMBER, "#3c9fa8", "#b35a86", "#6b7a2f", RED, "#5c6670")
STATE_COLOURS = {
    "ok": GREEN,
    "under_replicated": AMBER,
    "under_min_isr": ORANGE,
    "offline": RED,
    "deleted": GREY,
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """One line of the report's head."""

    level: Literal["ok", "warn", "bad", "info"]
    text: str


@dataclass(frozen=True, slots=True)
class Analysis:
    """`compute` takes the view's DataFrame; `sql` is what it runs, to be shown and used in a session with `views()`.

    `also` is a second view that tells more where it can be read; `compute` takes it second, and does without.
    """

    name: str
    title: str
    question: str
    view: str
    sql: str
    compute: Callable[..., DataFrame]
    plot: Callable[[pd.DataFrame], go.Figure]
    evaluate: Callable[[pd.DataFrame], Sequence[Verdict]]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    also: str | None = None


def figure(height: int = 360, **layout: Any) -> go.Figure:
    """An empty figure in the report's style."""
    import plotly.graph_objects as go

    made = go.Figure()
    made.update_layout(
        template="plotly_white",
        height=height,
        margin={"l": 90, "r": 30, "t": 30, "b": 50},
        font={"family": "system-ui, sans-serif", "size": 13},
        colorway=PALETTE,
        legend={"orientation": "h", "y": 1.12},
        **layout,
    )
    return made


def seconds_text(seconds: float) -> str:
    """A duration as a person says it."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def bytes_text(size: float) -> str:
    """A size in powers of 1024."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
