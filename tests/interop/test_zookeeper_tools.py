"""Unmodified tools of Kafka 0.8.2, 1.1 and 2.8 with `--zookeeper` administer our cluster: they read the mirror's
znodes, and their writes are carried out.
"""

import json

import pytest

from tests.cluster.processes import until
from tests.interop import old_clients
from tests.interop.conftest import Ours, trimaran
from trimaran.zkcompat.zookeeper.server_process import start_zookeeper

VERSIONS = ("0.8.2.2", "1.1.1", "2.8.2")
SECONDS = 60.0
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


@pytest.fixture(scope="module")
def obeying(tmp_path_factory):
    """Starts three controllers, three brokers, a ZooKeeper, and a mirror that carries out old tools' writes."""
    data = tmp_path_factory.mktemp("obeying")
    options = (
        "trimaran.zk.legacy.admin.enable=true",
        f"authorizer.class.name={AUTHORIZER}",
        "super.users=User:ANONYMOUS",
    )
    overrides = [word for option in options for word in ("--override", option)]
    state = json.loads(trimaran("up", "-d", "--zk", "-o", "json", *overrides, data=data).stdout)
    yield Ours(data, state)
    trimaran("down", data=data)


def tool(ours, version, main, *arguments):
    return old_clients.run(version, main, "--zookeeper", ours.zookeeper, *arguments)


def topics_tool(ours, version, *arguments):
    return tool(ours, version, "kafka.admin.TopicCommand", *arguments)


def described(ours, topic):
    """Returns the partitions of a topic as the brokers report them; none if the topic does not exist."""
    found = ours.run("topics", "describe", topic, "-o", "json", check=False)
    if found.returncode:
        return {}
    return {row["partition"]: row for row in json.loads(found.stdout)["partitions"]}


def configs(ours, kind, name):
    found = ours.run("configs", "get", f"{kind}/{name}", "-o", "json", check=False)
    return {} if found.returncode else {r["name"]: r["value"] for r in json.loads(found.stdout)}


def znode(ours, path):
    """Returns the text of a znode; None if it does not exist."""
    found = ours.run("zk", "get", path, "-o", "json", check=False)
    return json.loads(found.stdout)["text"] if found.returncode == 0 else None


def is_there(ours, path):
    return ours.run("zk", "get", path, check=False).returncode == 0


@pytest.mark.parametrize("version", VERSIONS)
def test_topic_is_created_changed_and_deleted(obeying, version):
    topic = f"life-{version}"
    create = ("--create", "--topic", topic, "--partitions", "2", "--replication-factor", "2")
    topics_tool(obeying, version, *create, "--config", "retention.ms=86400000")
    until(lambda: len(described(obeying, topic)) == 2, "it is created", SECONDS)
    obeying.run("produce", topic, stdin="a line\n")
    assert obeying.run("consume", topic, "-e").stdout == "a line\n"
    until(
        lambda: is_there(obeying, f"/brokers/topics/{topic}/partitions/1/state"), "shown", SECONDS
    )

    listed = topics_tool(obeying, version, "--list")
    assert topic in listed.split()
    shown = topics_tool(obeying, version, "--describe", "--topic", topic)
    assert "PartitionCount: 2" in shown.replace("PartitionCount:2", "PartitionCount: 2")
    assert "retention.ms=86400000" in shown
    assert "Leader: -1" not in shown

    topics_tool(obeying, version, "--alter", "--topic", topic, "--partitions", "4")
    until(lambda: len(described(obeying, topic)) == 4, "it has more partitions", SECONDS)

    topics_tool(obeying, version, "--delete", "--topic", topic)
    until(lambda: not described(obeying, topic), "it is deleted", SECONDS)
    until(lambda: not is_there(obeying, f"/admin/delete_topics/{topic}"), "nobody waits", SECONDS)
    until(lambda: not is_there(obeying, f"/brokers/topics/{topic}"), "nor is it shown", SECONDS)


@pytest.mark.parametrize("version", VERSIONS)
def test_topic_configs_are_changed(obeying, version):
    topic = f"configs-{version}"
    obeying.run("topics", "create", topic)
    until(lambda: is_there(obeying, f"/config/topics/{topic}"), "it is shown", SECONDS)

    def alter(add, delete):
        if version == "0.8.2.2":
            arguments = ("--alter", "--topic", topic, "--config", add)
            topics_tool(
                obeying, version, *arguments, *(("--delete-config", delete) if delete else ())
            )
        else:
            entity = ("--entity-type", "topics", "--entity-name", topic)
            arguments = ("--alter", *entity, "--add-config", add)
            deleted = ("--delete-config", delete) if delete else ()
            main = "kafka.admin.ConfigCommand"
            tool(obeying, version, main, *arguments, *deleted)

    alter("retention.ms=1000000", None)
    until(lambda: configs(obeying, "topic", topic).get("retention.ms") == "1000000", "set", SECONDS)
    alter("segment.bytes=2000000", "retention.ms")
    until(
        lambda: configs(obeying, "topic", topic).get("segment.bytes") == "2000000", "set", SECONDS
    )
    assert configs(obeying, "topic", topic).get("retention.ms") != "1000000"


@pytest.mark.parametrize("version", ["1.1.1", "2.8.2"])
def test_quotas_are_changed_and_unsupported_writes_reported(obeying, version):
    user = f"user-{version}"

    def alter(*arguments):
        entity = ("--entity-type", "users", "--entity-name", user)
        tool(obeying, version, "kafka.admin.ConfigCommand", "--alter", *entity, *arguments)

    alter("--add-config", "consumer_byte_rate=4096,producer_byte_rate=2048")
    main = "kafka.admin.ConfigCommand"
    arguments = ("--describe", "--entity-type", "users", "--entity-name", user)

    def by_the_quorum():
        command = ("--bootstrap-server", obeying.bootstrap, *arguments)
        return old_clients.run("2.8.2", main, *command)

    until(lambda: "consumer_byte_rate=4096" in by_the_quorum(), "the quorum has it", SECONDS)
    alter("--delete-config", "consumer_byte_rate")
    until(lambda: "consumer_byte_rate" not in by_the_quorum(), "and has it no more", SECONDS)
    assert "producer_byte_rate=2048" in by_the_quorum()
    alter("--add-config", "SCRAM-SHA-256=[password=secret]")
    log = obeying.directory("mirror.log")
    said = f"alter SCRAM-SHA-256 of user {user} (scram is not among the kinds that are obeyed"
    until(lambda: said in log.read_text(), "it is said", SECONDS)


@pytest.fixture(scope="module")
def storing(tmp_path_factory):
    """Starts controllers with the mirror inside, which may store credentials."""
    data = tmp_path_factory.mktemp("storing")
    server = start_zookeeper(data / "zookeeper")
    options = (
        "trimaran.zk.mirror.enable=true",
        f"zookeeper.connect={server.connect}",
        "trimaran.zk.auth=digest:mirror:secret",
        "trimaran.zk.mirror.secrets.enable=true",
        "trimaran.zk.legacy.admin.enable=true",
        "trimaran.zk.legacy.admin.kinds=quota,scram",
    )
    overrides = [word for option in options for word in ("--override", option)]
    state = json.loads(trimaran("up", "-d", "-o", "json", *overrides, data=data).stdout)
    yield Ours(data, state), server.connect
    trimaran("down", data=data)
    server.stop()


@pytest.mark.parametrize("version", ["1.1.1", "2.8.2"])
def test_credentials_are_stored_by_our_controllers(storing, version):
    ours, connect = storing
    main, entity = "kafka.admin.ConfigCommand", ("--entity-type", "users", "--entity-name")
    user = f"user-{version}"

    def alter(*arguments):
        old_clients.run(version, main, "--zookeeper", connect, "--alter", *entity, user, *arguments)

    def known():
        asked = ("--bootstrap-server", ours.bootstrap, "--describe", *entity, user)
        return old_clients.run("2.8.2", main, *asked)

    alter("--add-config", "SCRAM-SHA-512=[iterations=8192,password=secret]")
    until(lambda: "SCRAM-SHA-512=iterations=8192" in known(), "it is stored", SECONDS)
    with pytest.raises(AssertionError, match="NoAuth"):
        alter("--delete-config", "SCRAM-SHA-512")


@pytest.mark.parametrize("version", list(old_clients.AUTHORIZERS))
def test_acls(obeying, version):
    def acls(*arguments):
        return old_clients.acls(version, obeying.zookeeper, *arguments)

    def by_the_quorum():
        listed = ("--bootstrap-server", obeying.bootstrap, "--list")
        return old_clients.run("2.8.2", "kafka.admin.AclCommand", *listed)

    principal = f"User:of-old-{version}"
    acl = ("--allow-principal", principal, "--operation", "Alter", "--cluster")
    acls("--add", *acl)
    until(lambda: principal in by_the_quorum(), "the quorum has it", SECONDS)
    assert principal in acls("--list")
    acls("--remove", "--force", *acl)
    until(lambda: principal not in by_the_quorum(), "and has it no more", SECONDS)


@pytest.mark.parametrize("version", VERSIONS)
def test_partitions_move_and_get_preferred_leaders(obeying, version, tmp_path):
    topic = f"moving-{version}"
    obeying.run("topics", "create", topic, "-p", "1", "-r", "2")
    row = until(lambda: described(obeying, topic), "it is there", SECONDS)[0]
    old = row["replicas"]
    new = [next(b for b in (11, 12, 13) if b not in old), old[0]]
    until(
        lambda: is_there(obeying, f"/brokers/topics/{topic}/partitions/0/state"), "shown", SECONDS
    )
    plan = tmp_path / "plan.json"
    move = {"topic": topic, "partition": 0, "replicas": new}
    plan.write_text(json.dumps({"version": 1, "partitions": [move]}))
    main = "kafka.admin.ReassignPartitionsCommand"
    file = ("--reassignment-json-file", str(plan))
    throttle = () if version == "0.8.2.2" else ("--throttle", "50000000")
    printed = tool(obeying, version, main, *file, "--execute", *throttle)
    assert "uccessfully started" in printed
    until(lambda: not is_there(obeying, "/admin/reassign_partitions"), "it is done", SECONDS)
    assert described(obeying, topic)[0]["replicas"] == new
    assert "completed successfully" in tool(obeying, version, main, *file, "--verify").replace(
        "is complete.", "completed successfully"
    )
    if throttle:
        until(
            lambda: "50000000" not in (znode(obeying, f"/config/brokers/{new[0]}") or ""),
            "the throttle is taken back",
            SECONDS,
        )

    chosen = tmp_path / "election.json"
    chosen.write_text(json.dumps({"partitions": [{"topic": topic, "partition": 0}]}))
    main = "kafka.admin.PreferredReplicaLeaderElectionCommand"
    tool(obeying, version, main, "--path-to-json-file", str(chosen))
    until(lambda: described(obeying, topic)[0]["leader"] == new[0], "it leads", SECONDS)
    assert not is_there(obeying, "/admin/preferred_replica_election")


def test_offset_checker_prints_the_lag(obeying):
    """The tool of 0.8.2 prints the lag of a group with offsets in ZooKeeper."""
    topic = "checked"
    obeying.run("topics", "create", topic, "-p", "1", "-r", "2")
    obeying.run("produce", topic, stdin="".join(f"line {number}\n" for number in range(7)))
    until(
        lambda: is_there(obeying, f"/brokers/topics/{topic}/partitions/0/state"), "shown", SECONDS
    )
    consume = ("--topic", topic, "--from-beginning", "--max-messages", "5")
    settings = obeying.data / "checked.properties"
    settings.write_text("group.id=checkers\nzookeeper.session.timeout.ms=6000\n")
    main = "kafka.tools.ConsoleConsumer"
    tool(obeying, "0.8.2.2", main, *consume, "--consumer.config", str(settings))
    group = ("--group", "checkers", "--topic", topic)

    def checked():
        """Returns the tool's row, which is incomplete while the coordinator is loading, because the tool does not
        retry.
        """
        printed = tool(obeying, "0.8.2.2", "kafka.tools.ConsumerOffsetChecker", *group)
        (line,) = [line.split() for line in printed.splitlines() if line.startswith("checkers")]
        return line[1:6]

    until(lambda: checked() == [topic, "0", "5", "7", "2"], "the lag is told", SECONDS)
