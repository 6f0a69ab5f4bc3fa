"""Analyses run in the engine of this process; `test_both_engines.py` repeats each in Spark."""

import pytest

from tests.spark.analyses.given import InDuckDB
from trimaran.spark.in_process.database import database


@pytest.fixture(scope="module")
def engine():
    """Yields the maker of tables of one database."""
    pytest.importorskip("duckdb")
    with database() as opened:
        yield InDuckDB(opened)
