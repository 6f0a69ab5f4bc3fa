"""The texts of `-o kafka`, as Apache Kafka 4.3's tools print them for the same cluster."""

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


def test_a_topic():
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


def test_groups_have_columns_that_grow():
    row = {"topic": "orders", "partition": 2, "committed": 5, "end": 9, "lag": 4}
    of_member = {"member": "me-1", "host": "/127.0.0.1", "client": "me"}
    lines = kafka_text.group_offsets("readers", [{**row, **of_member}]).split("\n")
    assert lines[0] == ""
    assert lines[1].split() == (
        [
            "GROUP",
            "TOPIC",
            "PARTITION",
            "CURRENT-OFFSET",
            "LOG-END-OFFSET",
            "LAG",
            "CONSUMER-ID",
            "HOST",
            "CLIENT-ID",
        ]
    )
    assert lines[2] == (
        "readers         orders          2          5               9               4               "
        "me-1            /127.0.0.1      me"
    )
    nobody = dict.fromkeys(of_member)
    longer = kafka_text.group_offsets("a-group-of-many-letters", [{**row, **nobody}]).split("\n")
    assert longer[2].startswith("a-group-of-many-letters orders          2 ")
    assert longer[2].endswith(" -               -               -")


def test_the_state_of_a_group():
    group = {
        "group": "readers",
        "coordinator_address": "127.0.0.1:27749",
        "coordinator": 13,
        "assignor": "range",
        "state": "Stable",
        "members": [{}],
    }
    assert kafka_text.group_state(group) == (
        "\nGROUP           COORDINATOR (ID)          ASSIGNMENT-STRATEGY  STATE                #MEMBERS"
        "\nreaders         127.0.0.1:27749  (13)     range                Stable               1"
    )


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
