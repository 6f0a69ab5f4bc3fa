"""`docs/compatibility.md` agrees with the runs of suites and clients (`REWRITE_TRANSCRIPTS=1` writes it)."""

from tests import datadriven
from tests.interop.suites import page, platformatic_kafka, results
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


def test_whole_run_forgets_tests_that_are_gone(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    results.keep("suite", "kafka", {"gone": "passed", "a": "passed"}, whole=True)
    results.keep("suite", "ours", {"gone": "passed", "a": "failed", "b": "failed"}, whole=True)
    results.keep("suite", "ours", {"b": "passed"}, whole=False)
    found = {"gone": {"kafka": "passed"}, "a": {"kafka": "passed", "ours": "failed"}}
    gone = {"gone": {"kafka": "passed", "ours": "passed"}}
    assert results.load("suite") == found | gone | {"b": {"ours": "passed"}}
    results.keep("suite", "ours", {"a": "failed"}, whole=True)
    assert results.load("suite") == found


def test_files_without_chosen_tests_are_no_results(tmp_path):
    report = tmp_path / "report.xml"
    report.write_text(
        '<testsuites><testcase name="test/a.test.ts"/><testcase name="chosen"/>'
        '<testcase name="test/b.test.ts"><failure/></testcase></testsuites>'
    )
    found = platformatic_kafka._states(report, tmp_path)
    assert found == {"::chosen": "passed", "::test/b.test.ts": "failed"}
