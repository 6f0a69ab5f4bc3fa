"""The mirror between a secured quorum and a secured ZooKeeper: our controllers and those of Apache Kafka 4.4, with each
kind of login, and ZooKeeper with both TLS and DIGEST-MD5. The error for an untrusted peer names the key to check.
"""

import contextlib
import subprocess
import sys

import pytest

from tests.certificates import Certificates
from tests.cluster.processes import until
from tests.interop.conftest import trimaran
from tests.interop.secured_controllers import SecuredControllers, pkcs8
from trimaran.local.layout import FreePorts
from trimaran.node.runtime.ports import port_of, reserve
from trimaran.zkcompat.zookeeper.server_process import start_zookeeper

WAYS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "mTLS")
SECONDS = 60.0
MODULE = "org.apache.zookeeper.server.auth.DigestLoginModule required"
JAAS = f'Server {{ {MODULE} user_mirror="of-the-mirror"; }};\n'
SECRETS = ("secret", "of-the-mirror", "wr0ng", "of-the-store")


class SecuredZooKeeper:
    """A ZooKeeper with TLS; `connect` is its TLS address, and `certificates` are from its own authority."""

    def __init__(self, folder, pair=None):
        folder.mkdir()
        self.dir, self.certificates = folder, Certificates()
        key, chain = pair(self.certificates) if pair else self.certificates.server
        (folder / "server.pem").write_text(pkcs8(key) + chain)
        (folder / "authority.pem").write_text(self.certificates.ca)
        (folder / "jaas.conf").write_text(JAAS)
        with reserve() as held:
            port = port_of(held)
        settings = {
            "secureClientPort": str(port),
            "secureClientPortAddress": "127.0.0.1",
            "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
            "authProvider.1": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
            "ssl.keyStore.location": str(folder / "server.pem"),
            "ssl.trustStore.location": str(folder / "authority.pem"),
            "ssl.clientAuth": "none",
        }
        option = f"-Djava.security.auth.login.config={folder / 'jaas.conf'}"
        self.server = start_zookeeper(folder / "data", settings=settings, jvm_options=(option,))
        self.connect = f"localhost:{port}"

    def properties(self, password="of-the-mirror", trust=None):
        """Returns the mirror's settings for this ZooKeeper."""
        login = f'{MODULE} username="mirror" password="{password}";'
        return {
            "zookeeper.ssl.client.enable": "true",
            "zookeeper.ssl.truststore.location": str(trust or self.dir / "authority.pem"),
            "trimaran.zk.sasl.jaas.config": login,
            "zookeeper.set.acl": "true",
            "trimaran.zk.mirror.secrets.enable": "true",
        }


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory):
    zookeeper = SecuredZooKeeper(tmp_path_factory.mktemp("zk") / "zookeeper")
    yield zookeeper
    zookeeper.server.stop()


@pytest.fixture(scope="module", params=["ours", "kafka"])
def node(request, tmp_path_factory):
    with FreePorts() as ports:
        folder = tmp_path_factory.mktemp(request.param)
        with SecuredControllers(request.param, folder, ports).running() as node:
            yield node


def zk(command, node, way, zookeeper, folder, *, client=None, properties=None):
    """Returns the arguments of a command that connects to both."""
    settings = {**(client or node.properties(way)), **(properties or zookeeper.properties())}
    file = folder / "mirror.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    connect = f"{zookeeper.connect}/{node.kind}-{way}"
    return ["zk", command, "-B", node.bootstrap_of(way), "-z", connect, "-c", str(file)]


@contextlib.contextmanager
def mirror(folder, words):
    """Runs a mirror; yields it, and its log."""
    log = folder / "mirror.log"
    command = [sys.executable, "-m", "trimaran", *words, "--state", str(folder / "state")]
    with log.open("wb") as err:
        process = subprocess.Popen(command, stderr=err)
    try:
        yield process, log
    finally:
        process.terminate()
        process.wait(20)
        assert not [word for word in SECRETS if f'"{word}' in log.read_text()]


@pytest.mark.parametrize("way", WAYS)
def test_mirror_works_between_secured_sides(node, way, zookeeper, tmp_path):
    verify = zk("verify", node, way, zookeeper, tmp_path)
    with mirror(tmp_path, zk("mirror", node, way, zookeeper, tmp_path)) as (_, log):
        until(lambda: trimaran(*verify, check=False).returncode == 0, "it is in step", SECONDS)
        topic = f"by-{way}"
        broker = node.at("INTERNAL")
        trimaran("topics", "create", topic, "-p", "1", "-r", "1", "-b", broker)
        path = f"/brokers/topics/{topic}/partitions/0/state"
        get = ["zk", "get", path, *verify[4:]]
        until(lambda: trimaran(*get, check=False).returncode == 0, "it is shown", SECONDS)
        # Only the mirror may read credentials; other rights are as in Kafka.
        assert "SCRAM-SHA-512" in trimaran("zk", "get", "/config/users/alice", *verify[4:]).stdout
        until(lambda: trimaran(*verify, check=False).returncode == 0, "it is in step", SECONDS)
        # The leader is found on the configured listener.
        assert "did not decide" not in log.read_text()


@pytest.mark.parametrize("way", ["PLAIN", "SCRAM-SHA-512"])
def test_wrong_password_of_controllers_is_reported(node, way, zookeeper, tmp_path):
    words = zk("mirror", node, way, zookeeper, tmp_path, client=node.properties(way, "wr0ng"))
    with mirror(tmp_path, words) as (process, log):
        assert process.wait(SECONDS) == 5
        assert "the controllers refused access" in log.read_text()
        assert "sasl.jaas.config" in log.read_text()


def test_controllers_of_unknown_authority_are_refused(node, zookeeper, tmp_path):
    stranger = tmp_path / "stranger.pem"
    stranger.write_text(Certificates().ca)
    client = {**node.properties("PLAIN"), "ssl.truststore.location": str(stranger)}
    words = zk("mirror", node, "PLAIN", zookeeper, tmp_path, client=client)
    with mirror(tmp_path, words) as (process, log):
        assert process.wait(SECONDS) == 5
        assert "unable to get local issuer certificate" in log.read_text()
        assert "ssl.truststore.location" in log.read_text()


def test_listener_of_another_kind_is_reported(node, zookeeper, tmp_path):
    client = {"security.protocol": "PLAINTEXT"}
    words = zk("verify", node, "PLAIN", zookeeper, tmp_path, client=client)
    done = trimaran(*words, check=False)
    assert done.returncode == 3
    assert "does security.protocol in the file of -c fit that listener?" in done.stderr
    assert done.stderr.count("dropped") <= 12  # retried at growing intervals


def test_wrong_password_of_zookeeper_is_reported(node, zookeeper, tmp_path):
    wrong = zookeeper.properties("wr0ng")
    words = zk("mirror", node, "PLAIN", zookeeper, tmp_path, properties=wrong)
    with mirror(tmp_path, words) as (process, log):
        said = "refuses the mirror's user: see trimaran.zk.auth and trimaran.zk.sasl.jaas.config"
        until(lambda: said in log.read_text(), "it is said", SECONDS)
        assert process.poll() is None


@pytest.mark.parametrize("kind", ["stranger", "expired"])
def test_untrusted_zookeeper_is_reported(node, kind, tmp_path):
    pair = Certificates.expired if kind == "expired" else None
    zookeeper = SecuredZooKeeper(tmp_path / "zookeeper", pair)
    stranger = tmp_path / "stranger.pem"
    stranger.write_text(Certificates().ca)
    trust = stranger if kind == "stranger" else None
    untrusted = zookeeper.properties(trust=trust)
    words = zk("mirror", node, "PLAIN", zookeeper, tmp_path, properties=untrusted)
    try:
        with mirror(tmp_path, words) as (process, log):
            said = "zookeeper.ssl.truststore.location"
            until(lambda: said in log.read_text(), "it is said", SECONDS)
            assert "certificate verify failed" in log.read_text()
            assert process.poll() is None
    finally:
        zookeeper.server.stop()


@pytest.mark.parametrize("kind", ["ours", "kafka"])
def test_expired_certificate_of_controllers_is_reported(kind, zookeeper, tmp_path):
    with FreePorts() as ports:
        node = SecuredControllers(kind, tmp_path, ports)
        node.present(node.certificates.expired())
        with node.running():
            words = zk("mirror", node, "PLAIN", zookeeper, tmp_path)
            with mirror(tmp_path, words) as (process, log):
                assert process.wait(SECONDS) == 5
                assert "certificate has expired" in log.read_text()
                assert "must show a valid certificate" in log.read_text()
