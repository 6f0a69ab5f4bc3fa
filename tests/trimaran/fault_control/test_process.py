"""The control as a process, as programs in other languages start it."""

import http.client
import json
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.trimaran.fault_control.conftest import ControlClient, control_of, control_told
from trimaran.cli import cluster
from trimaran.errors.user_error import UserError
from trimaran.fault_control.__main__ import main
from trimaran.fault_control.controlled import KafkaAt
from trimaran.fault_control.listening import TOKEN_VARIABLE
from trimaran.fault_control.started import controlled_cluster
from trimaran.local import state_file
from trimaran.testing import KafkaCluster

COMMAND = [sys.executable, "-m", "trimaran.fault_control", "--with-parent"]


@pytest.mark.slow
@pytest.mark.cluster
def test_process_serves_until_input_is_closed(tmp_path):
    plan = tmp_path / "plan.toml"
    plan.write_text('seed = 3\n[[rules]]\nname = "seen"\napi = "CreateTopics"\n')
    with subprocess.Popen(
        [*COMMAND, "--plan", str(plan)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        ready = json.loads(process.stdout.readline())
        host, _, port = ready["control"].removeprefix("http://").rpartition(":")
        client = ControlClient((host, int(port)))
        file = Path(ready["token_file"])
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert file.read_text() == ready["token"]
        assert client.ask("GET", "/cluster", token=ready["token"])[1]["seed"] == 3
        assert client.refusal("POST", "/nodes/2/restart", token=ready["token"])[0] == 400
        KafkaAt(ready["bootstrap"]).create_topic("orders")
        path = "/rules/seen/wait?seconds=30"
        assert client.ask("GET", path, token=ready["token"])[1]["matched"] == 1
        process.stdin.close()
        assert process.wait() == 0
    assert not file.exists()


@pytest.mark.slow(seconds=20)
@pytest.mark.cluster
def test_nodes_of_cluster_are_broken_and_repaired():
    with KafkaCluster(brokers=2, controllers=1, faults=True) as kafka:
        with control_of(controlled_cluster(kafka)) as client:
            assert client.ask("POST", "/topics", {"name": "orders"})[0] == 201
            states = lambda: {  # noqa: E731
                node["id"]: node["state"] for node in client.ask("GET", "/nodes")[1]["nodes"]
            }
            assert client.ask("POST", "/nodes/12/pause")[0] == 200
            assert client.ask("POST", "/links/partition", {"sides": [[11], [12]]})[0] == 204
            assert states() == {1: "leader", 11: "active", 12: "paused"}
            assert client.ask("POST", "/nodes/11/kill")[0] == 200
            assert client.refusal("POST", "/nodes/13/kill")[0] == 400
            assert client.refusal("POST", "/nodes/x/fill-disk")[0] == 400
            assert client.refusal("POST", "/links/partition", {"sides": [[11], [99]]})[0] == 400
            assert client.refusal("POST", "/nodes/11/slow-disk")[0] == 501
            assert client.ask("POST", "/reset")[0] == 204
            assert states() == {1: "leader", 11: "active", 12: "active"}
            assert client.ask("POST", "/nodes/12/fill-disk")[0] == 200
            assert client.ask("POST", "/reset")[0] == 204
            client.ask("POST", "/rules", {"name": "seen", "api": "CreateTopics"})
            assert kafka.create_topic("through-proxy") == "through-proxy"
            assert client.ask("GET", "/rules/seen/wait?seconds=30")[1]["matched"] == 1


@pytest.mark.slow(seconds=20)
@pytest.mark.cluster
def test_cluster_of_a_directory_has_a_control(tmp_path):
    command = [sys.executable, "-m", "trimaran", "up", "--control", "0", "--data", str(tmp_path)]
    command += ["--brokers", "2", "--controllers", "1", "-o", "json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as up:
        lines = iter(up.stderr.readline, "")
        address = next(line for line in lines if line.startswith("proxy at ")).split()[2]
        control = control_told(next(lines))
        assert control.ask("GET", "/cluster")[1]["bootstrap"] == address
        with pytest.raises(UserError, match="already up"):
            cluster.up(data=tmp_path, brokers=3, control="0")
        assert control.ask("POST", "/rules", {"name": "seen", "api": "CreateTopics"})[0] == 201
        KafkaAt(address).create_topic("orders")
        assert control.ask("GET", "/rules/seen/wait?seconds=30")[1]["matched"] == 1
        assert control.ask("POST", "/nodes/12/kill")[0] == 200
        assert control.ask("POST", "/reset")[0] == 204
        up.send_signal(signal.SIGTERM)
        up.stdout.read()
        assert "stopped" in up.stderr.read()
    assert up.returncode == 0
    assert not state_file.read(tmp_path).is_up()


@pytest.mark.slow(seconds=20)
@pytest.mark.cluster
def test_control_in_background_ends_with_its_cluster(tmp_path):
    command = [sys.executable, "-m", "trimaran", "up", "-d", "--control", "0"]
    command += ["--data", str(tmp_path), "--brokers", "1", "--controllers", "1"]
    shown = subprocess.run([*command, "-o", "json"], capture_output=True, text=True, check=True)
    ready = json.loads(shown.stdout)["faults"]
    control = control_told(f"control at {ready['url']}, token in {ready['token_file']}\n")
    try:
        assert ready["bootstrap"] != json.loads(shown.stdout)["bootstrap"]
        assert control.ask("POST", "/rules", {"name": "seen", "api": "CreateTopics"})[0] == 201
        KafkaAt(ready["bootstrap"]).create_topic("orders")
        assert control.ask("GET", "/rules/seen/wait?seconds=30")[1]["matched"] == 1
        assert control.ask("POST", "/nodes/11/kill")[0] == 200
        assert control.ask("POST", "/reset")[0] == 204
        assert control.ask("POST", "/rules", {"name": "unseen", "api": "OffsetDelete"})[0] == 201
        # An idle connection would be closed by a control that goes on, too.
        waiting = http.client.HTTPConnection(*control.base, timeout=60)
        headers = {"Authorization": f"Bearer {control.token}"}
        waiting.request("GET", "/v1/rules/unseen/wait?seconds=60", headers=headers)
        cluster.down(data=tmp_path)
        with pytest.raises(ConnectionError):
            waiting.getresponse()
    finally:
        cluster.purge(data=tmp_path, yes=True)
    assert not tmp_path.exists()


@pytest.mark.slow(seconds=10)
@pytest.mark.cluster
def test_cluster_without_its_control_is_stopped(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with pytest.raises(UserError):
            cluster.up(data=tmp_path, controllers=1, brokers=1, detach=True, control=port)
    assert not state_file.read(tmp_path).is_up()


def test_open_address_without_token_is_refused(capsys, monkeypatch):
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    assert main(["--listen", "0.0.0.0:0"]) == 2
    assert "open to all clients on 0.0.0.0" in capsys.readouterr().err
    assert main(["--listen", "here"]) == 2
    assert "it is not an address" in capsys.readouterr().err
    monkeypatch.setenv(TOKEN_VARIABLE, "short")
    assert main([]) == 2
    assert f"the token in {TOKEN_VARIABLE} is unusable" in capsys.readouterr().err
