"""One cluster of ours and one of Apache Kafka 4.4 for all interop tests of a run."""

import json
import subprocess
import sys

import pytest

from tests.interop import apache_kafka


def pytest_collection_modifyitems(items):
    for item in items:
        if item.nodeid.startswith("tests/interop/"):
            item.add_marker(pytest.mark.interop)


def trimaran(*words, data=None, check=True, stdin=None):
    """Runs one of our commands as a user does."""
    command = [sys.executable, "-m", "trimaran", *words, *(["--data", str(data)] if data else [])]
    done = subprocess.run(command, capture_output=True, text=True, check=False, input=stdin)
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done


class Ours:
    """A local cluster of ours, controlled by its commands."""

    def __init__(self, data, state):
        self.data, self.state = data, state
        self.bootstrap, self.controllers = state["bootstrap"], state["controller_bootstrap"]
        self.zookeeper = state["zookeeper"]

    def run(self, *words, **options):
        return trimaran(*words, data=self.data, **options)

    def directory(self, name):
        return self.data / name


@pytest.fixture(scope="session")
def minutes(pytestconfig):
    """The duration of tests in which nodes are killed repeatedly."""
    return pytestconfig.getoption("--minutes")


@pytest.fixture(scope="session")
def kills(pytestconfig):
    """The number of kills in tests of mixed clusters."""
    return pytestconfig.getoption("--kills")


@pytest.fixture(scope="session")
def ours(tmp_path_factory):
    data = tmp_path_factory.mktemp("ours")
    state = json.loads(trimaran("up", "-d", "--zk", "-o", "json", data=data).stdout)
    yield Ours(data, state)
    trimaran("down", data=data)


@pytest.fixture(scope="session")
def kafka(tmp_path_factory):
    with apache_kafka.running(
        tmp_path_factory.mktemp("kafka"), controllers=1, brokers=2
    ) as cluster:
        yield cluster
