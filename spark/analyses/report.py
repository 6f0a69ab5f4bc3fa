"""The HTML report: verdicts first, then a figure for each analysis with its SQL. It needs no network when it is opened.

Only `index.html` and `plotly.min.js` are written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trimaran.spark.analyses.analysis import Analysis, ReportVerdict
from trimaran.spark.analyses.catalogue import choose
from trimaran.spark.analyses.engines import EngineName, engines
from trimaran.spark.analyses.plots import nothing
from trimaran.spark.analyses.running import NOT_APPLICABLE, Outcome, run_all, since_text
from trimaran.spark.analyses.stale_metadata import staleness
from trimaran.spark.origins.directories.discovery import find_log_directories
from trimaran.spark.origins.origin import DataUnreadable
from trimaran.wire.later import imported_later

if TYPE_CHECKING:
    import plotly.graph_objects as go
    from plotly import offline
else:
    go = imported_later("plotly.graph_objects")
    offline = imported_later("plotly.offline")

# Plotly's default has a button that sends a figure's data to its cloud.
TOOLS = {"displaylogo": False, "showSendToCloud": False, "responsive": True}
Tell = Callable[[Outcome], object]


@dataclass(frozen=True, slots=True)
class ReportSection:
    """A finished analysis, with its figure as HTML."""

    analysis: Analysis
    verdicts: tuple[ReportVerdict, ...]
    figure: str
    rows: int
    seconds: float
    engine: str


@dataclass(frozen=True, slots=True)
class Job:
    """The input of a report: the node directories below `data`, and the analyses to run; `nodes` are the nodes
    found.
    """

    data: Path
    nodes: tuple[int, ...]
    analyses: tuple[Analysis, ...]
    since_ms: int | None = None
    engine: EngineName = "auto"


def plan_report(
    data: Path,
    names: Sequence[str] | None = None,
    since_ms: int | None = None,
    engine: EngineName = "auto",
) -> Job:
    """Checks the data and the names before Java is started.

    Args:
        data: the directory of a cluster, or any directory that holds log directories at some depth, ours or Apache
            Kafka's.
        names: the analyses to run; all if None.
        since_ms: earlier records, batches and events are omitted; None omits nothing.
        engine: the engine that runs the analyses.

    Raises:
        UnknownAnalysis: for a name. DataUnreadable: there are no node directories.
    """
    analyses = tuple(choose(names))
    nodes = tuple(sorted({d.node_id for d in find_log_directories([str(data)])}))
    if not nodes:
        raise DataUnreadable(f"no log directory (meta.properties) below {data}")
    return Job(data, nodes, analyses, since_ms, engine)


def analyse(job: Job, tell: Tell = lambda _: None) -> list[Outcome]:
    """Runs the analyses and calls `tell` with each outcome. Raises JavaNotFound if Spark is needed and cannot run."""
    outcomes: list[Outcome] = []
    stale = staleness(job.data, job.analyses)
    opening = engines(job.engine, job.analyses, job.data, job.since_ms)
    for outcome in run_all(job.analyses, opening, job.since_ms):
        if stale is not None and not outcomes:
            outcome = replace(outcome, verdicts=(stale, *outcome.verdicts))
        outcomes.append(outcome)
        tell(outcome)
    return outcomes


def write_report(
    data: Path,
    target: Path,
    names: Sequence[str] | None = None,
    *,
    since_ms: int | None = None,
    engine: EngineName = "auto",
    tell: Tell = lambda _: None,
) -> Path:
    """Analyses the node directories below `data` and writes a report into the folder `target`, which it creates if
    necessary.

    Returns:
        The path of `index.html`.

    Raises:
        The errors of `plan_report` and `analyse`. Damaged data raises no exception: the report names it.
    """
    job = plan_report(data, names, since_ms, engine)
    return write_pages(job, analyse(job, tell), target)


def write_pages(job: Job, outcomes: Sequence[Outcome], target: Path) -> Path:
    """Writes the report of outcomes; returns the path of `index.html`."""
    sections = [_drawn(outcome) for outcome in outcomes]
    target.mkdir(parents=True, exist_ok=True)
    _write_plotly(target)
    index = target / "index.html"
    index.write_text(_page(job, sections))
    return index


def _write_plotly(target: Path) -> None:
    (target / "plotly.min.js").write_text(offline.get_plotlyjs())


def _drawn(outcome: Outcome) -> ReportSection:
    analysis, frame = outcome.analysis, outcome.frame
    is_blank = frame is None or frame.empty
    made = nothing(outcome.verdicts[0].text) if is_blank else analysis.plot(frame)
    rows = 0 if frame is None else len(frame)
    return ReportSection(
        analysis, outcome.verdicts, figure_html(made), rows, outcome.seconds, outcome.engine
    )


def figure_html(made: go.Figure) -> str:
    """Returns a figure as HTML; a figure that is only text becomes a paragraph, so that its lines wrap at the width of
    the page.
    """
    if not made.data:
        words = " ".join(note.text.replace("<br>", " ") for note in made.layout.annotations)
        return f'<p class="nothing">{escape(words)}</p>'
    html = without_links(made).to_html(full_html=False, include_plotlyjs=False, config=TOOLS)
    kind = "table" if made.data[0].type == "table" else "plot"
    return f'<div class="{kind}">{html}</div>'


def without_links(made: go.Figure) -> go.Figure:
    """Returns the figure with markup in the names of topics, groups and clients as plain text, since plotly interprets
    tags such as links.
    """
    return go.Figure(_as_text(made.to_dict()))


# The tags that our figures use; they have no attributes.
_FOREIGN_TAG = re.compile(r"<(?!/?(?:b|br|extra)>)")


def _as_text(value: Any) -> Any:
    if isinstance(value, str):
        return _FOREIGN_TAG.sub("&lt;", value)
    if isinstance(value, dict):
        return {key: _as_text(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_as_text(item) for item in value]
    is_array = hasattr(value, "dtype")
    return (
        [_as_text(item) for item in value.tolist()] if is_array and value.dtype == object else value
    )


# --- HTML
# --------------------------------------------------------------------------------------------------------------

STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #1d2733; background: #f5f6f8; margin: 0;
  overflow-wrap: anywhere; }
main { max-width: 1080px; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.7rem; margin: 0 0 .25rem; } h2 { font-size: 1.2rem; margin: 0; }
h2 small { font-size: .75rem; font-weight: 500; color: #7a8694; }
.lead, .question { color: #586473; margin: 0 0 1rem; }
section { background: #fff; border: 1px solid #e2e6eb; border-radius: 10px; padding: 1.1rem 1.3rem; margin: 1.25rem 0; }
ul.verdicts { list-style: none; padding: 0; margin: 0; }
ul.verdicts li { padding: .3rem 0 .3rem 4.4rem; position: relative; }
ul.verdicts li::before { position: absolute; left: 0; width: 3.6rem; text-align: center;
  border-radius: 5px; color: #fff;
  font-size: .75rem; font-weight: 600; line-height: 1.5rem; }
li.ok::before { content: "good"; background: #3a8f5c; } li.warn::before { content: "look"; background: #c98a13; }
li.bad::before { content: "bad"; background: #c23b3b; } li.info::before { content: "info"; background: #7a8694; }
details { margin-top: .5rem; } summary { cursor: pointer; color: #2f6db3; font-size: .9rem; }
pre { background: #f5f6f8; border-radius: 6px; padding: .8rem 1rem; overflow-x: auto; font-size: .82rem;
  line-height: 1.4; }
.nothing { color: #586473; text-align: center; margin: 2rem 0; }
/* a narrow page moves what needs more width than it has */
.plot, .table { overflow-x: auto; padding-top: 1.9rem; margin-top: -1rem; }
.plot .plotly-graph-div { min-width: 28rem; } .table .plotly-graph-div { min-width: 60rem; }
/* plotly's tools stand above the figure, where neither a legend nor a table's heading is */
section .js-plotly-plot .plotly .modebar { top: -1.9rem; }
@media (max-width: 40rem) { main { padding: 1rem .5rem; } section { padding: .8rem; } }
nav { line-height: 1.9; } nav a { margin-right: 1rem; white-space: nowrap; color: #2f6db3;
  text-decoration: none; font-size: .9rem; }
"""
HOW_TO = """import trimaran.spark as kafka_spark
session = kafka_spark.session()
kafka_spark.views(session, {path!r})   # makes the views that the SQL names
session.sql("SELECT * FROM quorum_epochs").show()"""


def _page(job: Job, sections: Sequence[ReportSection]) -> str:
    data, nodes = job.data, ", ".join(map(str, job.nodes))
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    links = " ".join(  # a space, at which a line can break
        f'<a href="#{s.analysis.name}">{escape(s.analysis.title)}</a>' for s in sections
    )
    told = verdict_list([v for s in sections for v in s.verdicts])
    body = "".join(map(_section, sections))
    how = escape(HOW_TO.format(path=str(data)))
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Kafka logs: {escape(data.name)}</title><style>{STYLE}</style><script src="plotly.min.js"></script></head>
<body><main><h1>Cluster report</h1>
<p class="lead">{escape(str(data))} · nodes {nodes} · {now}{_covers(job.since_ms)}</p><nav>{links}</nav>
<section><h2>Verdicts</h2>{told}</section>
{body}
<section><h2>Ask more</h2><p class="question">The same tables in Python:</p><pre>{how}</pre></section>
</main></body></html>
"""


GRAVITY = ("bad", "warn", "info", "ok")


def verdict_list(verdicts: Sequence[ReportVerdict]) -> str:
    """Returns the verdicts as HTML, the gravest first; good ones, and those that do not apply, are folded."""
    ordered = sorted(verdicts, key=lambda verdict: GRAVITY.index(verdict.level))
    idle = [v for v in ordered if NOT_APPLICABLE in v.text]
    good = [v for v in ordered if v.level == "ok"]
    rest = [v for v in ordered if v not in idle and v not in good]
    folded = f"{len(good)} good" if good else ""
    if idle:
        folded += f"{', ' if good else ''}{len(idle)} not applicable"
    return _list(rest) + (
        f"<details><summary>{folded}</summary>{_list([*good, *idle])}</details>" if folded else ""
    )


def _list(verdicts: Sequence[ReportVerdict]) -> str:
    items = "".join(f'<li class="{v.level}">{escape(v.text)}</li>' for v in verdicts)
    return f'<ul class="verdicts">{items}</ul>' if items else ""


def _covers(since_ms: int | None) -> str:
    return "" if since_ms is None else f" · of the time{since_text(since_ms)}"


def _section(section: ReportSection) -> str:
    analysis = section.analysis
    sql = escape(analysis.sql.strip().replace("{", "").replace("}", ""))
    return f"""<section id="{analysis.name}"><h2>{escape(analysis.title)} <small>{analysis.number}</small></h2>
<p class="question">{escape(analysis.question)}</p>
{section.figure}
<details><summary>The SQL ({section.rows} rows, {section.seconds:.1f} s in {section.engine}), function
<code>{analysis.compute.__module__}.{analysis.name}</code></summary><pre>{sql}</pre></details></section>
"""
