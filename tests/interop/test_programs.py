"""Small runs of programs that pages name: those that need Apache Kafka, or more than two seconds."""

import pytest

from tests.programs.small_runs import ROWS, Run

RUNS = [row for _, row in ROWS if isinstance(row, Run) and not row.in_ci]


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.words)
def test_program_runs_at_small_scale(run, tmp_path):
    run.check(tmp_path)
