"""A console in this process, for a Kafka cluster in this process, used by a real HTTP client."""

import http.client
import json
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import Message

import pytest

from tests.trimaran.http_in_thread import served_in_thread
from trimaran.console.cluster import ConsoleCluster
from trimaran.console.guards import LOCAL_NAMES
from trimaran.console.serving import application
from trimaran.testing import EmbeddedKafka


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Message
    body: str

    @property
    def json(self):
        return json.loads(self.body)


@dataclass(frozen=True)
class Browser:
    """Sends requests to the console; `base` is its address."""

    base: tuple[str, int]

    def get(self, path, accept="text/html", method="GET", body=None, **headers):
        connection = http.client.HTTPConnection(*self.base, timeout=30)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            connection.request(method, path, body=body, headers={"Accept": accept, **named})
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read().decode())
        finally:
            connection.close()

    def json(self, path):
        answer = self.get(path, accept="application/json")
        assert answer.status == 200, answer.body
        return answer.json


@contextmanager
def console_before(cluster, tls=None, **options):
    """Returns a browser for the console of `cluster`."""
    with served_in_thread(application(cluster, LOCAL_NAMES, **options), tls) as address:
        yield Browser(address)


@pytest.fixture(scope="package")
def kafka():
    with EmbeddedKafka({"auto.create.topics.enable": "false"}) as running:
        yield running


@pytest.fixture(scope="package")
def cluster(kafka):
    return ConsoleCluster(kafka.bootstrap, kafka.controller_bootstrap)


@pytest.fixture(scope="package")
def browser(cluster):
    with console_before(cluster) as asking:
        yield asking
