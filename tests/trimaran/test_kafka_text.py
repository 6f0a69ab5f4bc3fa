"""The texts of `-o kafka`, as Apache Kafka 4.4's tools print them for the same cluster."""

from trimaran.cli import kafka_text

PARTITION = {
    "partition": 0,
    "leader": 13,
    "replicas": [13, 11],
    "isr": [13],
    "elr": [11],
    "last_known_elr": None,
}
TOPIC = {
    "topic": "orders",
    "topic_id": "JttXEYOdADYg0aM0uBuR4w",
    "configs": {"min.insync.replicas": "1", "retention.ms": "86400000"},
    "partitions": [PARTITION, {**PARTITION, "partition": 1, "leader": -1}],
}


def test_topic_has_a_line_for_each_partition():
    assert kafka_text.topic_description(TOPIC, {}) == (
        "Topic: orders\tTopicId: JttXEYOdADYg0aM0uBuR4w\tPartitionCount: 2\tReplicationFactor: 2"
        "\tConfigs: min.insync.replicas=1,retention.ms=86400000\n"
        "\tTopic: orders\tPartition: 0\tLeader: 13\tReplicas: 13,11\tIsr: 13\tElr: 11\tLastKnownElr: N/A\n"
        "\tTopic: orders\tPartition: 1\tLeader: none\tReplicas: 13,11\tIsr: 13\tElr: 11\tLastKnownElr: N/A"
    )


def test_moving_topic_shows_adding_and_removing_replicas():
    text = kafka_text.topic_description(TOPIC, {0: {"adding": [11], "removing": [13]}})
    assert "ReplicationFactor: 1\t" in text
    assert "\tIsr: 13\tAdding Replicas: 11\tRemoving Replicas: 13\tElr: 11" in text


def test_table_ends_each_cell_with_a_tab():
    assert kafka_text.table(["A", "Long"], [("one", 2)]) == "A  \tLong\t\none\t2   \t"


def test_configs_of_a_resource_and_of_all_brokers():
    row = {
        "name": "retention.ms",
        "value": "1",
        "is_sensitive": False,
        "config_source": "DYNAMIC_TOPIC_CONFIG",
        "synonyms": [
            {"source": "DYNAMIC_TOPIC_CONFIG", "name": "retention.ms", "value": "1"},
            {"source": "DEFAULT_CONFIG", "name": "log.retention.ms", "value": None},
        ],
    }
    other = {**row, "name": "x", "config_source": "DEFAULT_CONFIG", "synonyms": []}
    assert kafka_text.configs("topic", "t", [row, other], every=False) == (
        "Dynamic configs for topic t are:\n  retention.ms=1 sensitive=false "
        "synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=1, DEFAULT_CONFIG:log.retention.ms=null}"
    )
    assert "\n  x=1 " in kafka_text.configs("topic", "t", [row, other], every=True)
    assert kafka_text.configs("broker", "", [], every=False) == (
        "Default configs for brokers in the cluster are:"
    )


def test_static_voter_has_no_directory():
    voter = {"id": 1, "role": "leader", "log_end_offset": 9, "last_caught_up_ms": 1, "lag": 0}
    voter |= {"directory_id": None, "endpoints": ["CONTROLLER://localhost:9093"]}
    observer = {**voter, "id": 11, "role": "observer", "directory_id": "To-8QAIUZixaCqy2z0VE0w"}
    fields = {"leader_id": 1, "leader_epoch": 3, "high_watermark": 8}
    told = kafka_text.quorum_status("me", fields, [voter, {**observer, "endpoints": []}])
    assert told.splitlines()[-2:] == [
        'CurrentVoters:          [{"id": 1, "endpoints": ["CONTROLLER://localhost:9093"]}]',
        'CurrentObservers:       [{"id": 11, "directoryId": "To-8QAIUZixaCqy2z0VE0w"}]',
    ]
