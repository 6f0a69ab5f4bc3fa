"""Tables in the memory of this process, and SQL on them: the part of a Spark session that an analysis of little data
needs, without a JVM.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from trimaran.spark.in_process.dialect import MACROS, translated
from trimaran.wire.later import imported_later

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import pyarrow as pa
    from pyarrow import compute as pc
else:
    duckdb = imported_later("duckdb")
    pa = imported_later("pyarrow")
    pc = imported_later("pyarrow.compute")

MEMORY = "2GiB"  # of a query, without its tables; larger queries spill to disk
_PLACEHOLDER = re.compile(r"\{(\w+)\}")


class TooLarge(Exception):
    """Rows, or a query, take more memory than a process may use; Spark has no such bound."""


@dataclass(frozen=True, slots=True, eq=False)
class LocalTable:
    """A table or the result of a query, computed when it is read; has the methods of a Spark DataFrame that analyses
    call.
    """

    database: Database
    name: str

    @property
    def dtypes(self) -> list[tuple[str, str]]:
        """Names and types of the columns; types are DuckDB's, in lower case."""
        described = self.database.rows(f"DESCRIBE {self.name}")
        return [(row["column_name"], row["column_type"].lower()) for row in described]

    @property
    def columns(self) -> list[str]:
        return [name for name, _ in self.dtypes]

    def first(self) -> Mapping[str, Any] | None:
        return next(iter(self.database.rows(f"FROM {self.name} LIMIT 1")), None)

    def toArrow(self) -> pa.Table:  # noqa: N802 - as Spark
        """Returns the rows, with Spark's types: sums are 64 bits wide."""
        wide = [
            f"CAST({quoted(name)} AS {kind.replace('hugeint', 'bigint')}) AS {quoted(name)}"
            for name, kind in self.dtypes
        ]
        return self.database.arrow(f"SELECT {', '.join(wide)} FROM {self.name}")

    def toPandas(self) -> pd.DataFrame:  # noqa: N802 - as Spark
        return self.toArrow().to_pandas(coerce_temporal_nanoseconds=True)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


class Database:
    """Runs queries in Spark SQL. Its tables are Arrow's and are not copied."""

    def __init__(self, spill: str) -> None:
        settings: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": MEMORY,
            "temp_directory": spill,
        }
        self._connection = duckdb.connect(config=settings)
        for macro in MACROS:
            self._connection.execute(f"CREATE TEMP MACRO {macro}")
        self._numbers = count(1)

    def table(self, rows: pa.Table) -> LocalTable:
        """Returns a table of rows; its times must be without a zone."""
        name = f"table_{next(self._numbers)}"
        self._connection.register(name, rows)
        return LocalTable(self, name)

    def query(self, sql: str, tables: Mapping[str, LocalTable]) -> LocalTable:
        """Returns the result of Spark SQL; the tables have the names of its `{placeholders}`.

        Raises sqlglot.errors.SqlglotError or duckdb.Error.
        """
        named = _PLACEHOLDER.sub(lambda found: tables[found[1]].name, sql)
        return self.result(translated(named))

    def result(self, sql: str) -> LocalTable:
        """Returns the result of a query in DuckDB's SQL. Raises duckdb.Error."""
        name = f"query_{next(self._numbers)}"
        self._connection.execute(f"CREATE TEMP VIEW {name} AS {sql}")
        return LocalTable(self, name)

    def rows(self, sql: str) -> list[dict[str, Any]]:
        return list(self.arrow(sql).to_pylist())

    def arrow(self, sql: str) -> pa.Table:
        """Returns the rows of a query in DuckDB's SQL. Raises duckdb.Error; TooLarge: it takes too much memory."""
        try:
            return self._connection.sql(sql).to_arrow_table()
        except duckdb.OutOfMemoryException as error:
            raise TooLarge(f"a query takes more than {MEMORY}: {error}") from None

    def map_groups(
        self,
        rows: LocalTable,
        column: str,
        change: Callable[[pa.Table], pa.Table],
        schema: Sequence[tuple[str, pa.DataType]],
    ) -> LocalTable:
        """Applies `change` to each group of rows with equal values of a column, and returns the resulting rows."""
        found = rows.toArrow()
        each = pc.unique(found[column])
        groups = (
            pc.equal(found[column], value) if value.is_valid else pc.is_null(found[column])
            for value in each
        )
        made = [change(found.filter(group)) for group in groups]
        return self.table(pa.concat_tables([pa.schema(schema).empty_table(), *made]))

    def close(self) -> None:
        self._connection.close()


@contextmanager
def database() -> Iterator[Database]:
    """Yields an empty database; its temporary files are deleted at the end."""
    with TemporaryDirectory(prefix="trimaran-") as spill:
        made = Database(spill)
        try:
            yield made
        finally:
            made.close()
