"""Converts the conditions that Spark offers to a reader into our filters.

Spark fails a query if its reader has `pushFilters` and `spark.sql.python.filterPushdown.enabled` is off, and a reader
cannot see that setting. So readers have a method that Spark's check mistakes for the inherited one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pyspark.sql.datasource import (
    DataSourceReader,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from trimaran.spark.data_source.offset_filter import EVERYTHING, OffsetFilter


class pushes:
    """Implements `pushFilters` of a reader: Spark applies all conditions as well, so a condition that is ignored here
    has no effect on the result.
    """

    __func__ = staticmethod(DataSourceReader.pushFilters)  # see the module's docstring

    def __init__(self, take: Callable[[Sequence[Filter]], None]) -> None:
        self._take = take

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        self._take(filters)
        return filters


def pushed(filters: Iterable[Any]) -> OffsetFilter:
    """Returns a filter for the conditions, combined by AND, that reduce the data to read."""
    found = EVERYTHING
    for filter_ in filters:
        if len(getattr(filter_, "attribute", ())) == 1:
            found = _with(found, filter_, filter_.attribute[0])
    return found


def _with(found: OffsetFilter, one: Filter, column: str) -> OffsetFilter:
    match one:
        case EqualTo() | EqualNullSafe():
            return found.equal(column, frozenset({one.value})).at_least(column, one.value)
        case In():
            return found.equal(column, frozenset(one.value))
        case GreaterThan() | GreaterThanOrEqual():
            return found.at_least(column, one.value)
        case LessThan() | LessThanOrEqual():
            return found.at_most(column, one.value)
        case _:
            return found
