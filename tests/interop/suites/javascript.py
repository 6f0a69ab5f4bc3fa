"""Shared parts of the suites in JavaScript: npm packages in a folder, and jest with its output."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tests.interop.apache_kafka import CACHE
from tests.interop.suites.building import command

# The number of parallel test files, which spend most of their time waiting, and have their own topics and groups.
AT_ONCE = 6


def install(folder: Path, *packages: str) -> None:
    """Installs packages, each with its version, into `folder/node_modules`, without running their scripts."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "package.json").write_text('{"name": "suite", "version": "1.0.0", "private": true}')
    command("npm", "install", "--silent", "--ignore-scripts", *packages, folder=folder)


def link_modules(name: str, package: str, folder: Path) -> None:
    """Links `node_modules` with one package into the folder of a program; they are fetched once, under `name`."""
    modules = CACHE / name / "node_modules"
    if not (modules / ".package-lock.json").exists():
        install(modules.parent, package)
    (folder / "node_modules").symlink_to(modules)


def headers() -> dict[str, str]:
    """Returns the environment in which addons are compiled with the headers next to `node`; without these they would be
    fetched.
    """
    prefix = Path(shutil.which("node") or "").resolve().parents[1]
    beside = (prefix / "include" / "node" / "node.h").exists()
    return {**os.environ, **({"npm_config_nodedir": str(prefix)} if beside else {})}


def be_patient(folder: Path, times: int) -> None:
    """Multiplies the timeouts of jest tests, which their authors chose for a dedicated machine."""
    for file in folder.rglob("*.spec.js"):
        text = re.sub(
            r"(?m)(\bjest\.setTimeout\(|^ *\}, ?|^ +)(\d{4,6})(?=\)?;?$)",
            lambda found: f"{found[1]}{int(found[2]) * times}",
            file.read_text(),
        )
        file.write_text(text)


def jest(
    program: Path,
    folder: Path,
    work: Path,
    environ: Mapping[str, str],
    options: Sequence[str],
    only: Iterable[str],
    seconds_max: float,
) -> dict[str, str]:
    """Returns the states of the tests that jest finds in `folder`, by file and name; `only` are parts of names. The
    output stays in `work`.
    """
    report = work / "report.json"
    chosen = ["--testNamePattern", "|".join(only)] if only else []
    words = [program, "--ci", "--forceExit", "--json", f"--outputFile={report}", *options, *chosen]
    with (work / "jest.log").open("wb") as log:
        subprocess.run(
            words, cwd=folder, env=environ, stdout=log, stderr=log, check=False, timeout=seconds_max
        )
    return _states(json.loads(report.read_text()), folder, bool(chosen))


def _states(report: dict, folder: Path, chosen: bool) -> dict[str, str]:
    found: dict[str, str] = {}
    for file in report["testResults"]:
        name = Path(file["name"]).relative_to(folder.resolve())
        if not file["assertionResults"]:  # the file could not be loaded
            found[str(name)] = "failed"
        for assertion_result in file["assertionResults"]:
            state = (
                assertion_result["status"]
                if assertion_result["status"] in ("passed", "failed")
                else "skipped"
            )
            if state == "skipped" and chosen:
                continue
            test = f"{name}::{assertion_result['fullName']}"
            # The worst outcome counts, if tests have the same name.
            found[test] = "failed" if "failed" in (state, found.get(test)) else state
    return found
