"""A node with JSON logs writes only JSON objects, one per line, from start to exit."""

import json
import subprocess
import sys
import threading

import pytest

from tests.cluster.processes import ROOT, trimaran
from trimaran.errors.user_error import Exit
from trimaran.node.runtime.ports import HOST, port_of, reserve

FILE = """
node.id=1
process.roles=controller
controller.quorum.bootstrap.servers={address}
controller.listener.names=CONTROLLER
listeners=CONTROLLER://{address}
log.dirs={dir}/data
log.retention.hour=1
{more}
"""


@pytest.mark.parametrize("level", ["INFO", "ERROR"])
def test_every_log_line_is_a_json_object(tmp_path, level):
    with reserve() as held:
        file = tmp_path / "node.properties"
        settings = {"address": f"{HOST}:{port_of(held)}", "dir": tmp_path}
        file.write_text(FILE.format(**settings, more=f"trimaran.log.level={level}"))
        cluster_id = trimaran("storage", "random-uuid").stdout.strip()
        told = trimaran("storage", "format", "-t", cluster_id, "-c", file, "--standalone").stderr
        assert "did you mean log.retention.hours" in told
        command = [sys.executable, "-m", "trimaran", "server", "start", "-c", str(file)]
        with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
            watchdog = threading.Timer(60, process.kill)
            watchdog.start()
            events = []
            while "[KafkaServer id=1] started" not in events:
                events.append(json.loads(process.stderr.readline())["message"])
            assert any("did you mean" in event for event in events) is (level == "INFO")
            second = trimaran("server", "start", "-c", file, check=False)
            process.terminate()
            for line in process.stderr:
                json.loads(line)
            watchdog.cancel()
            assert process.wait() == Exit.OK
    assert second.returncode == Exit.NO
    last = [json.loads(line) for line in second.stderr.splitlines()][-1]
    assert last["level"] == "CRITICAL"
    assert "in use" in last["message"]
