"""The HTML report: verdicts first, then a figure for each analysis with the SQL that made it. Needs no network to be
read.

One Spark session, each view read once. `index.html` and `plotly.min.js` are all that is written.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from spark.analyses.analysis import Analysis, Verdict
from spark.analyses.catalogue import choose
from spark.origins.discovery import find_log_directories
from spark.origins.origin import DataUnreadable

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame, SparkSession

# Of the wide view only what the analyses use: Spark does not prune columns of Python sources.
BATCH_SCHEMA = (
    "topic string, partition int, base_offset bigint, record_count int, batch_bytes int, compression string, "
    "max_timestamp timestamp"
)
# A dozen small queries: compiling each costs more than running it.
SETTINGS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "2",
}


@dataclass(frozen=True, slots=True)
class Section:
    """An analysis done: its figure as HTML, or why there is none."""

    analysis: Analysis
    verdicts: tuple[Verdict, ...]
    figure: str
    rows: int
    seconds: float


def write_report(data: Path, target: Path, names: Sequence[str] | None = None) -> Path:
    """Analyses the node directories below `data` and writes a report into the folder `target`.

    Args:
        data: a cluster's directory, or any that holds (directories of) log directories, ours or Apache Kafka's.
        target: made if it is not there.
        names: analyses to run; all when None.

    Returns:
        The path of `index.html`.

    Raises:
        UnknownAnalysis: for a name. DataUnreadable: no node directories there. Damaged data is told in the report
            instead.
        JavaNotFound: Spark cannot run.
    """
    analyses = choose(names)
    nodes = sorted({d.node_id for d in find_log_directories([str(data)])})
    if not nodes:
        raise DataUnreadable(f"no log directory (meta.properties) below {data}")
    from spark.session import session

    spark = session(app_name="trimaran report")
    with _settings(spark):
        sections = list(_run(spark, data, analyses))
    target.mkdir(parents=True, exist_ok=True)
    _write_plotly(target)
    index = target / "index.html"
    index.write_text(_page(data, nodes, sections))
    return index


@contextmanager
def _settings(spark: SparkSession) -> Iterator[None]:
    """Ours for the time of the report; the session may be the caller's."""
    before = {key: spark.conf.get(key, None) for key in SETTINGS}
    for key, value in SETTINGS.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, old in before.items():
            if old is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, old)


def _write_plotly(target: Path) -> None:
    from plotly.offline import get_plotlyjs

    (target / "plotly.min.js").write_text(get_plotlyjs())


def _run(spark: SparkSession, data: Path, analyses: Sequence[Analysis]) -> Iterator[Section]:
    from pyspark.errors import PySparkException

    views: dict[str, DataFrame] = {}

    def view(name: str) -> DataFrame:
        if name not in views:
            views[name] = _load(spark, name, data)
        return views[name]

    try:
        for analysis in analyses:
            try:
                yield _one(analysis, view)
            except PySparkException as error:
                why = f"{analysis.title}: not possible: {_cause(error)}"
                yield Section(analysis, (Verdict("bad", why),), f"<p>{escape(why)}</p>", 0, 0.0)
    finally:
        for frame in views.values():
            frame.unpersist()


def _one(analysis: Analysis, view: Callable[[str], DataFrame]) -> Section:
    started = time.monotonic()
    frame = _computed(analysis, view)
    made = analysis.plot(frame).to_html(
        full_html=False, include_plotlyjs=False, config={"displaylogo": False}
    )
    verdicts = tuple(analysis.evaluate(frame))
    return Section(analysis, verdicts, made, len(frame), time.monotonic() - started)


def _computed(analysis: Analysis, view: Callable[[str], DataFrame]) -> pd.DataFrame:
    from pyspark.errors import PySparkException

    if analysis.also is not None:
        with suppress(
            PySparkException
        ):  # a directory without a metadata log, or with a damaged one
            return analysis.compute(view(analysis.view), view(analysis.also)).toPandas()
    return analysis.compute(view(analysis.view)).toPandas()


def _cause(error: PySparkException) -> str:
    """The line of ours in an executor's traceback, else Spark's first line."""
    text = str(error)
    found = re.search(r"(?:DataUnreadable|OptionError|OSError|FileNotFoundError): (.+)", text)
    return found.group(1) if found else text.strip().splitlines()[0]


def _load(spark: SparkSession, view: str, data: Path) -> DataFrame:
    """The view's DataFrame, read from the files once."""
    from spark.sources import VIEWS

    source, options = VIEWS[view]
    reader = spark.read.format(source).options(**options)
    if view == "batches":
        reader = reader.schema(BATCH_SCHEMA)
    return reader.load(str(data)).cache()


# --- HTML
# --------------------------------------------------------------------------------------------------------------

STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #1d2733; background: #f5f6f8; margin: 0; }
main { max-width: 1080px; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.7rem; margin: 0 0 .25rem; } h2 { font-size: 1.2rem; margin: 0; }
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
nav a { margin-right: 1rem; color: #2f6db3; text-decoration: none; font-size: .9rem; }
"""
HOW_TO = """import spark
session = spark.session()
spark.views(session, {path!r})   # makes the views that the SQL names
session.sql("SELECT * FROM quorum_epochs").show()"""


def _page(data: Path, nodes: Sequence[int], sections: Sequence[Section]) -> str:
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    links = "".join(
        f'<a href="#{s.analysis.name}">{escape(s.analysis.title)}</a>' for s in sections
    )
    told = "".join(
        f'<li class="{v.level}">{escape(v.text)}</li>' for s in sections for v in s.verdicts
    )
    body = "".join(map(_section, sections))
    how = escape(HOW_TO.format(path=str(data)))
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Kafka logs: {escape(data.name)}</title><style>{STYLE}</style><script src="plotly.min.js"></script></head>
<body><main><h1>Cluster report</h1>
<p class="lead">{escape(str(data))} · nodes {", ".join(map(str, nodes))} · {now}</p><nav>{links}</nav>
<section><h2>Verdicts</h2><ul class="verdicts">{told}</ul></section>
{body}
<section><h2>Ask more</h2><p class="question">The same tables in Python:</p><pre>{how}</pre></section>
</main></body></html>
"""


def _section(section: Section) -> str:
    analysis = section.analysis
    sql = escape(analysis.sql.strip().replace("{", "").replace("}", ""))
    return f"""<section id="{analysis.name}"><h2>{escape(analysis.title)}</h2>
<p class="question">{escape(analysis.question)}</p>
{section.figure}
<details><summary>The SQL ({section.rows} rows, {section.seconds:.1f} s), function
<code>spark.analyses.{analysis.name}.{analysis.name}</code></summary><pre>{sql}</pre></details></section>
"""
