"""Shared parts of the suites in Python: an environment with pinned packages, and pytest with its output."""

from __future__ import annotations

import shutil
import subprocess
import venv
from collections.abc import Iterable, Mapping
from pathlib import Path
from xml.etree import ElementTree as ET

from tests.interop.suites.building import command


def environment(folder: Path, *packages: str) -> Path:
    """Returns the interpreter of an environment in `folder` with these packages, each with its version; it is created
    once.
    """
    python = folder / "venv" / "bin" / "python"
    complete = folder / "complete"
    if not complete.exists():
        shutil.rmtree(folder, ignore_errors=True)
        venv.create(folder / "venv", with_pip=True)
        command(str(python), "-m", "pip", "-q", "install", *packages, folder=folder)
        complete.touch()
    return python


def pytest(
    python: Path,
    folder: Path,
    work: Path,
    environ: Mapping[str, str],
    options: Iterable[str],
    only: Iterable[str],
    seconds_max: float,
) -> dict[str, str]:
    """Returns the states of the tests that pytest finds in `folder`; `only` are parts of names. The output stays in
    `work`.
    """
    report = work / "report.xml"
    chosen = ["-k", " or ".join(only)] if only else []
    words = ["-p", "no:cacheprovider", "-q", f"--junitxml={report}", *options, *chosen]
    with (work / "pytest.log").open("wb") as log:
        subprocess.run(
            [python, "-m", "pytest", *words], cwd=folder, env=environ, stdout=log, stderr=log,
            check=False, timeout=seconds_max,
        )  # fmt: skip
    return states(report)


def states(report: Path) -> dict[str, str]:
    """Returns `passed`, `failed` or `skipped` by file and name of each test."""
    found = {}
    for case in ET.parse(report).iter("testcase"):
        outcomes = {part.tag for part in case}
        name = f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}"
        if outcomes & {"failure", "error"}:
            found[name] = "failed"
        else:
            found[name] = "skipped" if "skipped" in outcomes else "passed"
    return found
