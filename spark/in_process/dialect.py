"""Translates Spark SQL to the SQL of DuckDB: a query is written once and has the same rows in both engines.

sqlglot translates syntax, names and the order of nulls. `changes` has the remaining differences: types, and functions
of the same name with other results.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from trimaran.wire.later import imported_later

if TYPE_CHECKING:
    import sqlglot
    from sqlglot import expressions as exp
else:
    sqlglot = imported_later("sqlglot")
    exp = imported_later("sqlglot.expressions")

# A statement that cannot be parsed is Spark's to run or refuse.
logging.getLogger("sqlglot").setLevel(logging.ERROR)

# Functions with the meaning that Spark gives them. DuckDB has other functions for keys and values, which are BLOBs.
MACROS = (
    "timestamp_millis(ms) AS make_timestamp(CAST(ms AS BIGINT) * 1000)",
    "length_of(x) AS CAST(CASE WHEN typeof(x) = 'BLOB' THEN octet_length(CAST(x AS BLOB)) "
    "ELSE length(CAST(x AS VARCHAR)) END AS INTEGER)",
    "text_of(x) AS CASE WHEN typeof(x) = 'BLOB' THEN TRY(decode(CAST(x AS BLOB))) ELSE CAST(x AS VARCHAR) END",
    "try_validate_utf8(x) AS x",  # `text_of` is null for invalid UTF-8
    "first_bytes(x, n) AS unhex(left(hex(x), 2 * n))",
    "ints_of(text) AS CAST(CAST(text AS JSON) AS INTEGER[])",
    "texts_of(text) AS CAST(CAST(text AS JSON) AS MAP(VARCHAR, VARCHAR))",
)
JSON_TYPES = {"array<int>": "ints_of", "map<string,string>": "texts_of"}

Change = Callable[["exp.Expr"], "exp.Expr"]


def translated(sql: str) -> str:
    """Returns DuckDB's SQL for a query in Spark SQL. Raises sqlglot.errors.SqlglotError."""
    return in_duckdb(sqlglot.parse_one(sql, read="spark"))


def in_duckdb(tree: exp.Expr) -> str:
    """Returns DuckDB's SQL for a query that was parsed as Spark SQL, and changes the tree. Raises
    sqlglot.errors.SqlglotError.
    """
    for node in reversed(list(tree.walk())):  # children before their parents
        if (change := changes().get(type(node))) is not None:
            node.replace(change(node))
    return str(tree.sql("duckdb", unsupported_level=sqlglot.ErrorLevel.RAISE))


@functools.cache
def changes() -> Mapping[type, Change]:
    """Returns, by kind of expression, the change without which DuckDB would evaluate it differently."""
    return {
        exp.DataType: _type,
        exp.TryCast: _cast,
        exp.Cast: _cast,
        # Spark's max_by and min_by may return a null of the chosen row; DuckDB's skip rows with nulls.
        exp.ArgMax: lambda node: exp.func("arg_max_null", node.this, node.expression),
        exp.ArgMin: lambda node: exp.func("arg_min_null", node.this, node.expression),
        # Spark's floor and ceil return integers.
        exp.Floor: lambda node: exp.cast(exp.func("floor", node.this, copy=False), "BIGINT"),
        exp.Ceil: lambda node: exp.cast(exp.func("ceil", node.this, copy=False), "BIGINT"),
        # Spark's count_if returns 0 for no rows; DuckDB's returns null.
        exp.CountIf: lambda node: exp.func("count", exp.case().when(node.this, "1")),
        exp.Log: _log,
        exp.Window: _window,
        exp.ArraySize: lambda node: exp.cast(node.copy(), "INT"),
        exp.ApproxQuantile: lambda node: exp.func(
            "quantile_disc", node.this, node.args["quantile"]
        ),
        exp.Quantile: lambda node: exp.func("quantile_cont", node.this, node.args["quantile"]),
        exp.Length: lambda node: exp.func("length_of", node.this),
        exp.Substring: _first_bytes,
        exp.FromJson: _from_json,
        exp.Anonymous: _anonymous,
        exp.Select: _without_hint,
    }


def _type(node: exp.Expr) -> exp.Expr:
    """Returns the type; all times are in UTC."""
    zoned = (exp.DataType.Type.TIMESTAMPTZ, exp.DataType.Type.TIMESTAMPLTZ)
    return exp.DataType.build("TIMESTAMP") if node.this in zoned else node


def _cast(node: exp.Expr) -> exp.Expr:
    if node.args["to"].is_type("TEXT"):
        return exp.func("text_of", node.this)
    return exp.Cast(this=node.this, to=node.args["to"])


def _log(node: exp.Expr) -> exp.Expr:
    base, value = node.this, node.expression
    return exp.func("log2", value) if str(base) == "2" else node


def _window(node: exp.Expr) -> exp.Expr:
    """Returns the window; ranks are 32 bits wide, as in Spark."""
    is_rank = isinstance(node.this, exp.RowNumber | exp.DenseRank)
    return exp.cast(node.copy(), "INT") if is_rank else node


def _first_bytes(node: exp.Expr) -> exp.Expr:
    if str(node.args["start"]) != "1":
        raise sqlglot.errors.UnsupportedError("only the first bytes of a value can be taken")
    return exp.func("first_bytes", node.this, node.args["length"])


def _from_json(node: exp.Expr) -> exp.Expr:
    kind = str(node.args["schema"].this) if "schema" in node.args else str(node.expression.this)
    if kind not in JSON_TYPES:
        raise sqlglot.errors.UnsupportedError(f"JSON of type {kind} cannot be read")
    return exp.func(JSON_TYPES[kind], node.this)


def _anonymous(node: exp.Expr) -> exp.Expr:
    """Replaces Spark's hash function by DuckDB's. The hashes differ, so queries may only compare hashes."""
    if node.name.lower() == "xxhash64":
        return exp.func("hash", *node.expressions)
    return node


def _without_hint(node: exp.Expr) -> exp.Expr:
    node.set("hint", None)
    return node
