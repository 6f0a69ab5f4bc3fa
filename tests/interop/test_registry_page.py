"""docs/registry_and_connect.md: Apicurio Registry and a worker of Kafka Connect, with the page's files, on a broker of
ours.
"""

import json
import socket
import urllib.error
import urllib.request

import pytest

from tests.cluster.commands import run
from tests.cluster.processes import until
from tests.interop import java_programs, manual, test_registry
from tests.interop.suites.applications import reading
from trimaran.testing import EmbeddedKafka

PAGE = "registry_and_connect.md"
SECONDS = 300.0
LINES = ["first", "second", "third"]


@pytest.fixture
def kafka():
    with EmbeddedKafka() as kafka:
        yield kafka


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def file_of(name):
    """Returns a properties file of the page."""
    (text,) = [
        block for block in manual.blocks(PAGE, "properties") if block.startswith(f"# {name}")
    ]
    return text


def request(url, body, method):
    headers = {"Content-Type": "application/json"}
    asked = urllib.request.Request(url, json.dumps(body).encode(), headers, method=method)
    with urllib.request.urlopen(asked, timeout=60) as response:
        return json.load(response)


def test_registry_keeps_its_schemas_in_a_topic(kafka, tmp_path):
    text = file_of("registry.properties").replace("localhost:9092", kafka.bootstrap)
    settings = dict(line.split("=", 1) for line in text.splitlines()[1:])
    schema, _ = map(json.loads, manual.blocks(PAGE, "json"))
    kafka.create_topic("payments")
    line = '{"cents": 7}'
    with test_registry.running(tmp_path / "first", settings) as url:
        api = f"{url}/apis/ccompat/v7"
        request(f"{api}/subjects/payments-value/versions", schema, "POST")
        command = ["produce", "payments", "-b", kafka.bootstrap, "--registry", api]
        assert run(command, stdin=f"{line}\n").returncode == 0
    with test_registry.running(tmp_path / "second", settings) as url:
        api = f"{url}/apis/ccompat/v7"
        command = ["consume", "payments", "-e", "-b", kafka.bootstrap, "--registry", api]
        assert json.loads(run(command).stdout) == json.loads(line)


def test_worker_of_connect_copies_lines_of_a_file(kafka, tmp_path):
    if reason := java_programs.why_not():
        pytest.skip(reason)
    address = f"127.0.0.1:{free_port()}"
    text = file_of("worker.properties").replace("localhost:9092", kafka.bootstrap)
    worker = tmp_path / "worker.properties"
    worker.write_text(text.replace("localhost:8083", address))
    _, connector = map(json.loads, manual.blocks(PAGE, "json"))
    lines = tmp_path / "lines.txt"
    lines.write_text("".join(f"{line}\n" for line in LINES))
    connector["file"] = str(lines)
    kafka.create_topic("lines")
    main = "org.apache.kafka.connect.cli.ConnectDistributed"
    path = java_programs.connect_class_path("connect-file")
    command = java_programs.command(path, main, worker, heap="384m")
    with java_programs.running(command, tmp_path / "worker.log"):
        url = f"http://{address}/connectors/lines/config"
        until(lambda: _is_created(url, connector), "the connector is created", SECONDS, 0.5)
        reader = reading.Reader(kafka.bootstrap, "lines", 1, seen=lambda found: found.value())
        reader.read_until(lambda: len(reader.all) >= len(LINES), "all lines are copied", SECONDS)
        reader.close()
    assert reader.all == [line.encode() for line in LINES]
    assert {"connect-configs", "connect-offsets", "connect-status"} <= {
        *reading.topics(kafka.bootstrap)
    }


def _is_created(url, connector):
    """Returns whether a worker has taken the connector; it refuses while it joins its group."""
    try:
        return bool(request(url, connector, "PUT"))
    except (urllib.error.URLError, ConnectionError):
        return False
