"""The verdict on records of the metadata log that were not understood: no analysis has their changes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from trimaran.quorum.metadata.image import UnknownRecords
from trimaran.spark.analyses.analysis import Analysis, ReportVerdict
from trimaran.spark.kafka_metadata.log_walk.fold import UNKNOWN
from trimaran.spark.kafka_metadata.log_walk.walk import Walk
from trimaran.spark.kafka_metadata.registry import TABLES
from trimaran.spark.kafka_metadata.source import parse_options, plan_table
from trimaran.spark.origins.origin import DataUnreadable
from trimaran.spark.sources import VIEWS
from trimaran.wire.records.metadata import UnknownRecord

TABLE = TABLES["feature_history"]  # a read of this table covers the whole metadata log


def staleness(data: Path, analyses: Iterable[Analysis]) -> ReportVerdict | None:
    """Returns a verdict if the analyses show a state of the metadata that lacks changes."""
    views = {view for analysis in analyses for view in analysis.views}
    if not any(_may_be_stale(view) for view in views):
        return None
    text = _unknown(data).text
    if not text:
        return None
    why = f"left out {text}; what they change is in no analysis: a later trimaran may know them"
    return ReportVerdict("warn", f"The metadata may be stale: {why}.")


def _may_be_stale(view: str) -> bool:
    source, options = VIEWS.get(view, ("", {}))
    return source == "kafka_metadata" and UNKNOWN in TABLES[options["table"]].columns


def _unknown(data: Path) -> UnknownRecords:
    """Returns the records of the metadata log that were not understood; none if there is no log that can be read."""
    found = UnknownRecords()
    try:
        options = parse_options({"path": str(data), "table": TABLE.name})
        for task in plan_table(TABLE, options, ()):
            for step in Walk(task, frozenset(), control=True):
                if isinstance(step.message, UnknownRecord):
                    found = found.plus(1, [step.message._replace(offset=step.moment.offset)])
    except (DataUnreadable, OSError):
        return UnknownRecords()  # the analyses report it
    return found
