"""Wrong addresses and files: each is reported at once, with the change that is needed."""

import contextlib
import os
import socket
import time

import pytest

from tests.certificates import Certificates
from tests.cluster.processes import LocalCluster, trimaran
from tests.processes.test_security import _started
from tests.zkcompat.conftest import needs_zookeeper
from trimaran.errors.user_error import Exit
from trimaran.local.layout import FreePorts
from trimaran.node.runtime.ports import HOST
from trimaran.zkcompat.zookeeper.server_process import start_zookeeper

AT_ONCE_SECONDS = 10  # on a busy machine; delayed reports took 20
# A longer timeout would not help: these servers never respond.
SOON = ("--timeout", "2")
NODE = """
node.id=1
process.roles=broker,controller
controller.quorum.voters=1@localhost:{controller}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAIN
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAIN:PLAINTEXT,TLS:SSL,LOGIN:SASL_PLAINTEXT
listeners=CONTROLLER://localhost:{controller},PLAIN://localhost:{plain},TLS://localhost:{tls},LOGIN://localhost:{login}
log.dirs={dir}/data
ssl.keystore.type=PEM
ssl.keystore.location={dir}/node.pem
ssl.truststore.type=PEM
ssl.truststore.location={dir}/ca.pem
ssl.client.auth=required
sasl.enabled.mechanisms=PLAIN
listener.name.login.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_a="b";
"""
TRUST = """
security.protocol=SSL
ssl.truststore.type=PEM
ssl.truststore.location={dir}/ca.pem
"""


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    """Starts a node; yields its ports by listener, and the directory with the client configuration files."""
    directory = tmp_path_factory.mktemp("node")
    certificates = Certificates()
    (directory / "node.pem").write_text("".join(certificates.server))
    (directory / "client.pem").write_text("".join(certificates.client))
    (directory / "ca.pem").write_text(certificates.ca)
    (directory / "no-trust").write_text("security.protocol=SSL\n")
    (directory / "trust").write_text(TRUST.format(dir=directory))
    with FreePorts() as ports:
        found = {name: next(ports) for name in ("controller", "plain", "tls", "login", "zookeeper")}
        file = directory / "node.properties"
        file.write_text(NODE.format(dir=directory, **found))
        cluster_id = trimaran("storage", "random-uuid").stdout.strip()
        trimaran("storage", "format", "-t", cluster_id, "-c", file)
        with _started(file, 1):
            yield directory, found


def topics_list(*options):
    began = time.monotonic()
    done = trimaran("topics", "list", *options, check=False)
    assert time.monotonic() - began < AT_ONCE_SECONDS
    assert [line.split(":")[0].strip() for line in done.stderr.splitlines()] == [
        "error",
        "why",
        "fix",
    ]
    return done


@pytest.mark.parametrize(
    ("listener", "client_file", "code", "told"),
    [
        ("tls", None, Exit.CANNOT_CONNECT, "speaks TLS, and this command does not"),
        ("tls", "no-trust", Exit.REFUSED, "TLS verification failed"),
        ("tls", "trust", Exit.REFUSED, "client certificate"),
        ("plain", "trust", Exit.CANNOT_CONNECT, "does not speak TLS, and this command does"),
        ("login", None, Exit.REFUSED, "it is a SASL listener that accepts PLAIN"),
        (
            "controller",
            None,
            Exit.USAGE,
            "is a controller's listener, and this command asks brokers",
        ),
    ],
)
def test_wrong_listener_is_reported(node, listener, client_file, code, told):
    directory, ports = node
    options = ("--command-config", directory / client_file) if client_file else ()
    done = topics_list("-b", f"localhost:{ports[listener]}", *options)
    assert told in done.stderr
    assert done.returncode == code


def test_right_listener_among_wrong_ones_is_used(node):
    _, ports = node
    some = f"localhost:{ports['tls']},localhost:1,localhost:{ports['plain']}"
    assert trimaran("topics", "list", "-b", some).stdout.startswith("TOPIC")


def test_zookeeper_as_bootstrap_server_is_reported(node, tmp_path):
    needs_zookeeper()
    _, ports = node
    server = start_zookeeper(tmp_path, ports["zookeeper"])
    try:
        done = topics_list("-b", server.connect)
    finally:
        server.kill()
    assert "is a ZooKeeper, not a Kafka node" in done.stderr


@pytest.mark.parametrize(
    ("address", "code", "told"),
    [
        (
            "no-such-host.invalid:9092",
            Exit.CANNOT_CONNECT,
            "the host name no-such-host.invalid is not known",
        ),
        (f"{HOST}:1", Exit.CANNOT_CONNECT, f"nothing listens at {HOST}:1"),
        (HOST, Exit.USAGE, "is not a list of addresses"),
        (f"{HOST}:99999", Exit.USAGE, "is not a list of addresses"),
    ],
)
def test_wrong_address_is_reported(address, code, told):
    done = topics_list("-b", address)
    assert told in done.stderr
    assert done.returncode == code


def test_peer_with_another_protocol_is_reported():
    with socket.create_server((HOST, 0)) as server, contextlib.ExitStack() as stack:
        if (pid := os.fork()) == 0:
            while True:
                server.accept()[0].sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        stack.callback(os.waitpid, pid, 0)
        stack.callback(os.kill, pid, 9)
        done = topics_list("-b", f"{HOST}:{server.getsockname()[1]}")
    assert "does not speak Kafka's protocol" in done.stderr


def test_every_command_reports_lost_majority(tmp_path):
    with LocalCluster(tmp_path, "--brokers", "1") as cluster:
        cluster.run("topics", "create", "t")
        gone = [cluster.node(number).address for number in (1, 2)]
        for number in (1, 2):
            cluster.kill(number)
        for words in (("quorum", "status"), ("quorum", "voters", "remove", "1")):
            done = cluster.run(*words, *SOON, check=False)
            assert done.returncode in {Exit.NO, Exit.TIMEOUT}
            assert f"no quorum: 2 of 3 controllers unreachable ({', '.join(gone)})" in done.stderr
        done = cluster.run("topics", "create", "u", *SOON, check=False)
        assert done.returncode == Exit.TIMEOUT
        assert "a majority of the controllers" in done.stderr
        assert "that the node is running" not in done.stderr
        cluster.kill(11)  # a clean stop would wait for a controller
