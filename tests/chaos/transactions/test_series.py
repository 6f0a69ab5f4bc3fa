"""A series counts each run once, resumes after an interrupt, and continues after a run without a valid outcome."""

import sys

import pytest

from tests.chaos.transactions import series
from tests.chaos.transactions.series import Series

PROGRAMS = {
    1: "print('seen nothing wrong')",
    2: "print('lost 1'); raise SystemExit(1)",
    3: "print('a client does not come to its end'); raise SystemExit(3)",
}


@pytest.fixture
def programs(monkeypatch):
    """Sets the commands that are run for each seed."""
    found = dict(PROGRAMS)

    def command_of(_module, _system, seed, _data):
        return [sys.executable, "-c", found[seed]]

    monkeypatch.setattr(series, "command_of", command_of)
    return found


def results(played):
    return {seed: value.result for seed, value in played.played.items()}


def test_outcome_of_each_run_is_printed(programs, capsys):
    played = Series("ours", None)
    played.play(programs, 2)
    assert results(played) == {1: "ok", 2: "failed", 3: "client hung"}
    assert not played.all_ok
    assert played.summary().startswith("ours: 3 runs: 1 ok, 1 failed, 1 client hung; ")
    said = capsys.readouterr().out
    assert "ours seed 1: ok  seen nothing wrong  (" in said
    assert "ours seed 2: FAILED  lost 1; its data: " in said
    assert "ours seed 3: CLIENT HUNG  a client does not come to its end" in said


def test_interrupted_series_resumes_without_repetition(programs, tmp_path):
    ledger = tmp_path / "ledger"
    Series("ours", ledger).play([1, 2], 1)
    programs[1] = programs[2] = "raise SystemExit('played again')"
    programs[3] = PROGRAMS[1]
    played = Series("ours", ledger)
    played.play([1, 2, 3], 1)
    assert results(played) == {1: "ok", 2: "failed", 3: "ok"}
    assert len(ledger.read_text().splitlines()) == 3
    other = Series("kafka", ledger)
    assert results(other) == {}, "another system has runs of its own"


def test_run_that_does_not_end_is_killed(programs):
    programs[1] = "import time; time.sleep(600)"
    played = Series("ours", None, seconds_max=0.5)
    played.play([1], 1)
    assert results(played) == {1: "client hung"}
    assert not played.all_ok
