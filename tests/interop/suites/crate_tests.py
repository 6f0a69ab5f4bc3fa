"""The integration tests in a crate: fetches them, builds them once in the cache, runs them, and parses the outcomes."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.interop.apache_kafka import CACHE
from tests.interop.suites.building import BUILD_SECONDS_MAX, change, command

# The build includes librdkafka; its C code takes minutes to compile. Most tests spend their time waiting.
AT_ONCE = 4
_OUTCOME = re.compile(r"^test (\S+)(?: - should panic)? \.\.\. (ok|FAILED|ignored)", re.MULTILINE)
_STATES = {"ok": "passed", "FAILED": "failed", "ignored": "skipped"}
MANIFEST = """[package]
name = "suite"
version = "1.0.0"
edition = "2021"

[lib]
path = "empty.rs"

[dependencies]
{name} = {{ version = "={version}", default-features = false }}
"""


@dataclass(frozen=True)
class Crate:
    """A crate with tests, built with these features, and with `changes` of its files. `newer` has versions of
    dependencies by name, in place of published ones that do not compile.
    """

    name: str
    version: str
    features: tuple[str, ...] = ()
    newer: Mapping[str, str] = field(default_factory=dict)
    changes: tuple[tuple[str, str, str], ...] = ()

    def folder(self) -> Path:
        """Returns the folder with the source, in which the tests are built with the crate's own lock file."""
        base = CACHE / f"{self.name}-{self.version}"
        source, complete = base / "source", base / "complete"
        changed = repr(self.changes) if self.changes else ""
        if not complete.exists() or complete.read_text() != changed:
            shutil.rmtree(base, ignore_errors=True)
            self._copy(base, source)
            change(source, self.changes)
            done = self._cargo(source, "--test=*", "--no-run", timeout=BUILD_SECONDS_MAX)
            assert done.returncode == 0, done.stdout[-3000:]
            complete.write_text(changed)
        return source

    def _copy(self, base: Path, source: Path) -> None:
        base.mkdir(parents=True)
        (base / "empty.rs").touch()
        (base / "Cargo.toml").write_text(MANIFEST.format(name=self.name, version=self.version))
        command("cargo", "vendor", "-q", "crates", folder=base)
        (base / "crates" / self.name).rename(source)
        # The other crates were resolved without the crate's own lock file.
        shutil.rmtree(base / "crates")
        (base / "Cargo.toml").unlink()
        # Any installed compiler is acceptable.
        (source / "rust-toolchain.toml").unlink(missing_ok=True)
        for name, version in self.newer.items():
            command("cargo", "update", "-p", name, "--precise", version, folder=source)

    def _cargo(
        self,
        source: Path,
        *options: str,
        environ: Mapping[str, str] | None = None,
        timeout: int,
    ) -> subprocess.CompletedProcess[str]:
        features = [f"--features={','.join(self.features)}"] if self.features else []
        return subprocess.run(
            ("cargo", "test", "--locked", *features, *options), cwd=source, env=environ,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
            check=False, timeout=timeout,
        )  # fmt: skip

    def run(
        self,
        work: Path,
        environ: Mapping[str, str],
        seconds_max: int,
        only: Iterable[str] = (),
    ) -> dict[str, str]:
        """Returns the states of tests by file and function; `only` are parts of names. Output stays in `work`."""
        source = self.folder()
        found: dict[str, str] = {}
        for file in sorted((source / "tests").glob("*.rs")):
            options = (f"--test={file.stem}", "--", f"--test-threads={AT_ONCE}", *only)
            done = self._cargo(source, *options, environ=environ, timeout=seconds_max)
            (work / f"{file.stem}.log").write_text(done.stdout)
            found |= {f"{file.stem}::{n}": _STATES[o] for n, o in _OUTCOME.findall(done.stdout)}
        return found
