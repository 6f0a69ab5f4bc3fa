"""Runs a program that builds or fetches a suite, and changes a suite's copied source."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

BUILD_SECONDS_MAX = 1800


def command(*words: str, folder: Path, environ: Mapping[str, str] | None = None) -> str:
    """Runs a command in `folder` and returns its output; raises AssertionError with the output's end if it fails."""
    done = subprocess.run(
        words,
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=BUILD_SECONDS_MAX,
    )
    assert done.returncode == 0, f"{words}: {done.stdout[-1000:]}{done.stderr[-3000:]}"
    return done.stdout


def change(folder: Path, changes: Iterable[tuple[str, str, str]]) -> None:
    """Replaces text in files of a copied source; each change is a file, a text that it has, and the new text."""
    for name, old, new in changes:
        file = folder / name
        text = file.read_text()
        assert old in text, f"{file} has no {old}"
        file.write_text(text.replace(old, new))
