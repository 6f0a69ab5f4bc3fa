"""docs/migration.md, followed step by step: Apache Kafka 3.9 migrates a cluster from ZooKeeper mode to KRaft, and the
mirror takes over the remaining tree without any needless write. A second test does this for a tree that Kafka's user
has secured.
"""

import json
import re
import shutil
import subprocess
import sys

import pytest
import trio

from tests.cluster.processes import LocalCluster, until
from tests.interop import manual, old_clients, zookeeper_mode
from tests.interop.conftest import trimaran
from tests.interop.differential.actions import Generator
from tests.interop.differential.applying import administrator
from trimaran.node.runtime.ports import port_of, reserve
from trimaran.settings.properties import read_file
from trimaran.zkcompat.settings import keeper_config
from trimaran.zkcompat.zookeeper.keeper import open_keeper
from trimaran.zkcompat.zookeeper.server_process import start_zookeeper

PAGE = "migration.md"
VERSION = "3.9.1"
BROKER = 11
SECONDS = 180.0
# Further settings of the test cluster: ACLs, and no automatic changes.
SETTINGS = {"super.users": "User:ANONYMOUS", "auto.leader.rebalance.enable": "false"}
AUTHORIZER = "authorizer.class.name"
OF_ZOOKEEPER = {**SETTINGS, AUTHORIZER: "kafka.security.authorizer.AclAuthorizer"}
OF_KRAFT = {**SETTINGS, AUTHORIZER: "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
# The mirror's writes that the page lists. In addition, it creates missing znodes, deletes those that the quorum no
# longer has (Kafka's dual-write mode fails to remove a client's last quota), and writes change notifications for them.
NOTE = re.compile(r"/config/changes/config_change_\d{10}")
MEANT = re.compile(r"/controller|/controller_epoch|/migration|/trimaran(/.*)?|/brokers/ids/\d+")
NOT_HERE = {"restart", "delete_records"}
MIGRATED = "Completed migration of metadata from ZooKeeper to KRaft"


def read(connect):
    """Returns each znode's data, its last transaction, and whether it is ephemeral."""

    async def main():
        async with open_keeper(keeper_config(connect, {})) as keeper:
            assert await keeper.wait_connected(20)
            found = await keeper.read_tree(["/"], [])
            return {
                path: (value.data, value.modified_zxid, bool(value.owner))
                for path, value in found.items()
            }

    return trio.run(main)


def administer(bootstrap, seed):
    """Applies actions of the differential run that are possible with a single broker."""
    with administrator(bootstrap) as client:
        for action in Generator(seed, (BROKER,)).actions(60):
            if action["op"] not in NOT_HERE:
                client.act(action)


def background(folder, name, command):
    with (folder / f"{name}.log").open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)


class Reader:
    """A reader who runs the commands of the page, in a separate folder."""

    def __init__(self, folder, places):
        self.folder, self.places = folder, places
        self.mirror = None

    def follow(self, heading):
        for step in manual.steps(PAGE, heading, self.places):
            if isinstance(step, manual.PropertiesFile):
                (self.folder / step.name).write_text(step.text)
                self.wrote(step.name)
            else:
                program, *words = step.words
                self.typed(program, words)

    def wrote(self, name):
        """Runs a step that uses a file."""

    def typed(self, program, words):
        assert program == "trimaran", program
        if words[:2] == ["zk", "mirror"]:
            state = ["--state", str(self.folder / "mirror")]
            command = [sys.executable, "-m", "trimaran", *words, *state]
            self.mirror = background(self.folder, "mirror", command)
        elif words[:2] == ["zk", "verify"]:
            until(lambda: self.trimaran(*words).returncode == 0, "it is in step", SECONDS)
        else:
            done = self.trimaran(*words)
            assert done.returncode == 0, done.stdout + done.stderr

    def trimaran(self, *words):
        found = [
            str(self.folder / word) if word.endswith(".properties") else word for word in words
        ]
        return trimaran(*found, check=False)

    def close(self):
        if self.mirror is not None:
            self.mirror.terminate()
            self.mirror.wait(20)


class Migrating(Reader):
    """The migration of one broker, which is administered before the migration and during the dual-write phase."""

    def __init__(self, folder, places, cluster, zookeeper):
        super().__init__(folder, places)
        self.cluster, self.zookeeper = cluster, zookeeper
        self.controller = None
        self.before = {}
        self.wrong = set()
        self.planned = ""

    def wrote(self, name):
        if not name.startswith("brokers"):
            return
        added = {key: record.value for key, record in read_file(self.folder / name).items()}
        settings = OF_KRAFT
        if "process.roles" not in added:
            settings = {**OF_ZOOKEEPER, "zookeeper.connect": self.zookeeper}
        self.cluster.stop(BROKER)
        self.cluster.settings = {**settings, **added}
        self.cluster.start(BROKER)
        self.cluster.wait_ready()
        if "process.roles" in added:
            administer(self.cluster.bootstrap, 2)
        else:
            log = self.folder / "controller.log"
            until(lambda: MIGRATED in log.read_text(), MIGRATED, SECONDS)

    def typed(self, program, words):
        if program == "kafka-storage.sh":
            self._own_keys()
            found = json.loads(read(self.zookeeper)["/cluster/id"][0])["id"]
            words = [found if word == "CLUSTER_ID" else word for word in words]
            self._java("kafka.tools.StorageTool", words)
        elif program == "kafka-server-start.sh":
            command = old_clients.command(VERSION, "kafka.Kafka", words[-1])
            self.controller = background(self.folder, "controller", command)
        elif program == "kafka-server-stop.sh":
            self._wait_written()
            self.stop_controller()
        elif program == "sed":
            subprocess.run([program, *words], cwd=self.folder, check=True)
        elif words[:2] == ["zk", "resync"]:
            self._look_at_plan(words)
        else:
            super().typed(program, words)

    def _java(self, main, words):
        subprocess.run(old_clients.command(VERSION, main, *words), cwd=self.folder, check=True)

    def _own_keys(self):
        with (self.folder / "controller.properties").open("a") as file:
            file.writelines(f"{key}={value}\n" for key, value in OF_KRAFT.items())

    def _wait_written(self):
        """Waits until Kafka has written all current metadata of the quorum."""
        controllers = self.places["ctrl-1:9093"]
        status = trimaran("quorum", "status", "-B", controllers, "-o", "json").stdout
        end = json.loads(status)["high_watermark"] - 1

        def shown():
            return json.loads(read(self.zookeeper)["/migration"][0])["kraft_metadata_offset"]

        until(lambda: shown() >= end, "Kafka has written everything", SECONDS)

    def _look_at_plan(self, words):
        self.cluster.wait_ready()
        self.before = read(self.zookeeper)
        self.planned = self.trimaran(*words).stdout
        compare = ["zk", "verify", *words[words.index("-B") :], "-o", "json"]
        differences = json.loads(self.trimaran(*compare).stdout)["differences"]
        kinds = ("missing", "extra")
        self.wrong = {
            difference["path"] for difference in differences if difference["kind"] in kinds
        }
        assert read(self.zookeeper) == self.before

    def stop_controller(self):
        if self.controller is not None:
            self.controller.terminate()
            self.controller.wait(60)

    def close(self):
        super().close()
        self.stop_controller()


@pytest.fixture
def migrating(tmp_path):
    server = start_zookeeper(tmp_path / "zookeeper")
    zookeeper = f"{server.connect}/kafka"
    with reserve() as held:
        controller = f"127.0.0.1:{port_of(held)}"
    folder = tmp_path / "reader"
    folder.mkdir()
    places = {
        "ctrl-1:9093": controller,
        "zk-1:2181/kafka": zookeeper,
        "/var/lib/kafka": str(tmp_path / "controller"),
    }
    with zookeeper_mode.running(
        VERSION, tmp_path / "broker", zookeeper, (BROKER,), OF_ZOOKEEPER
    ) as cluster:
        reader = Migrating(folder, places, cluster, zookeeper)
        yield reader
        reader.close()
    server.stop()


def test_mirror_takes_over_tree_without_needless_writes(migrating):
    administer(migrating.cluster.bootstrap, 1)
    migrating.follow("To KRaft")
    migrating.follow("The mirror")
    before, after = migrating.before, read(migrating.zookeeper)
    written = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    made_or_deleted = written - (before.keys() & after.keys())
    meant = {path for path in written if MEANT.fullmatch(path)} | (
        made_or_deleted & migrating.wrong
    )
    meant |= {path for path in written - before.keys() if NOTE.fullmatch(path)}
    needless = sorted(written - meant)
    assert not needless, "\n".join(
        f"{path}: {before.get(path)} {after.get(path)}" for path in needless
    )
    assert f"/brokers/ids/{BROKER}" in written
    assert f"/brokers/ids/{BROKER}" in migrating.planned
    # Kafka leaves very few wrong znodes.
    assert len(migrating.wrong) < len(before) / 20, migrating.wrong
    users = [path for path in after if path.startswith("/config/users/")]
    assert any(b"SCRAM" in (after[path][0] or b"") for path in users)


MODULE = "org.apache.zookeeper.server.auth.DigestLoginModule required"
JAAS = f"""Server {{ {MODULE} user_kafka="kafka-secret"; }};
Client {{ {MODULE} username="kafka" password="kafka-secret"; }};
"""
PROVIDER = {"authProvider.1": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"}


class Securing(Reader):
    """A reader who checks the rights of other clients after each step."""

    def __init__(self, folder, places):
        super().__init__(folder, places)
        self.options = ""
        self.verify = []
        self.open = []  # the number of znodes that others may write, after each run of Kafka's tool

    def typed(self, program, words):
        if program == "export":
            self.options = words[0].removeprefix("KAFKA_OPTS=")
        elif program == "zookeeper-security-migration.sh":
            java, *rest = old_clients.command(VERSION, "kafka.admin.ZkSecurityMigrator", *words)
            subprocess.run([java, self.options, *rest], cwd=self.folder, check=True)
            report = json.loads(self.trimaran(*self.verify, "-o", "json").stdout)
            self.open.append(
                sum(difference["kind"] == "acl" for difference in report["differences"])
            )
        else:
            self.verify = words if words[:2] == ["zk", "verify"] else self.verify
            super().typed(program, words)


def test_mirror_takes_over_a_secured_tree(tmp_path):
    jaas = tmp_path / "kafka.jaas"
    jaas.write_text(JAAS)
    option = f"-Djava.security.auth.login.config={jaas}"
    server = start_zookeeper(tmp_path / "zookeeper", settings=PROVIDER, jvm_options=(option,))
    folder = tmp_path / "reader"
    folder.mkdir()
    shutil.copy(jaas, folder)
    with LocalCluster(tmp_path / "ours", "--brokers", "1", "--controllers", "1") as cluster:
        cluster.run("topics", "create", "orders", "-p", "2", "-r", "1")
        places = {"ctrl-1:9093": cluster.controllers, "zk-1:2181/kafka": f"{server.connect}/kafka"}
        reader = Securing(folder, places)
        try:
            reader.follow("A secured tree")
        finally:
            reader.close()
    server.stop()
    assert reader.open[0] > 20
    assert reader.open[1] == 0
