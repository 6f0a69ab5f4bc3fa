"""Analyses of rows with known results: the result, its verdict and its plot, also without rows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pandas as pd
import pyarrow as pa

from trimaran.spark.analyses.catalogue import ANALYSES
from trimaran.spark.analyses.running import collected, not_applicable
from trimaran.spark.analyses.views import arrow_schema, columns_of
from trimaran.spark.in_process.reading import without_zones

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds):
    return EPOCH + timedelta(seconds=seconds)


class Told:
    """`frame` as pandas, `text` of all verdicts, and their `levels`."""

    def __init__(self, analysis, frame):
        self.frame = frame
        verdicts = analysis.evaluate(frame) or [not_applicable(analysis)]
        self.text = "\n".join(v.text for v in verdicts)
        self.levels = [v.level for v in verdicts]

    def rows(self, kind=None, column="kind"):
        frame = self.frame if kind is None else self.frame[self.frame[column] == kind]
        return frame.to_dict("records")


class InDuckDB:
    """Makes tables of the engine of this process."""

    def __init__(self, database):
        self._database = database

    def table(self, rows):
        return self._database.table(without_zones(rows))


class InSpark:
    """Makes DataFrames of rows in the driver, so that no task reads them."""

    def __init__(self, session):
        self._session = session

    def table(self, rows):
        return self._session.createDataFrame(rows)


def table_of(rows, ddl):
    """Returns the rows of a view, tuples in the order of its columns, as Arrow."""
    schema = arrow_schema(columns_of(ddl))
    columns = zip(*rows, strict=True) if rows else ((),) * len(schema)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def rows_in(engine, name, views):
    """Returns the collected rows of an analysis in an engine; an omitted view is optional."""
    analysis = ANALYSES[name]
    tables = {
        view: engine.table(table_of(rows, analysis.views[view])) for view, rows in views.items()
    }
    return collected(analysis.compute(**tables))


def analysed(engine, name, **views):
    """Runs the analysis on rows (tuples in the order of its views' columns); an omitted view is optional."""
    analysis = ANALYSES[name]
    frame = rows_in(engine, name, views)
    drawn = analysis.plot(frame)
    assert drawn.data or drawn.layout.annotations
    drawn.to_json()
    dark = frame.copy()
    for column in dark.select_dtypes("datetime"):
        dark[column] = pd.NaT
    analysis.plot(dark).to_json()  # no row has a time
    assert "nan" not in "".join(verdict.text for verdict in analysis.evaluate(dark))
    nothing = frame.iloc[:0]
    assert analysis.plot(nothing).layout.annotations
    assert all(verdict.level in ("ok", "info") for verdict in analysis.evaluate(nothing))
    return Told(analysis, frame)
