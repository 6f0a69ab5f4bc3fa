"""The page of tables is generated from the registry."""

from pathlib import Path

from trimaran.spark.documentation import page, shown_views
from trimaran.spark.sources import VIEWS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "spark_tables.md"


def test_page_matches_registry():
    assert PAGE.read_text() == page()


def test_every_view_is_documented():
    derived = {"replica_batches", "metadata_batches_all"}  # the same columns, other options
    assert {view.name for view in shown_views()} == set(VIEWS) - derived
