"""The registry of tables, and the lists that must agree with it."""

import pytest

from trimaran.spark.kafka_metadata.registry import TABLES
from trimaran.spark.sources import METADATA_TABLES

PLANS = {"node", "whole", "events", "image", "snapshots"}


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_every_column_is_documented(table):
    names = [column.name for column in table.columns]
    assert len(set(names)) == len(names)
    assert all(column.doc for column in table.columns)
    assert table.plan in PLANS
    assert table.doc.endswith(".")


def test_views_include_every_table():
    assert sorted(METADATA_TABLES) == sorted(TABLES)
