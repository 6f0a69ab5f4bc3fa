"""README.md, typed into a shell as a new user would. Other tests cover: Spark (`tests/spark`), and the mirror in front
of another cluster.
"""

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.cluster.processes import ROOT
from tests.zkcompat.conftest import needs_zookeeper
from trimaran.errors.user_error import Exit
from trimaran.local.layout import FreePorts

PAGE = (ROOT / "README.md").read_text()
SECONDS_MAX = 120
ELSEWHERE = ("./dev ", ". .venv/", "trimaran analyze ")
# The expected output of a line, apart from its exit code.
SHOWN = {
    "trimaran up -d --zk": "ready in",
    "trimaran consume": "1000",
    "trimaran logs dump": "0 problems",
    "trimaran metrics": "underreplicated",
    "trimaran zk tree": "/brokers/topics/orders/partitions/5/state",
    "trimaran zk verify": "0 missing, 0 extra, 0 different",
}


def typed(beginning):
    """Returns the commands of the block that starts with `beginning`, without the output shown there."""
    (block,) = re.findall(rf"^```\n({re.escape(beginning)}.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    lines = block.replace("\\\n", " ").splitlines()
    shown = [line for line in lines if beginning.startswith("./") or line.startswith("$ ")]
    commands = [line.removeprefix("$ ") for line in shown]
    return [command for command in commands if not command.startswith(ELSEWHERE)]


@pytest.fixture
def shell(tmp_path):
    """Starts a command line in an empty directory, as after `. .venv/bin/activate`."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

    def start(command):
        return subprocess.Popen(
            ["bash", "-o", "pipefail", "-c", command],
            cwd=tmp_path,
            env={**os.environ, "PATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    return start


def done(shell, command, *, check=True):
    """Runs the command and returns its output."""
    with shell(command) as process:
        said, _ = process.communicate(timeout=SECONDS_MAX)
    assert process.returncode == Exit.OK or not check, (command, said)
    return said


def test_readme_commands_end_with_working_cluster(shell):
    needs_zookeeper()
    commands = [*typed("./dev setup"), *typed("$ . .venv/bin/activate")]
    assert [beginning for beginning in SHOWN if not _begins(commands, beginning)] == []
    try:
        for command in commands:
            said = done(shell, command)
            wanted = [text for beginning, text in SHOWN.items() if command.startswith(beginning)]
            assert [text for text in wanted if text not in said] == [], (command, said)
    finally:
        done(shell, "trimaran purge -y", check=False)


def _begins(commands, beginning):
    return any(command.startswith(beginning) for command in commands)


@pytest.fixture
def free_ports():
    with FreePorts() as ports:
        yield next(ports), next(ports)


def test_one_node_starts_from_its_file(shell, free_ports):
    make, form, start = typed("$ trimaran config init")
    broker, controller = free_ports
    done(shell, make.replace(":9093", f":{controller}").replace(" > ", f" --port {broker} > "))
    assert "Formatting data" in done(shell, form)
    with shell(f"exec {start}") as process:
        watchdog = threading.Timer(SECONDS_MAX, process.kill)
        watchdog.start()
        try:
            assert any("[KafkaServer id=1] started" in line for line in process.stdout)
            process.send_signal(signal.SIGINT)
            process.stdout.read()
            assert process.wait() == Exit.OK
        finally:
            watchdog.cancel()
            process.kill()
