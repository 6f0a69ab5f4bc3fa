"""kio 0.5, the last version in pure Python, in a separate process, since both are called `kio`. Newer versions read
with a native module.

kio 0.5 lacks the newest version of some messages: it encodes and decodes the newest one that it has, with one or two
fields less.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.codec.cases import Case, cases
from bench.codec.peers import best_us, kio

RELEASE = "0.5.0"
FOLDER = Path(__file__).parents[2] / "build" / f"kio-{RELEASE}"
NEWEST = {"Fetch": 17, "Metadata": 12, "Produce": 11}


def why_not() -> str | None:
    """Installs it once, in a separate environment; returns the reason if that fails."""
    if FOLDER.exists():
        return None
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run = subprocess.run(
        [*install, "--no-deps", "--target", str(FOLDER), f"kio=={RELEASE}"], check=False
    )
    return f"pip could not install kio {RELEASE}" if run.returncode else None


def measure(chosen: Sequence[Case], seconds: float) -> dict[tuple[str, str, str], float]:
    """Returns µs by case, direction and "kio 0.5"."""
    run = subprocess.run(
        [
            sys.executable,
            "-m",
            "bench.codec.kio_in_python",
            str(seconds),
            *(c.name for c in chosen),
        ],
        env={"PYTHONPATH": f"{FOLDER}:{FOLDER.parents[1]}"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return {(name, direction, "kio 0.5"): us for name, direction, us in json.loads(run.stdout)}


def main() -> None:
    seconds, names = float(sys.argv[1]), sys.argv[2:]
    found = []
    for case in cases():
        if case.name not in names or case.kind == "record":
            continue
        older = case._replace(version=NEWEST[case.name.split()[0]])
        data = older.message.encode(older.version)
        codec = kio(older, data)
        assert codec is not None
        codec.decode()
        assert codec.encode() == data, f"kio writes {case.name} differently"
        us = best_us({"decode": codec.decode, "encode": codec.encode}, seconds)
        found += [(case.name, direction, us[direction]) for direction in us]
    print(json.dumps(found))


if __name__ == "__main__":
    main()
