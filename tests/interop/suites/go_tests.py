"""The tests in a Go module: fetches them, builds them once into the cache, runs them, and parses the outcomes."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.interop.apache_kafka import CACHE
from tests.interop.suites.building import change, command

_OUTCOME = re.compile(r"^ *--- (PASS|FAIL|SKIP): (\S+) \(", re.MULTILINE)
_STARTED = re.compile(r"^=== RUN +(\S+)$", re.MULTILINE)
_STATES = {"PASS": "passed", "FAIL": "failed", "SKIP": "skipped"}


@dataclass(frozen=True)
class Package:
    """A package of a module; its tests are built with build tags, and with `changes` of its files. `name` is its folder
    in the cache.
    """

    name: str
    module: str
    version: str
    path: str = "."
    tags: str = ""
    changes: tuple[tuple[str, str, str], ...] = ()

    def folder(self) -> Path:
        """Returns the package's own folder, in which its tests must run; it contains the built program `kafka.test`."""
        base = CACHE / f"{self.name}-{self.version}"
        source, complete = base / "source", base / "complete"
        changed = repr(self.changes) if self.changes else ""
        if not complete.exists() or complete.read_text() != changed:
            shutil.rmtree(base, ignore_errors=True)
            self._copy(base, source)
            change(source / self.path, self.changes)
            complete.write_text(changed)
        folder = source / self.path
        if not (folder / "kafka.test").exists():
            tags = (f"-tags={self.tags}",) if self.tags else ()
            command("go", "test", "-c", "-mod=mod", *tags, "-o", "kafka.test", ".", folder=folder)
        return folder

    def _copy(self, base: Path, source: Path) -> None:
        base.mkdir(parents=True)
        command("go", "mod", "init", "suite", folder=base)
        command("go", "mod", "download", f"{self.module}@v{self.version}", folder=base)
        modules = command("go", "env", "GOMODCACHE", folder=base).strip()
        # The module cache escapes each capital letter with "!".
        kept = re.sub("[A-Z]", lambda capital: f"!{capital[0].lower()}", self.module)
        shutil.copytree(f"{modules}/{kept}@v{self.version}", source)
        for path in (source, *source.rglob("*")):
            path.chmod(path.stat().st_mode | 0o200)

    def run(
        self,
        log: Path,
        environ: Mapping[str, str],
        seconds_max: int,
        *,
        only: Iterable[str] = (),
        options: Sequence[str] = (),
    ) -> dict[str, str]:
        """Returns the states by the names of tests and of subtests; `only` are names of tests."""
        folder = self.folder()
        chosen = [f"-test.run=^({'|'.join(only)})$"] if only else []
        with log.open("wb") as output:
            subprocess.run(
                [str(folder / "kafka.test"), "-test.v", f"-test.timeout={seconds_max}s",
                 *chosen, *options],
                cwd=folder, env=dict(environ), stdout=output, stderr=output, check=False,
                timeout=seconds_max + 30,
            )  # fmt: skip
        return outcomes(log.read_text(errors="replace"))


def outcomes(text: str) -> dict[str, str]:
    """Returns the states by name from the output of `go test -v`."""
    # Tests without an outcome were running when the run crashed or timed out.
    found = dict.fromkeys(_STARTED.findall(text), "failed")
    return found | {name: _STATES[outcome] for outcome, name in _OUTCOME.findall(text)}


def whole(states: Mapping[str, str]) -> dict[str, str]:
    """Returns the states of tests, without those of subtests."""
    return {name: state for name, state in states.items() if "/" not in name}
