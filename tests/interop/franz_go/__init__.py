"""franz-go, a Go client; its programs are built once into the cache, if there is a Go compiler."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.interop.apache_kafka import CACHE

SOURCES = Path(__file__).parent
VERSION = "1.22.2"  # the version in go.mod
SECONDS_MAX = 300


def why_not() -> str | None:
    """Returns the reason why it cannot be built here; None if it can."""
    return None if shutil.which("go") else "needs go on the PATH"


def copy_module(folder: Path) -> None:
    """Copies the versions of the modules into the folder of another program."""
    for name in ("go.mod", "go.sum"):
        shutil.copy(SOURCES / name, folder)


def program(name: str, package: str) -> Path:
    """Returns the program built from a `main.go`; its first lines describe the arguments."""
    built = CACHE / "franz-go" / name
    built.parent.mkdir(parents=True, exist_ok=True)
    command = ["go", "build", "-o", str(built), package]
    subprocess.run(command, cwd=SOURCES, check=True, timeout=SECONDS_MAX, capture_output=True)
    return built


def _run(built: Path, *arguments: str) -> str:
    done = subprocess.run(
        [str(built), *arguments], capture_output=True, text=True, timeout=90, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def there_and_back(*arguments: str) -> str:
    """Returns the records that it sent and read; raises AssertionError with its error output if it fails."""
    return _run(program("there-and-back", "."), *arguments)


def read_in_rack(bootstrap: str, topic: str, rack: str, count: int) -> dict[int, int]:
    """Returns the number of records from each broker, at least `count` in total; raises like `there_and_back`."""
    lines = _run(program("rack", "./rack"), bootstrap, topic, rack, str(count)).splitlines()
    return {int(broker): int(given) for broker, given in map(str.split, lines)}
