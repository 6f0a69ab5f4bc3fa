"""Commands in pages can be run: each program has a small run, and `trimaran` accepts each of its commands."""

import re

import pytest
from cyclopts import CycloptsError

from tests.checks import check_each
from tests.programs.named import BENCH_NAMES, PAGES, ROOT, WAYS, commands, programs
from tests.programs.small_runs import PYTHON, ROWS, Elsewhere, Run
from trimaran.cli.app import build

IN_CI = [row for _, row in ROWS if isinstance(row, Run) and row.in_ci]


def test_programs_in_text_are_named_by_kind():
    text = "`./dev simulate --seed 4 --partitions`, `./dev bench quotas [--only ours]` | python -m a.b N"
    assert programs(text) == {"dev simulate --partitions --seed", "dev bench quotas", "a.b"}


def test_commands_of_page_are_those_of_blocks():
    page = "`trimaran x`\n```\n$ sudo -u me trimaran a \\\n  -b < c > d | trimaran e # f\n```\n"
    assert list(commands(page)) == [["a", "-b"], ["e"]]


def test_every_documented_program_has_small_run():
    pages = [*PAGES, *(ROOT / "bench").rglob("*.py")]
    named = set().union(*(programs(page.read_text()) for page in pages))
    usage = (ROOT / "dev").read_text().partition("<<'TEXT'")[2].partition("\nTEXT")[0]
    verbs = {f"dev {verb}" for verb in re.findall(r"^  (\w+) ", usage, re.MULTILINE)}
    named |= (verbs - {"dev bench"}) | {f"dev bench {name}" for name in BENCH_NAMES}
    assert len(verbs) == 12
    assert named - {program for program, _ in ROWS} == set()


def test_every_way_of_a_verb_is_a_program():
    ways = re.findall(r"^ +(--\w+)\) exec", (ROOT / "dev").read_text(), re.MULTILINE)
    assert len(ways) > 3
    assert set(ways) <= {way for of_verb in WAYS.values() for way in of_verb}


def test_python_blocks_of_pages_are_run():
    assert {page.name for page in PAGES if "\n```python\n" in page.read_text()} == set(PYTHON)


def test_files_that_run_programs_elsewhere_exist():
    elsewhere = [row for _, row in ROWS if isinstance(row, Elsewhere)] + [*PYTHON.values()]
    check_each(elsewhere, lambda row: (ROOT / row.by).stat())


def test_files_named_for_pytest_exist():
    named = {
        path
        for page in PAGES
        for path in re.findall(r"pytest (?:-\S+ )*(tests/[\w/.]+)", page.read_text())
    }
    assert len(named) > 5
    check_each(named, lambda path: (ROOT / path).stat())


@pytest.mark.slow
def test_documented_commands_are_accepted_by_trimaran():
    app = build()
    typed = [words for page in PAGES for words in commands(page.read_text())]
    assert len(typed) > 140
    refused = []
    for words in typed:
        try:
            app.parse_args(words, exit_on_error=False, print_error=False)
        except CycloptsError as error:
            refused.append(f"{' '.join(words)}: {error}")
    assert refused == []


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.parametrize("run", IN_CI, ids=lambda run: run.words)
def test_a_program_runs_small(run, tmp_path):
    run.check(tmp_path)
