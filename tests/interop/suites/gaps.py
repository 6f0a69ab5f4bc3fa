"""Third-party tests that failed on our cluster or on Apache Kafka, by suite, each with its reason."""

import json
from pathlib import Path


def of_file(suite: str) -> dict[str, str]:
    """Returns the reasons of a suite with many gaps: `reasons/SUITE.json` has the names of tests by reason and file."""
    text = (Path(__file__).parent / "reasons" / f"{suite}.json").read_text()
    return {
        f"{file}::{name}": reason
        for reason, files in json.loads(text).items()
        for file, names in files.items()
        for name in names
    }


BUSY_CLIENT = "a timeout of the client ran out; the machine was busy"
BUSY = "measures milliseconds; the machine was busy"
LONG = "not done after 25 minutes on a busy machine; each write waits for an fsync"
# On Kafka, a controller's answer may reach the client before the broker has applied the change.
EARLY = "reads a change before the broker has received it from the controller; passes in some runs"
_PROMISIFIED = "test/promisified"
# Tests that Kafka passes and we do not.
GAPS: dict[str, dict[str, str]] = {
    "franz-go-500000": {
        "TestGroupETL": LONG,
        "TestTxnEtl": LONG,
    },
    "librdkafka-sasl": {
        "0081_admin": BUSY_CLIENT,
    },
    "platformatic-kafka": {
        "::describeConfigs should include documentation and synonyms if requested (TOPIC resource type)": (
            "expects Apache Kafka's own documentation of a config"
        ),
    },
    "kafkactl": {
        "02 get topics -o wide": "the same configs in the order of their names",
    },
    "kcl": {
        "29 config describe 11 -t broker": "the differences are explained in `tests/node/config/test_described.py`",
    },
}
# Tests that fail on both, or only on Kafka.
LOADING = "gave up before the coordinator of groups had loaded"
PART = "one of its subtests failed"
ON_KAFKA: dict[str, dict[str, str]] = {
    "aiokafka": {
        "TestConsumerIntegration::test_max_poll_interval_ms": BUSY_CLIENT,
        **dict.fromkeys(
            (
                "TestKafkaSASL::test_admin_client_sasl_plaintext_scrum",
                "TestKafkaSASL::test_sasl_plaintext_scram",
            ),
            "sets two SCRAM credentials of one user in one request, which Kafka refuses",
        ),
    },
    "confluent-kafka-go": {
        "classic: TestAdminClient_UserScramCredentials": EARLY,
        "consumer: TestAdminConfig": EARLY,
    },
    "confluent-kafka-python": {
        "test_incremental_alter_configs::test_incremental_alter_configs": (
            "expects brokers without log.retention.bytes, which these have"
        ),
        "test_share_consumer::test_partition_max_record_locks_caps_in_flight": (
            "limits the records of one poll, but a batch is delivered whole"
        ),
    },
    "franz-go-500000": {
        "TestShareGroupETL": "took longer than its four minutes; the machine was busy",
    },
    "kafka-javascript": {
        f"{_PROMISIFIED}/admin/fetch_offsets.spec.js::fetchOffset function "
        "should handle multiple topics each with more than 1 partition": (
            "reads committed offsets before its last commit is answered"
        ),
        f"{_PROMISIFIED}/consumer/consumerCacheTests.spec.js::Consumer message cache - isAutoCommit = false - "
        "partitionsConsumedConcurrently = 1 - does not hold up polling for non-message events": (
            "the client delivers two of its messages twice in some runs"
        ),
    },
    "kafkajs": of_file("kafkajs"),
    "kafka-go": {
        "TestClientDeleteACLs": EARLY,
        "TestClientDescribeConfigs": EARLY,
        "TestClientElectLeaders": BUSY_CLIENT,
        "TestConn": PART,
        "TestConn/test_delete_topics": EARLY,
        "TestConn/test_delete_topics_with_an_invalid_topic": BUSY_CLIENT,
        "TestReaderConsumerGroup": PART,
        "TestReaderConsumerGroup/consumer_group_rebalance": BUSY_CLIENT,
        "TestReaderReadCompactedMessage": "requests segments below the minimum that Kafka allows since 4.0",
    },
    "librdkafka": {
        "0055_producer_latency": BUSY,
    },
    "librdkafka-idempotent": {
        "0001_multiobj": BUSY,
    },
    "librdkafka-sasl": {
        "0099_commit_metadata": LOADING,
    },
    "platformatic-kafka": {
        "::describeLogDirs should describe log directories for topics and support diagnostic channels": (
            "expects the directory of its own container"
        ),
        "::metadata should handle connection failures to non-existent broker": (
            "expects an address that drops packets; without a route to it, connections fail at once"
        ),
    },
    "sarama": {
        "TestFuncAdminListConsumerGroupOffsets": LOADING,
    },
}
# The tests of each suite that are not counted.
_WITHOUT_0174 = "0174; what needs no broker"
APART = {
    "franz-go-500000": "nothing",
    "librdkafka-idempotent": _WITHOUT_0174,
    "librdkafka-sasl": _WITHOUT_0174,
    "burrow": "nothing",
    "confluent-kafka-go": "what needs no broker",
    "kafka-go": "packages without a broker; three whose helper crashes",
    "kafka_exporter": "nothing",
    "kafkactl": "nothing",
    "kcat": "nothing",
    "kcl": "nothing",
    "kminion-adminApi": "nothing",
    "kminion-offsetsTopic": "nothing",
    "rskafka": "unit tests; what needs a proxy or Java",
    "rust-rdkafka": "unit tests",
    "franz-go": "nothing",
    "librdkafka": "what needs no broker",
    "kafka-python": "unit tests",
    "sarama": "unit tests; Java's programs in containers",
    "aiokafka": "Kerberos",
    "confluent-kafka-python": (
        "schema registry; tokens without a signature; commits, formats, logins of share consumers"
    ),
    "kafka-javascript": "its callback API",
    "kafkajs": "unit tests",
    "platformatic-kafka": "Kerberos; schema registry; what needs no broker",
    "applications": "nothing",
}
