"""Runs a program that builds or fetches a suite."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
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
