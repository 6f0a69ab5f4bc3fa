"""Analyses run as a report runs them on little data."""

import pytest

from trimaran.spark.analyses.running import INTERPRETED, _settings


@pytest.fixture
def spark(spark):
    """Yields a session that does not compile queries, since compiling takes longer than running them."""
    with _settings(spark, INTERPRETED):
        yield spark
