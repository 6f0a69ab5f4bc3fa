"""The tests of franz-go's client kgo, as its Go module carries them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from tests.interop.apache_kafka import CACHE

NAME = "franz-go"
MODULE = "github.com/twmb/franz-go"
VERSION = "1.22.2"
NEEDS = ("go",)
BUILD_SECONDS_MAX = 600
RUN_SECONDS_MAX = 1500
# Of a test that moves many; 500,000 is what its authors take on machines that do nothing else.
RECORDS = 50_000
# Not served, so skipped by the tests themselves; some of that name need no broker.
APART = r"Share"
_OUTCOME = re.compile(r"^--- (PASS|FAIL|SKIP): (\w+) ", re.MULTILINE)
_STARTED = re.compile(r"^=== RUN +(\w+)$", re.MULTILINE)
_STATES = {"PASS": "passed", "FAIL": "failed", "SKIP": "skipped"}


def program() -> Path:
    """The tests of the package, built once; they must run in the package's folder."""
    folder = CACHE / f"franz-go-{VERSION}"
    built = folder / "kgo.test"
    if not built.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        _run(folder, "go", "mod", "init", "suite")
        _run(folder, "go", "mod", "download", f"{MODULE}@v{VERSION}")
        modules = _run(folder, "go", "env", "GOMODCACHE").strip()
        source = folder / "source"
        shutil.copytree(f"{modules}/{MODULE}@v{VERSION}", source)
        for path in (source, *source.rglob("*")):
            path.chmod(path.stat().st_mode | 0o200)
        _run(source, "go", "test", "-c", "-o", str(built), "./pkg/kgo")
    return built


def _run(folder: Path, *command: str) -> str:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=BUILD_SECONDS_MAX
    )
    assert done.returncode == 0, f"{command}: {done.stdout[-1000:]}{done.stderr[-3000:]}"
    return done.stdout


def run(
    bootstrap: str, work: Path, only: Iterable[str] = (), *, records: int = RECORDS
) -> dict[str, str]:
    """`passed`, `failed` or `skipped` by the name of each test; `only` are names. Their output stays in `work`."""
    built = program()
    environ = {
        **os.environ,
        "KGO_LOG_LEVEL": "none",
        "KGO_SEEDS": bootstrap,
        "KGO_TEST_RECORDS": str(records),
    }
    chosen = [f"-test.run=^({'|'.join(only)})$"] if only else []
    output = work / "kgo.log"
    with output.open("wb") as log:
        subprocess.run(
            [str(built), "-test.v", f"-test.timeout={RUN_SECONDS_MAX}s", *chosen],
            cwd=built.parent / "source" / "pkg" / "kgo",
            env=environ,
            stdout=log,
            stderr=log,
            check=False,
            timeout=RUN_SECONDS_MAX + 30,
        )
    text = output.read_text(errors="replace")
    # What was begun and has no outcome was under way when the tests crashed or their time was over.
    found = dict.fromkeys(_STARTED.findall(text), "failed")
    found |= {name: _STATES[outcome] for outcome, name in _OUTCOME.findall(text)}
    return {name: state for name, state in found.items() if not re.search(APART, name)}
