"""`docs/compatibility.md` agrees with the runs of suites and clients (`REWRITE_TRANSCRIPTS=1` writes it)."""

from tests import datadriven
from tests.interop.suites import page, results
from tests.interop.suites.gaps import GAPS, ON_KAFKA
from tests.interop.suites.variants import VARIANTS


def test_page_matches_the_results():
    before, _, _ = page.PAGE.read_text().partition(page.HEADING)
    if datadriven.REWRITE:
        page.PAGE.write_text(before + page.section())
    assert page.PAGE.read_text() == before + page.section()


def test_gaps_and_reasons_match_each_other():
    for suite in (*page.SUITES, *VARIANTS):
        ours = {
            name: states.get("ours", results.SKIPPED)
            for name, states in results.load(suite.NAME).items()
        }
        assert ours, suite.NAME
        assert set(results.below_kafka(suite.NAME, ours)) == set(GAPS.get(suite.NAME, {}))
        failed_there = {
            name
            for name, states in results.load(suite.NAME).items()
            if states.get("kafka") == results.FAILED
        }
        assert failed_there == set(ON_KAFKA.get(suite.NAME, {}))
