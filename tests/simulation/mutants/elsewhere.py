"""Whether a targeted test fails with a planted bug.

`python -m tests.simulation.mutants.elsewhere NAME TEST ...` has the exit status of pytest.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.simulation.coordinators.mutants import COORDINATORS
from tests.simulation.partitions.mutants import PARTITIONS


def is_killed_by(name: str, test: str) -> bool:
    """Runs `test`, a node id of pytest, in a process of its own, in which the bug called `name` is planted."""
    command = [sys.executable, "-m", "tests.simulation.mutants.elsewhere", name, test]
    status = subprocess.run(command, capture_output=True, check=False).returncode
    return status == pytest.ExitCode.TESTS_FAILED


def main(name: str, *tests: str) -> int:
    mutant = next(one for one in (*PARTITIONS, *COORDINATORS) if one.name == name)
    with mutant.patch():
        return pytest.main(["-q", "-x", "-p", "no:cacheprovider", *tests])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
