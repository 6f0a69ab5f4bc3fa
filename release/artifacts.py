"""The files of a release, each built from an export of one commit, in which the changelog is cut: what is not committed
is in none of them.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tarfile
from datetime import UTC, datetime
from pathlib import Path

from release.bill_of_materials import bill, pins
from release.changelog import ReleaseRefused

SUMS = "SHA256SUMS"
PLUGIN = Path("distributions", "pytest-trimaran")
# cibuildwheel builds for these; a wheel for this machine is built here.
PLATFORMS = ("linux", "macos")


def run(*command: str | Path, **options: object) -> str:
    """Returns the output of a command; its errors go to the terminal."""
    words = [str(word) for word in command]
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, **options).stdout  # type: ignore[call-overload,no-any-return]


def export(repository: Path, commit: str, target: Path) -> None:
    """Writes the files of a commit to `target`, without git."""
    target.mkdir(parents=True)
    archive = subprocess.run(
        ["git", "-C", str(repository), "archive", "--format=tar", commit],
        check=True,
        stdout=subprocess.PIPE,
    )
    subprocess.run(["tar", "-x", "-C", str(target)], input=archive.stdout, check=True)


def build_distributions(tree: Path, out: Path, version: str, at: datetime, *options: str) -> None:
    """Builds a source distribution and a wheel of both distributions; the wheel with compiled parts is repaired, so
    that it runs on other Linux systems. `options` are those of `python -m build`.
    """
    constraints = str(tree / "constraints.txt")
    environment = os.environ | {
        "SETUPTOOLS_SCM_PRETEND_VERSION": version,
        "SOURCE_DATE_EPOCH": str(int(at.timestamp())),
        "PIP_CONSTRAINT": constraints,
        "PIP_BUILD_CONSTRAINT": constraints,
    }
    built = out / "built"
    for folder in (tree, tree / PLUGIN):
        command = (sys.executable, "-m", "build", "-o", built, *options, folder)
        run(*command, env=environment)
    for path in built.iterdir():
        if sys.platform == "linux" and path.suffix == ".whl" and "-none-any" not in path.name:
            repair = ("auditwheel", "repair", "-w", out, path)
            run(sys.executable, "-m", *repair, env=environment)
            path.unlink()
        else:
            path.rename(out / path.name)
    built.rmdir()


def other_wheels(tree: Path) -> list[str]:
    """Returns the wheels that cibuildwheel would build, by its identifiers: its configuration is valid."""
    found = []
    for platform in PLATFORMS:
        command = ("cibuildwheel", "--platform", platform, "--print-build-identifiers", tree)
        found += run(sys.executable, "-m", *command, cwd=tree).split()
    return found


def check_image_context(source: Path) -> None:
    """Checks that the source distribution, from which the image is built, has the files that this needs.

    Raises:
        ReleaseRefused: one of them is not there.
    """
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    needed = {"Containerfile", ".dockerignore", "PKG-INFO", "constraints.txt", "pyproject.toml"}
    needed |= {"setup.py", "trimaran/log/__init__.py", "trimaran/wire/codec/native.py"}
    if missing := needed - names:
        lacking = ", ".join(sorted(missing))
        raise ReleaseRefused(f"the source distribution lacks {lacking}: see MANIFEST.in")


def write_bills(tree: Path, out: Path, version: str, at: datetime) -> None:
    locked = pins((tree / "constraints.txt").read_text())
    for name in ("trimaran", "pytest-trimaran"):
        (out / f"{name}-{version}.cdx.json").write_text(bill(name, version, locked, at))


def write_sums(folder: Path) -> list[str]:
    """Writes the checksums of the files in a folder, as `sha256sum -c` reads them; returns the names of the files."""
    names = sorted(p.name for p in folder.iterdir() if p.is_file() and p.name != SUMS)
    lines = [
        f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}" for name in names
    ]
    (folder / SUMS).write_text("\n".join(lines) + "\n")
    return names


def commit_time(repository: Path) -> datetime:
    seconds = run("git", "-C", repository, "log", "-1", "--format=%ct")
    return datetime.fromtimestamp(int(seconds), UTC)
