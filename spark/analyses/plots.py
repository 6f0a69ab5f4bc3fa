"""Figures in the style of the report: bars, lines, heat maps, time spans and tables, readable even with long names."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from trimaran.spark.analyses.analysis import SECONDS_MAX
from trimaran.wire.later import imported_later

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go
else:
    pd = imported_later("pandas")
    go = imported_later("plotly.graph_objects")

POINTS_MAX = 10_000  # points of a plot: more would make browsers slow and show nothing new
ROWS_SHOWN = 40  # bars or spans that a reader can distinguish
BESIDE = 20  # empty widths on both sides of a single bar
FEW = 6  # counts up to this are labelled individually
TEXT_WIDTH = 110  # characters in a line of text that replaces a plot
TEXT_MAX = 3 * TEXT_WIDTH
LABEL_MIN = 6  # characters in the narrowest column of a table
TABLE_LETTERS = 130  # characters in a line of a table, blanks included
CELL_MIN = 23  # characters of a time
NOTE_PIXELS = 30  # a line below a table
PADDING = 3  # the padding of a cell, in characters
NO_CLOCK = "no clock shows a time that can be"
UTC = "UTC"  # the title of a time axis
# the name of all series except the largest, if there are more series than colours
OTHERS = "others"
LABEL_MAX = 36  # characters; the pointer shows the whole name

BLUE, GREEN, AMBER, ORANGE, RED, GREY = (
    "#2f6db3",
    "#3a8f5c",
    "#d9a520",
    "#dd7a2b",
    "#c23b3b",
    "#9aa3ad",
)
CLEAR = "rgba(0,0,0,0)"
PALETTE = (BLUE, ORANGE, GREEN, "#7a5bb0", AMBER, "#3c9fa8", "#b35a86", "#6b7a2f", RED, "#5c6670")
HEAT = ((0, "#fdd06b"), (0.5, "#f0692c"), (1, "#7a0a22"))  # its lightest differs from an empty cell
DASHES = ("solid", "dash")  # lines after the first of each colour
LINES_MAX = len(PALETTE) * len(DASHES)
STATE_COLOURS = {
    "ok": GREEN,
    "active": GREEN,
    "under_replicated": AMBER,
    "under_min_isr": ORANGE,
    "offline": RED,
    "deleted": GREY,
    "registered": BLUE,
    "controlled_shutdown": AMBER,
    "fenced": RED,
    "unregistered": GREY,
}


def figure(height: int = 360, **layout: Any) -> go.Figure:
    """Returns an empty figure in the style of the report."""
    made = go.Figure()
    made.update_layout(
        template="plotly_white",
        height=height,
        margin={"l": 90, "r": 30, "t": 40, "b": 50},
        font={"family": "system-ui, sans-serif", "size": 13},
        colorway=PALETTE,
        # plotly would reverse the legend of stacked bars
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "traceorder": "normal"},
        **layout,
    )
    # ticks separate labels from bars, and the labels of the two axes from each other
    made.update_xaxes(automargin=True, ticks="outside", tickcolor=CLEAR)
    made.update_yaxes(automargin=True, ticks="outside", tickcolor=CLEAR)
    return made


def nothing(text: str) -> go.Figure:
    """Returns a figure that shows why there is nothing to draw."""
    made = figure(height=140)
    made.update_xaxes(visible=False)
    made.update_yaxes(visible=False)
    text = "<br>".join(textwrap.wrap(textwrap.shorten(text, TEXT_MAX), TEXT_WIDTH))
    made.add_annotation(text=text, showarrow=False, font={"size": 15, "color": "#586473"})
    return made


def of_all(shown: int, total: int, what: str = "") -> str:
    """Returns the suffix of an axis title with the number of drawn items; empty if all are drawn."""
    return f"; {shown:,} of {total:,} {what}{' ' if what else ''}shown" if shown < total else ""


def line_style(number: int) -> dict[str, str]:
    """Returns colour and dash of a line, from 0; `LINES_MAX` lines differ."""
    return {
        "color": PALETTE[number % len(PALETTE)],
        "dash": DASHES[number // len(PALETTE) % len(DASHES)],
    }


def short(name: object, letters: int = LABEL_MAX) -> str:
    """Returns a name as a label: the middle of a long name is omitted, but not its end, which distinguishes
    partitions.
    """
    text = str(name)
    if len(text) <= letters:
        return text
    tail = letters // 3
    return f"{text[: letters - tail - 1]}…{text[-tail:]}"


def distinct_labels(names: Sequence[object], letters: int = LABEL_MAX) -> list[str]:
    """Returns labels that differ even if shortening made two names equal."""
    seen: dict[str, str] = {}
    labels = []
    for name in map(str, names):
        label, count = short(name, letters), 2
        while seen.setdefault(label, name) != name:
            label, count = f"{short(name, letters)} ({count})", count + 1
        labels.append(label)
    return labels


def in_order(name: object) -> list[tuple[int, str]]:
    """Returns a key that sorts names with numbers as a reader does: partition 2 before partition 10."""
    return [
        (int(part), "") if part.isdecimal() else (-1, part)
        for part in re.split(r"(\d+)", str(name))
    ]


def numbered(labels: Sequence[str]) -> list[str]:
    """Numbers equal labels, since plotly would draw their bars as one."""
    seen: set[str] = set()
    told = []
    for label in labels:
        one, count = label, 2
        while one in seen:
            one, count = f"{label} ({count})", count + 1
        seen.add(one)
        told.append(one)
    return told


def bars(
    names: Sequence[object],
    series: Mapping[str, Sequence[float]],
    *,
    x_title: str,
    colours: Mapping[str, str] | None = None,
    hover: Sequence[str] | None = None,
) -> go.Figure:
    """Draws stacked horizontal bars for the first `ROWS_SHOWN` names, the first on top; numbers distinguish bars with
    equal names.
    """
    x_title += of_all(min(len(names), ROWS_SHOWN), len(names))
    names = names[:ROWS_SHOWN]
    made = figure(height=max(200, 130 + 20 * len(names)), barmode="stack")
    labels = numbered(distinct_labels(names))
    for key, values in series.items():
        made.add_bar(
            orientation="h",
            y=labels,
            x=list(values)[:ROWS_SHOWN],
            name=key.replace("_", " "),
            marker_color=(colours or {}).get(key),
            customdata=[str(name) for name in names] if hover is None else list(hover)[:ROWS_SHOWN],
            hovertemplate="%{customdata}: %{x:,.4~g}<extra>" + key.replace("_", " ") + "</extra>",
        )
    made.update_yaxes(autorange="reversed", type="category")
    made.update_xaxes(title=x_title)
    return made


def over_time(
    frame: pd.DataFrame,
    value: str,
    by: str,
    *,
    y_title: str,
    width_ms: float,
    colours: Mapping[str, str] | None = None,
    stacked: bool = True,
) -> go.Figure:
    """Draws bars by time bucket (`ts` is its start), with a colour for each value of `by`, the largest first."""
    frame = frame[frame["ts"].notna()]
    if frame.empty:
        return nothing(NO_CLOCK)
    order = frame.groupby(by)[value].sum().sort_values(ascending=False).index
    if len(order) > len(PALETTE):  # with more series, colours would repeat
        kept = order[: len(PALETTE) - 1]
        frame = frame.assign(**{by: frame[by].where(frame[by].isin(kept), OTHERS)})
        frame = frame.groupby(["ts", by], as_index=False)[value].sum()
        order = [*kept, OTHERS]
    # on a narrow page each entry of the legend takes a line
    height = 360 + 16 * max(0, len(order) - FEW)
    made = figure(height, barmode="stack" if stacked else "group", yaxis_title=y_title)
    for key in order:
        rows = frame[frame[by] == key]
        made.add_bar(
            x=rows["ts"],
            y=rows[value],
            name=short(key).replace("_", " "),
            marker_color=(colours or {}).get(str(key)),
            width=width_ms,
            offset=0,
        )
    made.update_xaxes(type="date", title=UTC)
    made.update_layout(showlegend=True)
    if frame["ts"].nunique() == 1:  # a bar that fills the whole figure shows no time
        only, step = frame["ts"].iloc[0], pd.Timedelta(milliseconds=max(width_ms, 1000))
        made.update_xaxes(range=[only - BESIDE * step, only + (BESIDE + 1) * step])
    if frame.groupby("ts")[value].sum().max() <= FEW and frame[value].dtype.kind in "iu":
        made.update_yaxes(dtick=1)
    return made


def lines(
    frame: pd.DataFrame,
    value: str,
    by: str,
    *,
    y_title: str,
    steps: bool = True,
    total: int = 0,
) -> go.Figure:
    """Draws a line over `ts` for each value of `by`: the `LINES_MAX` with the highest points, of at least `total`."""
    frame = frame[frame["ts"].notna()]
    if frame.empty:
        return nothing(NO_CLOCK)
    made = figure(yaxis_title=y_title)
    highest = frame.groupby(by, sort=False)[value].max().nlargest(LINES_MAX, keep="first").index
    drawn = [(key, rows) for key, rows in frame.groupby(by, sort=False) if key in highest]
    drawn.sort(key=lambda pair: in_order(pair[0]))
    for number, (key, rows) in enumerate(drawn):
        made.add_scatter(
            x=rows["ts"],
            y=rows[value],
            name=short(key),
            mode="lines+markers" if len(rows) < 60 else "lines",
            line={"shape": "hv" if steps else "linear", **line_style(number)},
        )
    title = UTC + of_all(len(drawn), max(total, frame[by].nunique()))
    made.update_xaxes(type="date", title=title)
    made.update_yaxes(rangemode="tozero")
    made.update_layout(showlegend=True)
    return made


def heat(
    frame: pd.DataFrame,
    row: str,
    value: str,
    *,
    title: str,
    width_ms: float,
    rows_max: int = ROWS_SHOWN,
    total: int = 0,
) -> go.Figure:
    """Draws a heat map of `row` × time (`ts`, the start of a bucket) with the busiest rows only, of at least `total`;
    empty cells are white.
    """
    frame = frame[frame["ts"].notna()]
    if frame.empty:
        return nothing(NO_CLOCK)
    busiest = frame.groupby(row)[value].sum().nlargest(rows_max).index
    wide = frame[frame[row].isin(busiest)].pivot_table(
        index=row, columns="ts", values=value, aggfunc="sum"
    )
    # includes empty buckets: a cell is as wide as its bucket, not as the time to the next non-empty one
    step = pd.Timedelta(milliseconds=width_ms)
    times = pd.date_range(frame["ts"].min() - step, frame["ts"].max() + step, freq=step)
    wide = wide.reindex(index=busiest, columns=times)
    most = wide.max(axis=None)
    edges = [*times, times[-1] + step]  # one more edge than cells: a cell begins at its time
    made = figure(height=max(220, 130 + 20 * len(wide)))
    made.add_heatmap(
        x=edges,
        y=distinct_labels(list(wide.index)),
        z=wide.to_numpy(),
        colorscale=HEAT,
        zmin=0,
        zmax=most,  # without this the smallest value would be white
        colorbar={"title": title, **({"dtick": 1} if most <= FEW else {})},
        hoverongaps=False,
    )
    title = UTC + of_all(len(wide), max(total, frame[row].nunique()))
    made.update_xaxes(type="date", title=title)
    made.update_yaxes(autorange="reversed", type="category")
    return made


def of_one_age(frame: pd.DataFrame, time: str) -> tuple[pd.DataFrame, str]:
    """Returns the rows within ten years of the median time, and an axis title with the number of the other rows.

    Times that are decades apart would leave most of the axis empty.
    """
    times = frame[time].dropna().sort_values()
    if times.empty:
        return frame[:0], UTC
    near = (frame[time] - times.iloc[len(times) // 2]).abs() <= pd.Timedelta(
        seconds=SECONDS_MAX / 2
    )
    left = len(frame) - int(near.sum())
    return frame[near], f"{UTC}; {left:,} not shown: of a clock years off" if left else UTC


def spans(
    frame: pd.DataFrame,
    row: str,
    start: str,
    end: str,
    state: str,
    *,
    colours: Mapping[str, str] | None = None,
    total: int = 0,
) -> go.Figure:
    """Draws intervals on a line for each of the first values of `row`, of at least `total`, coloured by state; an
    interval of zero length stays visible.
    """
    frame, title = of_one_age(frame[frame[start].notna() & frame[end].notna()], start)
    if frame.empty:
        return nothing(NO_CLOCK)
    every = list(dict.fromkeys(frame[row]))
    names = every[:ROWS_SHOWN]
    title += of_all(len(names), max(total, len(every)))
    labels = dict(zip(names, distinct_labels(names), strict=True))
    shown = frame[frame[row].isin(names)].head(POINTS_MAX // 2)
    made = figure(height=150 + 26 * len(names), barmode="overlay")
    whole = (shown[end].max() - shown[start].min()) / pd.Timedelta(milliseconds=1)
    least = max(1.0, (whole if whole == whole else 0.0) / 400)
    for key, rows in shown.groupby(state, sort=False):
        milliseconds = (rows[end] - rows[start]) / pd.Timedelta(milliseconds=1)
        made.add_bar(
            orientation="h",
            y=[labels[name] for name in rows[row]],
            base=rows[start],
            x=milliseconds.clip(lower=least),
            name=str(key).replace("_", " "),
            marker_color=(colours or STATE_COLOURS).get(str(key)),
            customdata=[[str(n), s / 1000] for n, s in zip(rows[row], milliseconds, strict=True)],
            hovertemplate="%{customdata[0]}: %{customdata[1]:,.1f} s<extra>"
            + str(key)
            + "</extra>",
        )
    made.update_xaxes(type="date", title=title)
    made.update_yaxes(autorange="reversed", type="category")
    made.update_layout(showlegend=True)
    return made


def table(frame: pd.DataFrame, columns: Mapping[str, str], *, rows_max: int = 60) -> go.Figure:
    """Draws the first rows as a table; `columns` maps names to headings. Long cells are shortened until the
    table fits.
    """
    shown = frame.head(rows_max)
    note = of_all(len(shown), len(frame)).removeprefix("; ")
    made = figure(height=min(900, 40 + 27 * (len(shown) + 1)) + (NOTE_PIXELS if note else 0))
    letters = LABEL_MAX
    cells, widths = _cells(shown, columns, letters)
    while sum(widths) > TABLE_LETTERS and letters > CELL_MIN:
        letters -= 1
        cells, widths = _cells(shown, columns, letters)
    made.add_table(
        columnwidth=widths,
        header={"values": [f"<b>{t}</b>" for t in columns.values()], "align": "left"},
        cells={"values": cells, "align": "left", "height": 26},
    )
    made.update_layout(margin={"l": 10, "r": 10, "t": 10, "b": 10 + (NOTE_PIXELS if note else 0)})
    if note:
        made.add_annotation(
            text=note, x=0, y=0, xref="paper", yref="paper", yanchor="top", showarrow=False
        )
    return made


def _cells(
    shown: pd.DataFrame, columns: Mapping[str, str], letters: int
) -> tuple[list[list[str]], list[int]]:
    """Returns the texts of the columns, shortened to fit, and the width of each column in characters."""
    cells = [[short(_cell(value), letters) for value in shown[name]] for name in columns]
    widths = [
        PADDING + max(LABEL_MIN, len(title) + 1, *map(len, column))  # headings are bold
        for title, column in zip(columns.values(), cells, strict=True)
    ]
    return cells, widths


def _cell(value: object) -> str:
    if getattr(value, "ndim", 0):  # the cell is an array
        return ", ".join(map(str, list(value))) or "–"  # type: ignore[call-overload]
    if value is None or value != value:
        return "–"
    if hasattr(value, "isoformat"):
        return str(value)[:23]
    return f"{value:,.4g}" if isinstance(value, float) else str(value)


NODES_MAX = 60  # more nodes cannot be distinguished


def pair_matrix(kind: str, pairs: Iterable[tuple[int, int, int]]) -> go.Figure:
    """Draws a matrix of `pairs`: two node ids and the number of batches that differ; `kind` names a node, such as
    broker.
    """
    pairs = list(pairs)
    nodes = sorted({node for pair in pairs for node in pair[:2]})[:NODES_MAX]
    at = {node: i for i, node in enumerate(nodes)}
    cells: list[list[int | None]] = [[None] * len(nodes) for _ in nodes]
    for a, b, different in pairs:
        if a in at and b in at:
            cells[at[a]][at[b]] = cells[at[b]][at[a]] = int(different)
    names = [f"{kind} {node}" for node in nodes]
    made = figure(height=180 + 26 * len(nodes))
    made.add_heatmap(
        x=names,
        y=names,
        z=cells,
        colorscale=[[0, GREEN], [1e-9, RED], [1, RED]],
        zmin=0,
        zmax=1,
        showscale=False,
        text=[["" if n is None else n for n in line] for line in cells],
        texttemplate="%{text}",
        hoverongaps=False,
    )
    made.update_yaxes(autorange="reversed")  # the diagonal falls
    return made
