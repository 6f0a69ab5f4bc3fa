"""Users that `kafka-configs --zookeeper` of Kafka 1.1 and 2.8 creates and changes can log in to our brokers with
third-party clients and ours, until the tool removes them: the mirror inside the controller stores the tool's writes.
"""

import json
import subprocess

import pytest

from tests.clients.kafka_python import KafkaProducer
from tests.cluster.login_node import LoginNode
from tests.cluster.processes import trimaran, until
from tests.interop import old_clients
from tests.librdkafka import Producer
from trimaran.local.layout import FreePorts
from trimaran.zkcompat.zookeeper.server_process import start_zookeeper

SECONDS = 60.0
MODULE = "org.apache.zookeeper.server.auth.DigestLoginModule required"
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory):
    """Starts a ZooKeeper with the mirror's user."""
    folder = tmp_path_factory.mktemp("zookeeper")
    (folder / "server.jaas").write_text(f'Server {{ {MODULE} user_mirror="of-the-mirror"; }};\n')
    login = f'{MODULE} username="mirror" password="of-the-mirror";'
    (folder / "client.jaas").write_text(f"Client {{ {login} }};\n")
    provider = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
    server = start_zookeeper(
        folder / "data",
        settings={"authProvider.1": provider},
        jvm_options=(f"-Djava.security.auth.login.config={folder / 'server.jaas'}",),
    )
    yield server.connect, folder / "client.jaas", login
    server.stop()


@pytest.fixture(scope="module")
def node(zookeeper, tmp_path_factory):
    connect, _, login = zookeeper
    settings = {
        "trimaran.zk.mirror.enable": "true",
        "zookeeper.connect": connect,
        "trimaran.zk.sasl.jaas.config": login,
        "trimaran.zk.mirror.secrets.enable": "true",
        "trimaran.zk.legacy.admin.enable": "true",
        "trimaran.zk.legacy.admin.kinds": "quota,scram",
    }
    with FreePorts() as ports:
        directory = tmp_path_factory.mktemp("node")
        with LoginNode(directory, ports, settings).running() as node:
            file = ("-c", node.dir / "mirror.properties")
            file[1].write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
            verify = ("zk", "verify", "-B", node.at("CONTROLLER"), "-z", connect, *file)
            until(lambda: trimaran(*verify, check=False).returncode == 0, "it is in step", SECONDS)
            yield node


def configs(version, zookeeper, user, *arguments, as_mirror=True):
    connect, jaas, _ = zookeeper
    entity = ("--zookeeper", connect, "--alter", "--entity-type", "users", "--entity-name", user)
    java, *words = old_clients.command(version, "kafka.admin.ConfigCommand", *entity, *arguments)
    login = [f"-Djava.security.auth.login.config={jaas}"] if as_mirror else []
    done = subprocess.run(
        [java, *login, *words], capture_output=True, text=True, timeout=90, check=False
    )
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-2000:]


def by_our_command(node, mechanism, user, password):
    file = node.file_of(mechanism, password, user)
    at = ("-b", node.at("LOGINS"), "--command-config", file)
    done = trimaran("topics", "list", *at, check=False)
    assert done.returncode == 0 or "invalid credentials" in done.stderr
    return done.returncode == 0


def by_kafka_python(node, mechanism, user, password):
    producer = KafkaProducer(
        bootstrap_servers=node.at("LOGINS"),
        ssl_cafile=f"{node.dir}/ca.pem",
        security_protocol="SASL_SSL",
        sasl_mechanism=mechanism,
        sasl_plain_username=user,
        sasl_plain_password=password,
    )
    try:
        return producer.send("hello", user.encode()).get(SECONDS).offset >= 0
    finally:
        producer.close()


def by_librdkafka(node, mechanism, user, password):
    producer = Producer(
        {
            "bootstrap.servers": node.at("LOGINS"),
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": f"{node.dir}/ca.pem",
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password,
        }
    )
    return "hello" in producer.list_topics(timeout=SECONDS).topics


def stored(node, user):
    """Returns the mechanisms with which a user can log in."""
    rows = json.loads(trimaran("users", "list", "-b", node.at("INTERNAL"), "-o", "json").stdout)
    return {row["mechanism"] for row in rows if row["user"] == user}


@pytest.mark.client("Java", "users in ZooKeeper")
@pytest.mark.parametrize("version", ["1.1.1", "2.8.2"])
def test_users_are_created_changed_and_removed(node, zookeeper, version):
    """Only few logins fail, because a broker delays responses to an address with many failures."""
    user = f"carol-{version}"
    first, second = MECHANISMS
    trimaran("topics", "create", "hello", "-p", "1", "-b", node.at("INTERNAL"), check=False)
    both = ",".join(f"{mechanism}=[iterations=8192,password=first]" for mechanism in MECHANISMS)
    configs(version, zookeeper, user, "--add-config", both, as_mirror=False)
    until(lambda: stored(node, user) == {*MECHANISMS}, "they are stored", SECONDS)
    for mechanism in MECHANISMS:
        assert by_our_command(node, mechanism, user, "first")
        assert by_kafka_python(node, mechanism, user, "first")
        assert by_librdkafka(node, mechanism, user, "first")
    # After the first request, no other user can read the znode.
    with pytest.raises(AssertionError, match="NoAuth"):
        configs(version, zookeeper, user, "--delete-config", first, as_mirror=False)

    changed = ("--add-config", f"{second}=[password=second]", "--delete-config", first)
    configs(version, zookeeper, user, *changed)
    until(lambda: stored(node, user) == {second}, "one is gone, the other is changed", SECONDS)
    assert by_our_command(node, second, user, "second")
    assert by_librdkafka(node, second, user, "second")
    assert not by_our_command(node, second, user, "first")

    configs(version, zookeeper, user, "--delete-config", second)
    until(lambda: not stored(node, user), "the user is gone", SECONDS)
    assert not by_our_command(node, second, user, "second")
