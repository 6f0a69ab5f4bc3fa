"""`storage format` and `server start -c FILE`: one combined node from a properties file, environment and overrides."""

import os
import signal
import subprocess
import sys

import pytest

from tests.clients.confluent import Confluent
from tests.clients.kafka_python import KafkaPython
from tests.clients.records import Sent
from tests.cluster.processes import ROOT, trimaran
from trimaran.errors.user_error import Exit
from trimaran.local.layout import FreePorts

STOP_SECONDS_MAX = 20


@pytest.fixture
def server_file(tmp_path):
    with FreePorts() as ports:
        yield _server_file(tmp_path, next(ports), next(ports))


def _server_file(tmp_path, broker, controller):
    file = tmp_path / "server.properties"
    file.write_text(
        "process.roles=broker,controller\n"
        "node.id=1\n"
        f"controller.quorum.voters=1@127.0.0.1:{controller}\n"
        f"listeners=PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}\n"
        "controller.listener.names=CONTROLLER\n"
        f"log.dirs={tmp_path}/data\n"
        "offsets.topic.replication.factor=1\n"
        "num.partitions=2\n"
    )
    return file, f"127.0.0.1:{broker}"


class Server:
    """Runs `server start` until the block ends; then sends SIGTERM and expects a clean exit."""

    def __init__(self, file, *options, environ=None):
        self._process = subprocess.Popen(
            [sys.executable, "-m", "trimaran", "server", "start", "-c", str(file), *options],
            cwd=ROOT,
            env={**os.environ, **(environ or {})},
            stderr=subprocess.PIPE,
            text=True,
        )

    def __enter__(self):
        self.said = []
        for line in self._process.stderr:
            self.said.append(line)
            if "[KafkaServer id=1] started" in line:
                return self
        raise AssertionError("".join(self.said))

    def __exit__(self, *_):
        self._process.send_signal(signal.SIGTERM)
        rest = self._process.communicate(timeout=STOP_SECONDS_MAX)[1]
        assert self._process.returncode == 0, "".join(self.said) + rest


def format_storage(file):
    cluster_id = trimaran("storage", "random-uuid").stdout.strip()
    trimaran("storage", "format", "-t", cluster_id, "-c", file)
    return cluster_id


def test_combined_node_stops_cleanly_and_serves_again(server_file):
    file, bootstrap = server_file
    format_storage(file)
    environ = {"KAFKA_NUM_PARTITIONS": "3", "KAFKA_MESSAGE_MAX_BYTES": "1000000"}
    with Server(file, "--override", "message.max.bytes=2000000", environ=environ):
        client = Confluent(bootstrap)
        client.produce("made", [Sent(p, b"%d" % p) for p in range(3)])
        assert sorted(client.replicas("made")) == [0, 1, 2]  # the environment beats the file
        # the override beats the environment
        assert client.config("made", "max.message.bytes") == "2000000"
    with Server(file):
        judge = KafkaPython(bootstrap)
        found = judge.read("made", {0: 0, 1: 0, 2: 0}, 3)
        judge.close()
        assert sorted(r.value for r in found) == [b"0", b"1", b"2"]


def start_and_fail(file, *options):
    as_text = ("--override", "trimaran.log.format=text")
    done = trimaran("server", "start", "-c", file, *as_text, *options, check=False)
    assert done.returncode != 0
    assert [line.split(":")[0].strip() for line in done.stderr.splitlines()[-3:]] == [
        "error",
        "why",
        "fix",
    ]
    return done


def test_unformatted_directory_is_reported(server_file):
    file, _ = server_file
    assert "not formatted" in start_and_fail(file).stderr


def test_wrong_value_is_reported_with_file_and_line(server_file):
    file, _ = server_file
    file.write_text(file.read_text().replace("num.partitions=2", "num.partitions=two"))
    done = start_and_fail(file)
    assert done.returncode == Exit.USAGE
    assert f"{file}:8" in done.stderr


def test_taken_port_is_reported_with_its_owner(server_file):
    file, bootstrap = server_file
    format_storage(file)
    with Server(file):
        done = start_and_fail(file, "--override", f"log.dirs={file.parent}/data")
        assert bootstrap in done.stderr or "in use" in done.stderr
