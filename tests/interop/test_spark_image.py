"""The metadata tables of Spark compared with Apache Kafka's own description of the same cluster: by its Admin API, its
tools, and its decoder of the metadata log.
"""

import json
import re

import pytest
from confluent_kafka import TopicCollection
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.interop import apache_kafka
from tests.librdkafka import AdminClient

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "super.users": "User:ANONYMOUS",
}
TOPIC_CONFIGS = {"retention.ms": "86400000", "cleanup.policy": "compact"}
ANY = AclBindingFilter(
    *(ResourceType.ANY, None, ResourcePatternType.ANY, None, None),
    *(AclOperation.ANY, AclPermissionType.ANY),
)
PAYLOAD = re.compile(r"^\| offset: (\d+) .*? payload: (.*)$")


def done(futures):
    return {key: future.result(60) for key, future in futures.items()}


def change_everything(admin, bootstrap):
    """Creates, grows and deletes topics, and sets configs, ACLs, SCRAM credentials, quotas, and a broker's config."""
    done(
        admin.create_topics(
            [NewTopic(f"topic-{i}", 1 + i, 1 + i % 2, config=TOPIC_CONFIGS) for i in range(9)]
        )
    )
    done(admin.create_partitions([NewPartitions("topic-2", 12)]))
    done(admin.delete_topics(["topic-5"]))
    entries = [ConfigEntry("retention.ms", "1", incremental_operation=AlterConfigOpType.SET)]
    resources = [
        ConfigResource(ConfigResource.Type.TOPIC, "topic-3", incremental_configs=entries),
        ConfigResource(
            ConfigResource.Type.BROKER,
            "11",
            incremental_configs=[
                ConfigEntry("log.cleaner.threads", "2", incremental_operation=AlterConfigOpType.SET)
            ],
        ),
    ]
    done(admin.incremental_alter_configs(resources))
    kinds = ((ResourceType.TOPIC, "topic-1"), (ResourceType.GROUP, "g"))
    patterns = (ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED)
    done(
        admin.create_acls(
            [
                AclBinding(
                    *(kind, name, pattern, "User:alice", "*"),
                    *(AclOperation.READ, AclPermissionType.ALLOW),
                )
                for (kind, name), pattern in zip(kinds, patterns, strict=True)
            ]
        )
    )
    scram = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    done(
        admin.alter_user_scram_credentials(
            [UserScramCredentialUpsertion("alice", scram, b"secret", b"salt")]
        )
    )
    quota = ("--entity-type", "users", "--entity-name", "alice")
    apache_kafka.tool(
        "configs",
        *("--bootstrap-server", bootstrap, "--alter", *quota),
        *("--add-config", "producer_byte_rate=1048576"),
    )


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """Stops the cluster; yields it, and Kafka's earlier descriptions as `{kind: …}`."""
    folder = tmp_path_factory.mktemp("image")
    with apache_kafka.running(folder, brokers=2, settings=SETTINGS) as kafka:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        change_everything(admin, kafka.bootstrap)
        yield kafka, asked(admin, kafka)


def url_safe(topic_id):
    """Returns an id in Kafka's form; librdkafka uses the other alphabet of base64."""
    return str(topic_id).replace("+", "-").replace("/", "_")


def asked(admin, kafka):
    names = [name for name in admin.list_topics(timeout=20).topics if name.startswith("topic-")]
    described = done(admin.describe_topics(TopicCollection(names)))
    resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in names]
    dynamic = {
        (resource.restype.name, resource.name, entry.name): entry.value
        for resource, entries in done(admin.describe_configs(resources)).items()
        for entry in entries.values()
        if entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    }
    [broker] = done(
        admin.describe_configs([ConfigResource(ConfigResource.Type.BROKER, "11")])
    ).values()
    dynamic |= {
        ("BROKER", "11", entry.name): entry.value
        for entry in broker.values()
        if entry.source == ConfigSource.DYNAMIC_BROKER_CONFIG.value
    }
    server = ("--bootstrap-server", kafka.bootstrap)
    return {
        "topics": {name: url_safe(topic.topic_id) for name, topic in described.items()},
        "partitions": {
            (name, part.id): (
                part.leader.id,
                [node.id for node in part.replicas],
                sorted(node.id for node in part.isr),
            )
            for name, topic in described.items()
            for part in topic.partitions
        },
        "configs": dynamic,
        "brokers": {
            node.id: (node.host, node.port) for node in admin.list_topics().brokers.values()
        },
        "acls": {
            (
                acl.restype.name,
                acl.name,
                acl.resource_pattern_type.name,
                *(acl.principal, acl.host, acl.operation.name, acl.permission_type.name),
            )
            for acl in admin.describe_acls(ANY).result(60)
        },
        "scram": {
            user: [
                f"{info.mechanism.name.replace('_', '-')}:{info.iterations}"
                for info in value.scram_credential_infos
            ]
            for user, value in admin.describe_user_scram_credentials().result(60).items()
        },
        "features": apache_kafka.tool("features", *server, "describe").stdout,
        "quorum": apache_kafka.tool("metadata-quorum", *server, "describe", "--status").stdout,
        "quotas": apache_kafka.tool(
            "configs", *server, "--describe", "--entity-type", "users"
        ).stdout,
    }


@pytest.fixture(scope="module")
def spark():
    from trimaran.spark.sessions.session import session

    made = session(app_name="interop")
    yield made
    made.stop()


@pytest.fixture(scope="module")
def image(told, spark):
    kafka, _ = told
    source = spark.read.format("kafka_metadata").option("table", "image")
    rows = {}
    for row in source.load(str(kafka.controllers[0].directory)).collect():
        rows.setdefault(row.kind, []).append(row)
    return rows


def of_ours(rows):
    return [row for row in rows if row.topic is None or row.topic.startswith("topic-")]


def test_topics_and_partitions_match_kafkas_admin(told, image):
    _, theirs = told
    assert {row.name: row.topic_id for row in of_ours(image["topic"])} == theirs["topics"]
    ours = {
        (row.topic, row.partition): (row.leader, row.replicas, sorted(row.isr))
        for row in of_ours(image["partition"])
    }
    assert ours == theirs["partitions"]
    assert len(ours) == sum(1 + i for i in range(9)) - 6 + 9


def test_configs_and_brokers_match_kafkas_admin(told, image):
    _, theirs = told
    ours = {
        (row.resource_type, row.resource_name, row.name): row.value
        for row in of_ours(image["config"])
        if row.resource_name and not row.resource_name.startswith("__")
    }
    assert ours == theirs["configs"]
    assert ours["TOPIC", "topic-3", "retention.ms"] == "1"
    found = {}
    for row in image["broker"]:
        [endpoint] = json.loads(row.payload)["listeners"]
        found[row.broker_id] = (endpoint["host"], endpoint["port"])
    assert found == theirs["brokers"]


def test_security_tables_match_kafkas_tools(told, image):
    _, theirs = told
    keys = ("resource_type", "resource_name", "pattern_type", "principal", "host")
    acls = [json.loads(row.payload) for row in image["acl"]]
    ours = {tuple(acl[key] for key in (*keys, "operation", "permission_type")) for acl in acls}
    assert ours == theirs["acls"]
    assert len(ours) == 2
    assert {row.name: row.value.split(", ") for row in image["scram"]} == theirs["scram"]
    [quota] = image["client_quota"]
    assert (quota.name, quota.value) == ("user=alice", "producer_byte_rate=1048576")
    assert "producer_byte_rate=1048576.0" in theirs["quotas"]
    assert "user-principal 'alice'" in theirs["quotas"]


def test_features_and_quorum_match_kafkas_tools(told, image):
    _, theirs = told
    levels = dict(re.findall(r"Feature: (\S+).*FinalizedVersionLevel: (\S+)", theirs["features"]))
    level = image["feature"]
    ours = {row.name: row.value for row in level if row.name != "metadata.version"}
    assert ours.items() <= levels.items()
    assert len(ours) > 3
    [quorum] = image["quorum"]
    assert re.search(rf"^LeaderId:\s+{quorum.leader}$", theirs["quorum"], re.MULTILINE)


def test_records_are_those_that_kafkas_decoder_prints(told, spark):
    """Order, types, versions and names are compared; of `payload`, which is JSON of another form, only the names."""
    kafka, _ = told
    directory = kafka.controllers[0].directory
    log = directory / "__cluster_metadata-0" / "00000000000000000000.log"
    text = apache_kafka.tool("dump-log", "--cluster-metadata-decoder", "--files", str(log)).stdout
    found = (PAYLOAD.match(line) for line in text.splitlines())
    theirs = {
        int(item[1]): json.loads(item[2]) for item in found if item and item[2].startswith("{")
    }
    source = spark.read.format("kafka_metadata").options(table="records", includeUncommitted="true")
    ours = {
        row.offset: row
        for row in source.load(str(directory)).where("source = 'log'").collect()
        if row.offset <= max(theirs)
    }
    assert ours.keys() == theirs.keys()
    assert len(ours) > 100
    for offset, record in theirs.items():
        row, data = ours[offset], record["data"]
        kind = re.sub("(?<!^)(?=[A-Z])", "_", row.type).upper()
        assert (kind, row.version) == (record["type"], record["version"])
        assert [row.partition, row.broker_id] == [data.get("partitionId"), data.get("brokerId")]
        if "topicId" in data:
            assert row.topic_id == data["topicId"]
