"""`./dev fuzz TARGET|all [--minutes N] [--update]`: fuzzes with atheris (`pip install -e .[fuzz]`), from the corpus on.

A finding is printed with its traceback and kept as a file; the exit status is then 1. `--update` rebuilds the corpus:
it keeps those inputs (seeds, old corpus, findings) that together reach the same code.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.fuzz import corpus
from tests.fuzz.targets import TARGETS

INPUT_BYTES_MAX = 4096
# Wall time: the first input of a message waits for its codec to be generated and instrumented, on a machine that may be
# busy.
UNIT_SECONDS_MAX = 60


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev fuzz", description=__doc__)
    parser.add_argument("target", choices=[*TARGETS, "all"])
    parser.add_argument("--minutes", type=float, default=1.0, help="of each target (default 1)")
    parser.add_argument("--update", action="store_true", help="make the corpus again")
    parser.add_argument(
        "--findings", type=Path, default=Path("build/fuzz"), help="where they are kept"
    )
    options = parser.parse_args()
    if importlib.util.find_spec("atheris") is None:
        print("fuzz: atheris is not installed: pip install -e '.[fuzz]'", file=sys.stderr)
        return 2
    options.findings.mkdir(parents=True, exist_ok=True)
    chosen = list(TARGETS) if options.target == "all" else [options.target]
    return max(fuzz(name, options) for name in chosen)


def fuzz(target: str, options: argparse.Namespace) -> int:
    """Runs one target in a separate process; returns 1 if there is a finding."""
    with tempfile.TemporaryDirectory() as folder:
        known = corpus.load(target) if corpus.path_of(target).exists() else []
        for number, data in enumerate({*corpus.seeds(target), *known}):
            Path(folder, str(number)).write_bytes(data)
        limits = [f"-max_total_time={round(options.minutes * 60)}", f"-max_len={INPUT_BYTES_MAX}"]
        keep = f"-artifact_prefix={options.findings}/{target}-"
        status = run(
            target, *limits, keep, f"-timeout={UNIT_SECONDS_MAX}", "-print_final_stats=1", folder
        )
        if options.update and status == 0:
            corpus.store(target, [path.read_bytes() for path in Path(folder).iterdir()])
        return min(status, 1)


def run(target: str, *arguments: str) -> int:
    print(f"fuzz: {target} {' '.join(arguments)}", file=sys.stderr, flush=True)
    return subprocess.run(
        [sys.executable, "-m", "tests.fuzz.guided", target, *arguments], check=False
    ).returncode


if __name__ == "__main__":
    raise SystemExit(main())
