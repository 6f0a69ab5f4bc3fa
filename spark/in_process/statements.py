"""Runs statements of users without Spark, if their meaning is certainly the same in DuckDB.

Here are the parts of Spark SQL whose results `tests/spark` compares in both engines. Spark runs a statement with any
other part, and one that fails, so that an error is Spark's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any

from trimaran.spark.in_process.database import Database, TooLarge, database
from trimaran.spark.in_process.dialect import in_duckdb
from trimaran.spark.in_process.operands import unlike_operands
from trimaran.spark.in_process.reading import IN_PROCESS_BYTES, read_view, schema_of_view
from trimaran.spark.sources import VIEWS
from trimaran.wire.later import imported_later

if TYPE_CHECKING:
    import duckdb
    import sqlglot
    from pyspark.sql import types
    from pyspark.sql.types import StructType
    from sqlglot import expressions as exp
else:
    duckdb = imported_later("duckdb")
    sqlglot = imported_later("sqlglot")
    types = imported_later("pyspark.sql.types")
    exp = imported_later("sqlglot.expressions")


class NotCommon(Exception):
    """A statement has a part whose meaning may differ, or cannot be run here."""


# The kinds of expressions with the same meaning in both engines, by sqlglot's names.
COMMON = {
    "Select", "Union", "Subquery", "With", "CTE", "From", "Join", "Where", "Group", "Having", "Qualify", "Order",
    "Ordered", "Limit", "Distinct", "Window", "WindowSpec", "Lateral", "Table", "TableAlias", "Column", "Identifier",
    "Alias", "Star", "Literal", "Null", "Boolean", "And", "Or", "Not", "Paren", "Is", "In", "Between", "EQ", "NEQ",
    "GT", "GTE", "LT", "LTE", "NullSafeEQ", "Case", "If", "Coalesce", "Add", "Sub", "Mul", "Neg", "Like", "UnixMillis",
    "Explode", "ArraySize", "Count", "Sum", "Min", "Max", "ArgMax", "ArgMin", "RowNumber", "Lag", "Lead",
}  # fmt: skip
# A time that both engines read in the same way: DuckDB ignores names of time zones, and accepts `epoch`.
_COMMON_TIME = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d:\d\d(\.\d{1,6})?Z?)?")
_TIME = re.compile(r"\s*(epoch|[+-]?\d+[-/ ]\d.*)", re.IGNORECASE | re.DOTALL)
_NUMBERS = {"integer", "bigint", "hugeint", "double"}
# Types of results that DuckDB formats differently, or that Spark does not have.
UNLIKE = ("decimal", "interval", "date", "time with", "map", "json", "union", "enum")


def run_statement(statement: str, path: str | PathLike[str], rows_max: int) -> list[dict[str, Any]]:
    """Returns the first rows of a statement in Spark SQL over the views of node directories.

    Raises:
        NotCommon: only Spark can run it.
        DataUnreadable, OptionError: raised by the sources.
    """
    tree = _parsed(statement)
    with database() as opened:
        try:
            used = 0
            tables = _tables(tree)
            offered = {view: schema_of_view(view, path) for view in tables}
            for unlike in unlike_operands(tree, offered):
                raise NotCommon(f"{unlike} has operands of different types")
            for view, table in tables.items():
                schema = _columns(tree, offered[view])
                read = read_view(view, schema, path, IN_PROCESS_BYTES - used)
                used += read.nbytes
                rows = opened.table(read)
                for named in table:
                    named.set(
                        "alias",
                        named.args.get("alias") or exp.TableAlias(this=exp.to_identifier(view)),
                    )
                    named.set("this", exp.to_identifier(rows.name))
            _ensure_sides_alike(opened, tree)
            return _rows(opened, tree, rows_max)
        except (duckdb.Error, sqlglot.errors.SqlglotError, TooLarge, OverflowError) as error:
            raise NotCommon(f"{error}") from None


def _parsed(statement: str) -> exp.Expr:
    """Returns the statement, with the names that Spark gives to columns."""
    try:
        trees = sqlglot.parse(statement, read="spark")
    except sqlglot.errors.SqlglotError as error:
        raise NotCommon(f"{error}") from None
    if len(trees) != 1 or not isinstance(trees[0], exp.Query):
        raise NotCommon("not one query")
    for node in trees[0].walk():
        if type(node).__name__ not in COMMON:
            raise NotCommon(f"{node.sql('spark')} may mean something else in DuckDB")
        if isinstance(node, exp.Literal) and node.is_string and not _is_common(node.this):
            raise NotCommon(f"the text {node.this!r} as a value of another type")
        if isinstance(node, exp.Like) and not isinstance(node.expression, exp.Literal):
            raise NotCommon("a pattern that may have an escape")
        if isinstance(node, exp.Lateral) and node.args.get("outer"):
            raise NotCommon("an outer view")
        if isinstance(node, exp.Select):
            if node.args.get("joins") and node.is_star:
                raise NotCommon("the order of the columns of a join")
            node.set("expressions", [_named(each) for each in node.expressions])
    names = [name.lower() for name in trees[0].named_selects]
    if len(set(names)) < len(names):
        raise NotCommon("two columns of one name")
    return trees[0]


def _is_common(text: str) -> bool:
    r"""Whether a text has one value in both engines, whatever type it is compared with.

    DuckDB rounds `1.5` to an integer, and reads `\x41` as a byte of a BLOB.
    """
    if "\\" in text:
        return False
    if _TIME.fullmatch(text):
        return _COMMON_TIME.fullmatch(text) is not None
    try:
        float(text)
    except ValueError:
        return True
    return text.isdecimal()


def _named(column: exp.Expr) -> exp.Expr:
    """Returns a column of a result with the name that Spark gives it: with the letter case of the statement, not the
    view's.
    """
    if isinstance(column, exp.Column) and not column.is_star:
        return exp.alias_(column, column.name, quoted=True)
    if isinstance(column, exp.Alias | exp.Column | exp.Star):
        return column
    if isinstance(column, exp.Count) and isinstance(column.this, exp.Star):
        return exp.alias_(column, "count(1)", quoted=True)
    if isinstance(column, exp.Count | exp.Sum | exp.Min | exp.Max) and isinstance(
        column.this, exp.Column
    ):
        return exp.alias_(column, f"{column.key}({column.this.name})", quoted=True)
    raise NotCommon("a column without a name")


def _tables(tree: exp.Expr) -> Mapping[str, list[exp.Table]]:
    """Returns the references to each view in the statement."""
    inner = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    found: dict[str, list[exp.Table]] = {}
    for table in tree.find_all(exp.Table):
        name = table.name.lower()
        if name in inner and not table.db:
            continue
        if name not in VIEWS or table.db:
            raise NotCommon(f"{table} is no view")
        found.setdefault(name, []).append(table)
    return found


def _columns(tree: exp.Expr, offered: StructType) -> StructType:
    """Returns the columns of a view that a statement may name."""
    if any(not isinstance(star.parent, exp.Count) for star in tree.find_all(exp.Star)):
        return offered
    names = {identifier.name.lower() for identifier in tree.find_all(exp.Identifier)}
    named = [field for field in offered.fields if field.name.lower() in names]
    return types.StructType(named or offered.fields[:1])


def _ensure_sides_alike(opened: Database, tree: exp.Expr) -> None:
    """Raises NotCommon for a union of texts and numbers: DuckDB converts both to texts, Spark to numbers."""
    shared = tree.args.get("with_")
    for union in tree.find_all(exp.SetOperation):
        sides = [union.left.copy(), union.right.copy()]
        for side in sides:
            if shared is not None and not side.args.get("with_"):
                side.set("with_", shared.copy())
        each = [[kind for _, kind in opened.result(in_duckdb(side)).dtypes] for side in sides]
        for kinds in zip(*each, strict=False):  # DuckDB refuses sides of different lengths
            if len({*kinds} - {'"null"'}) > 1 and not _NUMBERS.issuperset(kinds):
                raise NotCommon(f"a union of {' and '.join(kinds)}")


def _rows(opened: Database, tree: exp.Expr, rows_max: int) -> list[dict[str, Any]]:
    result = opened.result(in_duckdb(tree))
    if any(word in kind for _, kind in result.dtypes for word in UNLIKE):
        raise NotCommon("a value that is written in another way")
    found = opened.query(f"SELECT * FROM {{rows}} LIMIT {rows_max}", {"rows": result})
    return list(found.toArrow().to_pylist())
