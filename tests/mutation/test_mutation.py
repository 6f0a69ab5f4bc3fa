"""A run finds the planted survivors and kills the other planted mutants; justified survivors are compared with the
actual ones.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutation.mutants import mutants_of
from tests.mutation.running import KILLED, SURVIVED
from tests.mutation.survivors import Argued, judge, read

ROOT = Path(__file__).resolve().parent.parent.parent
PLANTED = "tests/mutation/planted/limits.py"
MODULE = "tests.mutation.planted.limits"
SURVIVORS = {
    f"{MODULE}:half_held  value > 5 -> value >= 5",
    f"{MODULE}:half_held  value > 5 -> value > 6",
    f"{MODULE}:unreached  value < 0 -> value <= 0",
    f"{MODULE}:unreached  value < 0 -> value >= 0",
    f"{MODULE}:unreached  value < 0 -> value < 1",
}
ARGUED = f"""
[[survivor]]
where = "{MODULE}:half_held"
changes = ["value > 5 -> value >= 5", "value > 5 -> value > 6"]
why = "planted"

[[survivor]]
where = "{MODULE}:unreached"
changes = ["value < 0 -> value <= 0", "value < 0 -> value >= 0", "value < 0 -> value < 1"]
why = "planted"
"""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.mutation", *arguments, "--patience", "2"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.slow
def test_only_planted_survivors_are_found(tmp_path):
    nothing = tmp_path / "survivors.toml"
    nothing.write_text("")
    done = run(
        PLANTED, "--tests", "tests/mutation/planted", "--survivors", str(nothing), "--verbose"
    )
    told = done.stdout.splitlines()
    assert {line.removeprefix("survivor: ") for line in told if "survivor: " in line} == SURVIVORS
    assert any(line.startswith("not run") and "ONLY_IN_A_CLASS" in line for line in told)
    assert any(line.startswith("timed out") and ":counted" in line for line in told)
    count = len(mutants_of(ROOT / PLANTED, MODULE))
    killed = count - 1 - len(SURVIVORS)
    assert any(f"{count - 1} mutants, {killed} killed" in line for line in told), done.stdout
    assert done.returncode == 1


@pytest.mark.slow
def test_argued_survivors_do_not_fail_the_run(tmp_path):
    argued = tmp_path / "survivors.toml"
    argued.write_text(ARGUED)
    only = ("--only", "half_held", "--tests", "tests/mutation/planted")
    done = run(PLANTED, *only, "--survivors", str(argued))
    assert "2 survivors are argued for" in done.stdout
    assert "survivor: " not in done.stdout
    assert done.returncode == 0


def test_argued_survivors_exist():
    """Otherwise the code has changed, and the reason may no longer hold."""
    entries = read()
    places = {entry.where for entry in entries}
    modules = {place.partition(":")[0] for place in places}
    paths = {module: ROOT.joinpath(*module.split(".")).with_suffix(".py") for module in modules}
    names = {m.name for module, path in paths.items() for m in mutants_of(path, module, places)}
    assert [name for entry in entries for name in entry.names() if name not in names] == []


def test_killed_or_missing_entry_is_reported():
    mutants = mutants_of(ROOT / PLANTED, MODULE)
    first, second = mutants[0], mutants[1]
    entries = [
        Argued(first.where, (first.change, "no such change"), "it was so once"),
        Argued(second.where, (second.change,), "so it is"),
        Argued("another.room:function", ("a < b -> a <= b",), "not looked at"),
    ]
    verdict = judge(mutants, {first.name: KILLED, second.name: SURVIVED}, entries)
    assert verdict.killed == [first.name]
    assert verdict.gone == [f"{first.where}  no such change"]
    assert (verdict.argued, verdict.unargued) == ([second.name], [])
