"""Administration with every client, checked with another one."""

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from tests.cluster.processes import until
from tests.librdkafka import AdminClient

WHAT = "administration"


def test_topic_is_created_extended_and_deleted(client, judge, cluster):
    name = f"life-{client.name}-{judge.name}"
    client.create_topic(name, 2, {"retention.ms": "60000"})
    cluster.wait_for_topic(name)
    assert set(judge.replicas(name)) == {0, 1}
    assert all(sorted(r) == sorted(cluster.brokers()) for r in judge.replicas(name).values())
    assert judge.config(name, "retention.ms") == "60000"
    assert judge.config(name, "cleanup.policy") == "delete"
    client.create_partitions(name, 5)
    until(lambda: len(judge.replicas(name)) == 5, "five partitions")
    client.delete_topic(name)
    until(lambda: name not in judge.topics(), "the topic is gone")


@pytest.mark.parametrize("client", ["confluent", "kafka-python"], indirect=True)
def test_configs_are_altered_incrementally(client, judge, topic):
    client.alter_config(topic, "max.message.bytes", "2048")
    client.alter_config(topic, "retention.ms", "1000")
    until(lambda: judge.config(topic, "retention.ms") == "1000", "the change is seen")
    until(lambda: judge.config(topic, "max.message.bytes") == "2048", "so is the one before")


def test_alter_configs_replaces_all_configs_for_old_client(clients, topic):
    """AlterConfigs: configs that a request does not name are reset to their defaults."""
    confluent = clients["confluent"]
    confluent.alter_config(topic, "max.message.bytes", "2048")
    until(lambda: confluent.config(topic, "max.message.bytes") == "2048", "the change is seen")
    clients["aiokafka"].alter_config(topic, "retention.ms", "1")
    until(lambda: confluent.config(topic, "retention.ms") == "1", "so is the old way's")
    assert confluent.config(topic, "max.message.bytes") == "1048588"


@pytest.mark.parametrize(("topic_name", "partitions"), [("bad/name", 1), ("no-partitions", 0)])
def test_refused_topic_raises_an_error(client, topic_name, partitions):
    with pytest.raises(Exception, match=r"(?i)invalid|topic_exception|partition"):
        client.create_topic(topic_name, partitions, {})
    assert topic_name not in client.topics()


def test_librdkafka_alters_quotas_and_credentials(cluster):
    """Only librdkafka sends these requests; without an authorizer there are no ACLs."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    credentials = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 8192)
    upsertion = UserScramCredentialUpsertion("alice", credentials, b"secret")
    admin.alter_user_scram_credentials([upsertion])["alice"].result(30)

    def described():
        found = admin.describe_user_scram_credentials().result(30)
        return {user: value.scram_credential_infos[0].iterations for user, value in found.items()}

    until(lambda: described() == {"alice": 8192}, "the credential is seen")
    deletion = UserScramCredentialDeletion("alice", ScramMechanism.SCRAM_SHA_256)
    admin.alter_user_scram_credentials([deletion])["alice"].result(30)
    until(lambda: described() == {}, "it is gone")
    binding = AclBinding(
        ResourceType.TOPIC,
        "orders",
        ResourcePatternType.LITERAL,
        "User:alice",
        "*",
        AclOperation.READ,
        AclPermissionType.ALLOW,
    )
    with pytest.raises(KafkaException, match=r"(?i)authorizer|security"):
        admin.create_acls([binding])[binding].result(30)
