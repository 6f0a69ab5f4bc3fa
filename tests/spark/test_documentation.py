"""The pages of tables and options are generated."""

from pathlib import Path

from trimaran.spark.documentation import options_page, page, shown_views
from trimaran.spark.sources import VIEWS

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_page_matches_registry():
    assert (DOCS / "spark_tables.md").read_text() == page()


def test_page_of_options_matches_decisions():
    assert (DOCS / "spark_options.md").read_text() == options_page()


def test_every_view_is_documented():
    derived = {
        "replica_batches",
        "compacted_records",
        "metadata_batches_all",
    }  # the same columns, other options
    assert {view.name for view in shown_views()} == set(VIEWS) - derived
