"""Refuses operands whose types DuckDB converts while Spark 4 reports an error or converts them differently.

DuckDB takes a number for a condition, compares booleans with numbers, and sums booleans; Spark refuses each. Types come
from sqlglot. An expression whose type sqlglot cannot determine is left to DuckDB, which refuses most other mixtures.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from trimaran.wire.later import imported_later

if TYPE_CHECKING:
    from pyspark.sql.types import StructType
    from sqlglot import expressions as exp
    from sqlglot.optimizer import annotate_types, qualify
else:
    exp = imported_later("sqlglot.expressions")
    annotate_types = imported_later("sqlglot.optimizer.annotate_types")
    qualify = imported_later("sqlglot.optimizer.qualify")

BOOLEAN, NUMBER, TEXT, TIME = "boolean", "number", "text", "time"
_NAMES = {
    "BOOLEAN": BOOLEAN,
    "BINARY": "binary",
    "VARBINARY": "binary",
    "TIMESTAMPTZ": TIME,
}
# By name of an expression: the only kind of operands that it takes; None means an array. Arrays have no kind, because
# sqlglot assigns their type to exploded elements, too.
_TAKES = {
    **dict.fromkeys(("And", "Or", "Not", "Where", "Having", "Qualify"), BOOLEAN),
    **dict.fromkeys(("Add", "Sub", "Mul", "Neg", "Sum", "Limit"), NUMBER),
    "Like": TEXT,
    "UnixMillis": TIME,
    "ArraySize": None,
    "Explode": None,
}
_COMPARISONS = ("EQ", "NEQ", "GT", "GTE", "LT", "LTE", "NullSafeEQ", "In", "Between")


def unlike_operands(tree: exp.Expr, views: Mapping[str, StructType]) -> Iterator[str]:
    """Yields each expression that mixes types, as text in Spark SQL. `views` are the tables of the query by name.
    Raises SqlglotError.
    """
    schema: dict[str, object] = {
        view: {field.name: field.dataType.simpleString() for field in columns.fields}
        for view, columns in views.items()
    }
    named = qualify.qualify(
        tree.copy(),
        schema=schema,
        dialect="spark",
        validate_qualify_columns=False,
        quote_identifiers=False,
    )
    for node in annotate_types.annotate_types(named, schema=schema, dialect="spark").walk():
        if not _is_alike(node):
            yield str(node.sql("spark"))


def _is_alike(node: exp.Expr) -> bool:
    name = type(node).__name__
    if name in _TAKES:
        return _kinds(*node.iter_expressions()) <= {_TAKES[name]}
    if name in _COMPARISONS:
        return _is_comparable(*node.iter_expressions())
    if isinstance(node, exp.Join):
        return _kinds(node.args.get("on")) <= {BOOLEAN}
    if isinstance(node, exp.Case):
        branches, default = node.args["ifs"], node.args.get("default")
        conditions = [branch.this for branch in branches]
        return _is_one_kind(*(branch.args["true"] for branch in branches), default) and (
            _kinds(*conditions) <= {BOOLEAN}
            if node.this is None
            else _is_comparable(node.this, *conditions)
        )
    if isinstance(node, exp.If) and not isinstance(node.parent, exp.Case):
        return _kinds(node.this) <= {BOOLEAN} and _is_one_kind(
            node.args["true"], node.args.get("false")
        )
    if isinstance(node, exp.Lag | exp.Lead):
        return _is_one_kind(node.this, node.args.get("default"))
    return not isinstance(node, exp.Coalesce) or _is_one_kind(*node.iter_expressions())


def _is_comparable(*nodes: exp.Expr) -> bool:
    """Whether both engines compare the values in the same way. Both convert a text to the type of the other operand,
    but they accept different texts as booleans.
    """
    kinds = _kinds(*nodes)
    return len(kinds) <= 1 or (len(kinds - {TEXT}) == 1 and BOOLEAN not in kinds)


def _is_one_kind(*nodes: exp.Expr | None) -> bool:
    return len(_kinds(*nodes)) <= 1


def _kinds(*nodes: exp.Expr | None) -> set[str]:
    """Returns the kinds of the known types."""
    return {kind for node in nodes if node is not None if (kind := _kind(node)) is not None}


def _kind(node: exp.Expr) -> str | None:
    """Returns the kind of a value; None if it is unknown, NULL or nested."""
    if isinstance(node, exp.ArgMax | exp.ArgMin):
        return _kind(node.this)
    if (data_type := node.type) is None:
        return None
    if data_type.this in exp.DataType.NUMERIC_TYPES:
        return NUMBER
    if data_type.this in exp.DataType.TEXT_TYPES:
        return TEXT
    return _NAMES.get(data_type.this.name)
