"""The same 200 administrative actions on Apache Kafka 2.8.2 in ZooKeeper mode and on a KRaft quorum with the mirror,
ours and Apache Kafka 4.4: the two trees are the same, except for the differences of `choices.py`.
"""

import contextlib
import json
import signal
import subprocess
import sys

import pytest

from tests.cluster.processes import until
from tests.interop import apache_kafka, zookeeper_mode
from tests.interop.conftest import trimaran
from tests.interop.differential import trees
from tests.interop.differential.actions import Generator
from tests.interop.differential.applying import VERSION, administrator
from tests.interop.differential.choices import has_no_znode, is_meant
from trimaran.zkcompat.znodes.config_change import CONFIG_CHANGES
from trimaran.zkcompat.zookeeper.server_process import start_zookeeper

BROKERS = (11, 12, 13)
ACTIONS = 200
LOOK_EVERY = 50
SEED = 12
SECONDS = 120.0
MODULE = "org.apache.zookeeper.server.auth.DigestLoginModule required"
LOGIN = f'{MODULE} username="kafka" password="kafka-secret";'
JAAS = f'Server {{ {MODULE} user_kafka="kafka-secret"; }};\nClient {{ {LOGIN} }};\n'
PROVIDER = {"authProvider.1": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"}
# The mirror sets ACLs, and mirrors everything that it can.
PROPERTIES = {
    "zookeeper.set.acl": "true",
    "trimaran.zk.sasl.jaas.config": LOGIN,
    "trimaran.zk.mirror.secrets.enable": "true",
}
SETTINGS = {"super.users": "User:ANONYMOUS", "auto.leader.rebalance.enable": "false"}
OF_ZOOKEEPER_MODE = {
    **SETTINGS,
    "zookeeper.set.acl": "true",
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
}
OF_KRAFT = {
    **SETTINGS,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
}


class Quorum:
    """A KRaft cluster: its addresses, and a function that restarts a broker."""

    def __init__(self, bootstrap, controllers, restart):
        self.bootstrap, self.controllers, self.restart = bootstrap, controllers, restart


@contextlib.contextmanager
def our_quorum(folder):
    overrides = [word for k, v in OF_KRAFT.items() for word in ("--override", f"{k}={v}")]
    state = json.loads(trimaran("up", "-d", "-o", "json", *overrides, data=folder).stdout)

    try:
        yield Quorum(
            state["bootstrap"],
            state["controller_bootstrap"],
            lambda broker: trimaran("chaos", "restart", str(broker), data=folder),
        )
    finally:
        trimaran("down", data=folder)


@contextlib.contextmanager
def kafkas_quorum(folder):
    with apache_kafka.running(folder, brokers=len(BROKERS), settings=OF_KRAFT) as kafka:

        def restart(broker):
            node = next(node for node in kafka.brokers if node.id == broker)
            kafka.kill(node, signal.SIGTERM)
            kafka.start_node(node)
            kafka.wait_ready()

        yield Quorum(kafka.bootstrap, kafka.controller_bootstrap, restart)


@contextlib.contextmanager
def mirror(folder, quorum, connect):
    folder.mkdir()
    settings = folder / "mirror.properties"
    settings.write_text("".join(f"{key}={value}\n" for key, value in PROPERTIES.items()))
    command = [sys.executable, "-m", "trimaran", "zk", "mirror", "-B", quorum.controllers]
    options = ["-z", connect, "--state", str(folder / "state"), "-c", str(settings)]
    with (folder / "mirror.log").open("wb") as log:
        process = subprocess.Popen([*command, *options], stderr=log)
    try:
        yield
    finally:
        process.terminate()
        process.wait(20)


@pytest.fixture
def secured(tmp_path):
    """Starts a ZooKeeper with one user; yields it, and the JVM options with which Kafka logs in as that user."""
    (tmp_path / "jaas.conf").write_text(JAAS)
    option = f"-Djava.security.auth.login.config={tmp_path / 'jaas.conf'}"
    server = start_zookeeper(tmp_path / "zookeeper", settings=PROVIDER, jvm_options=(option,))
    yield server.connect, option
    server.stop()


class Clusters:
    """Both clusters, each with its own Admin client."""

    def __init__(self, kafka, quorum, connect, clients):
        self.kafka, self.quorum, self.connect = kafka, quorum, connect
        self.theirs, self.ours = clients

    def trees(self):
        return [trees.read(f"{self.connect}/{root}", PROPERTIES) for root in ("kafka", "mirror")]

    def act(self, action):
        if action["op"] == "restart":
            self._restart(action["broker"])
            return
        theirs, ours = self.theirs.act(action), self.ours.act(action)
        if has_no_znode(action):
            assert (theirs.error, ours.error) == ("UnknownServerException", ""), action
            return
        assert theirs == ours, f"{action}: {theirs}, {ours}"
        if action["op"] == "delete_topic":
            self._wait_deleted(action["topic"])

    def _restart(self, broker):
        self.kafka.stop(broker)
        self.kafka.start(broker)
        self.kafka.wait_ready()
        self.quorum.restart(broker)
        for client in (self.theirs, self.ours):
            client.act({"op": "settled"})

    def _wait_deleted(self, topic):
        """Waits for a deletion in ZooKeeper mode, which responds before it has deleted everything, and refuses a new
        topic of that name meanwhile.
        """
        path = f"/brokers/topics/{topic}"
        until(lambda: path not in self.trees()[0], f"{path} is deleted", SECONDS)

    def unexplained(self):
        theirs, ours = self.trees()
        return [found for found in trees.compare(theirs, ours) if not is_meant(found)]


def assert_same(clusters):
    """Asserts that the trees are equal once the mirror has caught up."""
    left = []

    def same():
        left[:] = clusters.unexplained()
        return not left

    with contextlib.suppress(AssertionError):
        until(same, "the trees are the same", SECONDS)
    assert not left, "\n".join(map(str, left))


def assert_told(clusters):
    """Asserts that each entity with a change notification in ZooKeeper mode has one in the mirror, unless its change
    had no effect, so that it has no configs.
    """
    theirs, ours = clusters.trees()
    told = trees.notes(ours)
    for root, texts in trees.notes(theirs).items():
        untold = set(texts) - set(told[root])
        if root == CONFIG_CHANGES:
            untold = {text for text in untold if trees.configs_of(ours, text)}
        assert not untold, root


@pytest.mark.parametrize("of", [our_quorum, kafkas_quorum])
def test_mirrored_tree_equals_that_of_zookeeper_mode(of, secured, tmp_path):
    connect, login = secured
    with contextlib.ExitStack() as stack:
        kafka = zookeeper_mode.running(
            VERSION, tmp_path / "kafka", f"{connect}/kafka", BROKERS, OF_ZOOKEEPER_MODE, (login,)
        )
        theirs = stack.enter_context(kafka)
        quorum = stack.enter_context(of(tmp_path / "kraft"))
        stack.enter_context(mirror(tmp_path / "mirror", quorum, f"{connect}/mirror"))
        clients = [
            stack.enter_context(administrator(cluster.bootstrap)) for cluster in (theirs, quorum)
        ]
        clusters = Clusters(theirs, quorum, connect, clients)
        actions = Generator(SEED, BROKERS).actions(ACTIONS)
        for number, action in enumerate(actions, 1):
            clusters.act(action)
            if number % LOOK_EVERY == 0:
                assert_same(clusters)
        assert_told(clusters)
