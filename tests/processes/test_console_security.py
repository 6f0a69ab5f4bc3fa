"""`console` in front of a node that requires TLS and a login, and allows only what ACLs permit."""

import json
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import contextmanager

import pytest

from tests.certificates import Certificates
from tests.cluster.processes import ROOT, trimaran, until
from trimaran.errors.user_error import Exit
from trimaran.local.layout import FreePorts

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
PROPERTIES = """
node.id=1
process.roles=broker,controller
controller.quorum.voters=1@localhost:{CONTROLLER}
controller.listener.names=CONTROLLER,ASKED
inter.broker.listener.name=INTERNAL
listener.security.protocol.map=CONTROLLER:SSL,ASKED:SASL_SSL,INTERNAL:SSL,CLIENTS:SASL_SSL
listeners=CONTROLLER://localhost:{CONTROLLER},ASKED://localhost:{ASKED},INTERNAL://localhost:{INTERNAL},\
CLIENTS://localhost:{CLIENTS}
log.dirs={dir}/data
offsets.topic.replication.factor=1
ssl.keystore.type=PEM
ssl.keystore.location={dir}/node.pem
ssl.truststore.type=PEM
ssl.truststore.location={dir}/ca.pem
ssl.client.auth=required
ssl.principal.mapping.rules=RULE:^CN=(.*?),.*$/$1/
sasl.enabled.mechanisms=PLAIN
listener.name.clients.plain.sasl.jaas.config={plain} required user_alice="alice-secret" user_bob="bob-secret";
listener.name.asked.plain.sasl.jaas.config={plain} required user_alice="alice-secret" user_bob="bob-secret";
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:node;User:alice
"""
LISTENERS = ("CONTROLLER", "ASKED", "INTERNAL", "CLIENTS")
CLIENT = """
security.protocol=SASL_SSL
sasl.mechanism=PLAIN
ssl.truststore.type=PEM
ssl.truststore.location={dir}/ca.pem
"""


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    """Starts a node; yields the directory with the client configuration, and the addresses of a broker and a
    controller.
    """
    folder = tmp_path_factory.mktemp("secured")
    certificates = Certificates()
    key, chain = certificates.issue("localhost", "127.0.0.1", common_name="node")
    (folder / "node.pem").write_text(key + chain)
    (folder / "ca.pem").write_text(certificates.ca)
    (folder / "client.properties").write_text(CLIENT.format(dir=folder))
    with FreePorts() as free:
        ports = {name: next(free) for name in LISTENERS}
        file, err = folder / "server.properties", folder / "node.err"
        file.write_text(PROPERTIES.format(**ports, dir=folder, plain=PLAIN))
        cluster_id = trimaran("storage", "random-uuid").stdout.strip()
        trimaran("storage", "format", "-t", cluster_id, "-c", file)
        command = [sys.executable, "-m", "trimaran", "server", "start", "-c", str(file)]
        with err.open("w") as stderr, subprocess.Popen(command, cwd=ROOT, stderr=stderr) as node:
            try:
                line = "[KafkaServer id=1] started"
                until(lambda: line in err.read_text() or node.poll() is not None, line)
                assert node.poll() is None, err.read_text()
                yield folder, f"localhost:{ports['CLIENTS']}", f"localhost:{ports['ASKED']}"
            finally:
                node.terminate()


def login_of(user):
    return f'sasl.jaas.config={PLAIN} required username="{user}" password="{user}-secret";'


@contextmanager
def console_of(secured, user, *words):
    """Runs `console` and yields its URL. The configuration comes from a file, except for the login, which comes from
    -X.
    """
    folder, brokers, controllers = secured
    command = [sys.executable, "-m", "trimaran", "console", "--listen", "127.0.0.1:0"]
    command += ["-b", brokers, "-B", controllers, "-X", login_of(user), *words]
    command += ["--command-config", str(folder / "client.properties")]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as running:
        try:
            yield re.search(r"http://127\.0\.0\.1:\d+", running.stderr.readline())[0]
        finally:
            running.send_signal(signal.SIGTERM)
            assert running.wait(30) == 0


def page(url):
    request = urllib.request.Request(url, headers={"Accept": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def test_authorized_user_sees_cluster_and_access_rights(secured):
    folder, brokers, _ = secured
    trimaran(
        *("acls", "add", "User:bob", "read", "topic/orders"),
        *("-b", brokers, "--command-config", folder / "client.properties", "-X", login_of("alice")),
    )
    with console_of(secured, "alice") as url:
        assert page(url)[1]["level"] == "good"
        assert page(f"{url}/metadata")[1]["summary"]["acls"] == 1
        found = page(f"{url}/access?principal=User:bob&operation=read&resource=topic/orders")[1]
        assert found["is_guarded"] is True
        assert [row["principal"] for row in found["rows"]] == ["User:bob"]
        assert found["answer"]["allowed"] is True
        asked = "principal=User:bob&operation=write&resource=topic/orders"
        assert page(f"{url}/access?{asked}")[1]["answer"]["allowed"] is False


def test_user_without_rights_is_refused(secured):
    with console_of(secured, "bob") as url:
        status, told = page(f"{url}/access")
        assert status == 403
        assert "AUTHORIZATION" in told["error"]["why"]
        assert page(f"{url}/brokers")[0] == 200  # public in Kafka, too


def test_wrong_cluster_password_is_reported(secured):
    with console_of(secured, "mallory") as url:
        status, told = page(f"{url}/topics")
        assert status in (400, 403)
        assert told["error"]["fix"]


def test_console_for_other_machines_requires_password():
    done = trimaran("console", "-b", "127.0.0.1:1", "--listen", "0.0.0.0:0", check=False)
    assert done.returncode == Exit.USAGE
    assert "would be open to all clients on 0.0.0.0" in done.stderr
    short = {"TRIMARAN_CONSOLE_PASSWORD": "short"}
    done = trimaran("console", "-b", "127.0.0.1:1", check=False, environ=short)
    assert done.returncode == Exit.USAGE
    assert "TRIMARAN_CONSOLE_PASSWORD is too short" in done.stderr
