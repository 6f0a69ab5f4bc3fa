"""The recipes of docs/testing.md, verbatim; tests/interop/test_recipe.py runs those for a JVM and Spark."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[3] / "docs" / "testing.md"
JVM, SPARK = "5", "8"


def recipes():
    """Returns programs by the number in their heading."""
    found = re.findall(
        r"^### (\d)\. .*?```python\n(.*?)```", PAGE.read_text(), re.DOTALL | re.MULTILINE
    )
    return dict(found)


def run(path, programs, **options):
    for number, program in programs.items():
        (path / f"test_recipe_{number}.py").write_text(program)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    done = subprocess.run(
        [*command, path], cwd=path, capture_output=True, text=True, check=False, **options
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow(seconds=15)
@pytest.mark.cluster
def test_recipes_work(tmp_path):
    programs = recipes()
    assert sorted(programs) == list("12345678")
    for number in (JVM, SPARK):
        del programs[number]
    assert f"{len(programs)} passed" in run(tmp_path, programs)
