"""Analyses are run as a report runs them where the data is little."""

import pytest

from trimaran.spark.analyses.running import INTERPRETED, _settings


@pytest.fixture
def spark(spark):
    """Queries are not compiled: that costs more than to run them."""
    with _settings(spark, INTERPRETED):
        yield spark
