"""franz-go, the client of Go; built once into the cache, where there is a Go to build it with."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.interop.apache_kafka import CACHE

SOURCES = Path(__file__).parent
SECONDS_MAX = 300


def why_not() -> str | None:
    """Why it cannot be built here; None when it can."""
    return None if shutil.which("go") else "needs go on the PATH"


def program() -> Path:
    """What sends a record and reads it; `main.go` says by which arguments."""
    built = CACHE / "franz-go" / "there-and-back"
    built.parent.mkdir(parents=True, exist_ok=True)
    command = ["go", "build", "-o", str(built), "."]
    subprocess.run(command, cwd=SOURCES, check=True, timeout=SECONDS_MAX, capture_output=True)
    return built


def there_and_back(*arguments: str) -> str:
    """What it has read; raises AssertionError with its complaints when it fails."""
    done = subprocess.run(
        [str(program()), *arguments], capture_output=True, text=True, timeout=90, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
