"""The first pages of the manual, as a new user follows them: docs/five_minutes.md, typed into a shell, and the programs
in Python of docs/first_programs.md. `tests/interop/test_first_programs.py` runs the programs in other languages.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.interop.manual import blocks, write_programs
from trimaran.testing import EmbeddedKafka

PROGRAMS = "first_programs.md"
WRITTEN = "".join(f"orders-0 at {offset}\n" for offset in range(3))
READ = "".join(f"alice order {number}\n" for number in range(3))
# The output of a command, by its first words.
SHOWN = {
    "trimaran up -d": "ready in",
    "trimaran consume": "bob:1 pear\n",
    "trimaran groups lag": "billing",
    "trimaran chaos kill": "killed broker-11",
    "trimaran partitions history": "LEADER",
    "trimaran metadata tail": "PartitionChangeRecord",
}
PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


def typed(line, folder, *, check=True):
    """Runs a line in a shell and returns its output."""
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", line],
        cwd=folder,
        env={**os.environ, "PATH": PATH},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0 or not check, (line, said)
    return said


@pytest.mark.slow(seconds=10)
@pytest.mark.cluster
def test_first_commands_work_as_on_the_page(tmp_path):
    lines = [line for block in blocks("five_minutes.md") for line in block.splitlines()]
    assert [text for text in SHOWN if not any(line.startswith(text) for line in lines)] == []
    try:
        for line in lines:
            said = typed(line, tmp_path)
            assert [
                text for words, text in SHOWN.items() if line.startswith(words) and text not in said
            ] == [], (line, said)
    finally:
        typed("trimaran purge -y", tmp_path, check=False)
    assert "deleted" in said


@pytest.mark.slow
def test_first_programs_in_python_write_and_read(tmp_path):
    with EmbeddedKafka() as kafka:
        write_programs(PROGRAMS, "python", tmp_path, kafka.bootstrap)
        kafka.create_topic("orders")
        assert typed("python producer.py", tmp_path) == WRITTEN
        assert typed("python consumer.py", tmp_path) == READ
