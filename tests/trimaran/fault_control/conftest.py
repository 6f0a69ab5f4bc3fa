"""The control of a Kafka in this process, used by a real HTTP client."""

import http.client
import json
import re
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.trimaran.http_in_thread import served_in_thread
from trimaran.fault_control.controlled import ControlledKafka, NodeAction
from trimaran.fault_control.serving import application
from trimaran.testing import EmbeddedKafka

TOKEN = "a-token-of-this-test"


@dataclass(frozen=True)
class ControlClient:
    """Sends requests to the control at `base`, with the token."""

    base: tuple[str, int]
    token: str = TOKEN

    def ask(self, method, path, body=None, token="", prefix="/v1"):
        """Returns the status and the value of a response; `token` is another one than that of the client, or None."""
        token = self.token if token == "" else token
        connection = http.client.HTTPConnection(*self.base, timeout=30)
        data = body if body is None or isinstance(body, bytes | str) else json.dumps(body)
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        try:
            connection.request(method, prefix + path, body=data, headers=headers)
            response = connection.getresponse()
            content = response.read().decode()
        finally:
            connection.close()
        is_json = response.headers["content-type"] == "application/json"
        return response.status, json.loads(content) if is_json else content

    def refusal(self, method, path, body=None, **options):
        """Returns the status of a refused request, and its reason."""
        status, answer = self.ask(method, path, body, **options)
        assert set(answer["error"]) >= {"what", "why", "fix"}, answer
        return status, answer["error"]["why"]


def control_told(line):
    """Returns a client for the control that a command has told: `control at URL, token in FILE`."""
    found = re.fullmatch(r"control at http://(.*):(\d+), token in (.*)\n", line)
    return ControlClient((found[1], int(found[2])), Path(found[3]).read_text())


@contextmanager
def control_of(cluster):
    """Yields a client for the control of `cluster`."""
    with served_in_thread(application(cluster, TOKEN)) as address:
        yield ControlClient(address)


@pytest.fixture(scope="package")
def kafka():
    with EmbeddedKafka({"auto.create.topics.enable": "false"}) as running:
        yield running


@pytest.fixture(scope="package")
def served(kafka):
    actions = {NodeAction.RESTART: lambda node: kafka.restart()}
    nodes = lambda: [{"id": 1, "state": "running"}]  # noqa: E731
    cluster = ControlledKafka(kafka.bootstrap, kafka, kafka.faults.fault_set, nodes, actions)
    with control_of(cluster) as client:
        yield client


@pytest.fixture
def control(served):
    """Yields a client of a control without rules and topics."""
    yield served
    assert served.ask("POST", "/reset", {"topics": True, "seed": 0})[0] == 204
