"""`sql`: runs one SQL statement on the logs of a cluster, which are registered as views."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter, validators

from trimaran.cli.connect import DEFAULT_DATA, NodeDirectories
from trimaran.cli.output import Format, say, show_rows
from trimaran.cli.progress import progress
from trimaran.cli.spark_errors import ELSEWHERE, explained, is_nothing
from trimaran.errors.user_error import Exit, UserError
from trimaran.local import state_file
from trimaran.spark import documentation, sources
from trimaran.spark.data_source import tracebacks
from trimaran.spark.in_process import statements
from trimaran.spark.sessions import session as sessions_session
from trimaran.wire.later import imported_later

if TYPE_CHECKING:
    from pyspark import errors as spark_errors
    from pyspark.sql import DataFrame, types
    from pyspark.sql.types import StructType
else:
    spark_errors = imported_later("pyspark.errors")
    types = imported_later("pyspark.sql.types")

EngineName = Literal["auto", "duckdb", "spark"]
POSITIVE = validators.Number(gte=1)
ROWS_MAX = 1_000  # rows of a table in a terminal; LIMIT in the statement requests more


def sql(
    statement: str = "",
    /,
    *,
    data: NodeDirectories = DEFAULT_DATA,
    output: Format = "table",
    rows: Annotated[int, Parameter(name="--rows", validator=POSITIVE)] = ROWS_MAX,
    engine: Annotated[EngineName, Parameter(name="--engine")] = "auto",
) -> None:
    """Runs a Spark SQL statement on the logs of the nodes below DATA; without a statement, lists the views.

    Args:
        statement: A statement, such as "SELECT topic, count(*) FROM records GROUP BY topic".
        rows: The largest number of rows to show.
        engine: The engine of the statement: DuckDB in this process, Spark, or (auto) Spark only for what DuckDB cannot
            run in the same way.
    """
    data = state_file.nearest(data)
    with explained(data):
        if not statement.strip():
            show_rows(documentation.view_docs(), output)
            return
        named = {word.lower() for word in re.findall(r"\w+", statement)}
        used = [name for name in sources.VIEWS if name in named]
        with progress("reading"):
            found, ran = _run(statement, used, data, rows + 1, engine)
    show_rows(found[:rows], output)
    say(f"run by {ran}")
    if len(found) > rows:
        say(f"more than {rows:,} rows; --rows shows more")


def _run(
    statement: str, views: list[str], data: Path, rows: int, engine: EngineName
) -> tuple[list[dict[str, object]], str]:
    """Returns the rows, and the engine that made them."""
    if engine != "spark":
        try:
            return statements.run_statement(statement, data, rows), "DuckDB"
        except statements.NotCommon as error:
            if engine == "duckdb":
                raise UserError(
                    "the statement cannot be run by DuckDB",
                    f"{error}",
                    "without --engine duckdb, Spark runs it",
                    exit_code=Exit.USAGE,
                ) from None
    return _run_in_spark(statement, views, data, rows), "Spark"


def _run_in_spark(
    statement: str, views: list[str], data: Path, rows: int
) -> list[dict[str, object]]:
    spark = sessions_session.session(app_name="trimaran sql")
    try:
        for name in views:
            sources.view(spark, name, data)
        with tracebacks.captured():
            return _collected(spark.sql(statement).limit(rows))
    except spark_errors.PySparkException as error:
        why = tracebacks.cause_of(error).partition("\n\n== SQL ==")[0]
        raise UserError(
            "the statement cannot be run",
            why,
            ELSEWHERE
            if is_nothing(why)
            else f"views: {', '.join(sources.VIEWS)}; DESCRIBE VIEW_NAME shows the columns of one",
            exit_code=Exit.USAGE,
        ) from None


def _collected(found: DataFrame) -> list[dict[str, object]]:
    try:
        return [in_utc(row.asDict(recursive=True), found.schema) for row in found.collect()]
    except spark_errors.PySparkException:
        raise
    except (ValueError, OverflowError) as error:  # Python's datetime cannot hold the time
        raise UserError(
            "the rows have a time that cannot be shown",
            f"a time is not between the years 1 and 9999: {error}",
            "write CAST(timestamp AS STRING) in place of the column",
            exit_code=Exit.USAGE,
        ) from None


def in_utc(row: dict[str, Any], schema: StructType) -> dict[str, Any]:
    """Returns a collected row with its times in UTC: PySpark gives them in the time zone of this process."""
    zoned = {
        field.name for field in schema.fields if isinstance(field.dataType, types.TimestampType)
    }
    return {
        name: value.astimezone(UTC).replace(tzinfo=None)
        if name in zoned and isinstance(value, datetime)
        else value
        for name, value in row.items()
    }
