"""aiokafka's fixtures, with a running broker in place of a container."""

import os
import pathlib
import shlex
import subprocess

import pytest

from . import _testutil
from .conftest_of_aiokafka import *  # noqa: F403 - its fixtures and hooks
from .conftest_of_aiokafka import KafkaServer

BROKER = os.environ["SUITE_BROKER"]  # the listener without logins
TOOLS = pathlib.Path(os.environ["SUITE_KAFKA"]) / "bin"


def tool(name, options):
    words = [TOOLS / name, "--bootstrap-server", BROKER, *shlex.split(" ".join(options))]
    return subprocess.run(words, capture_output=True, check=True).stdout


class ACLManager(_testutil.ACLManager):
    def _exec(self, *options):
        return tool("kafka-acls.sh", ("--force", *options))


class KafkaConfig(_testutil.KafkaConfig):
    def _exec(self, *options):
        return tool("kafka-configs.sh", options)


class KerberosUtils:
    def kinit(self, principal):
        pytest.skip("there is no Kerberos")

    def kdestroy(self):
        """Does nothing, because there is no Kerberos."""


@pytest.fixture(scope="session")
def kafka_image(request):
    return request.config.getoption("--docker-image")


@pytest.fixture(scope="session")
def ssl_folder():
    return pathlib.Path(os.environ["SUITE_KEYS"])


@pytest.fixture(scope="session")
def kafka_server():
    ports = map(int, os.environ["SUITE_PORTS"].split(","))
    return KafkaServer("127.0.0.1", *ports, None)


@pytest.fixture(scope="class")
def acl_manager():
    return ACLManager(None, "")


@pytest.fixture(scope="class")
def kafka_config():
    return KafkaConfig(None, "")


@pytest.fixture(scope="class")
def kerberos_utils():
    return KerberosUtils()
