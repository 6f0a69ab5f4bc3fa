"""Keys of brokers, and of the controllers' decisions about them: sessions, replication, groups, transactions.

Source: Kafka's `KRaftConfigs`, `ReplicationConfigs`, `GroupCoordinatorConfig`, `TransactionLogConfig`.
"""

from __future__ import annotations

from trimaran.node.config.config_def import INT_MAX, ConfigKey, at_least, one_of

# An operator's own classes cannot be loaded. The second name is trimaran's name of the first.
REPLICA_SELECTORS = ("org.apache.kafka.common.replica.RackAwareReplicaSelector", "rack-aware")

BROKER = (
    ConfigKey(
        "telemetry.max.bytes",
        "int",
        1 << 20,
        "Largest push of metrics by a client, as received; decompressed it may be up to four times as large.",
        at_least(1),
        importance="low",
    ),
    ConfigKey(
        "broker.heartbeat.interval.ms",
        "int",
        2000,
        "Time between two heartbeats to the controller.",
    ),
    ConfigKey(
        "broker.session.timeout.ms",
        "int",
        9000,
        "Time without a heartbeat after which a broker is fenced.",
    ),
    ConfigKey(
        "initial.broker.registration.timeout.ms",
        "int",
        60_000,
        "Time after which a broker stops that could not register.",
    ),
    ConfigKey("broker.rack", "string", None, "Rack of the broker, for the placement of replicas."),
    ConfigKey(
        "replica.selector.class",
        "string",
        None,
        "The choice of the replica from which a consumer reads: one in its own rack (client.rack).",
        one_of(*REPLICA_SELECTORS),
    ),
    ConfigKey(
        "auto.leader.rebalance.enable",
        "boolean",
        True,
        "Whether leadership is moved back to preferred replicas.",
        importance="high",
    ),
    ConfigKey(
        "leader.imbalance.per.broker.percentage",
        "int",
        10,
        "Share of a broker's leaderships that may lie elsewhere before they are moved back.",
        no_effect="as in Apache Kafka 4, every leadership that is not the preferred replica's is moved back",
        undeclared=True,
    ),
    ConfigKey(
        "leader.imbalance.check.interval.seconds",
        "long",
        300,
        "Time between two searches for leaderships to move back.",
        at_least(1),
        importance="high",
    ),
    ConfigKey(
        "unclean.leader.election.enable",
        "boolean",
        False,
        "Whether a replica outside the ISR may be elected leader, which may lose records.",
        scope="cluster-wide",
        importance="high",
    ),
    ConfigKey(
        "unclean.leader.election.interval.ms",
        "long",
        300_000,
        "Time between two searches for partitions without a leader whose topics allow unclean elections.",
        at_least(1),
        internal=True,
    ),
    ConfigKey(
        "controlled.shutdown.enable",
        "boolean",
        True,
        "Whether a broker that stops first requests that the controller move its leaderships.",
    ),
    ConfigKey(
        "delete.topic.enable", "boolean", True, "Whether topics may be deleted.", importance="high"
    ),
    ConfigKey(
        "request.timeout.ms",
        "int",
        30_000,
        "Time for which a request to another node waits for its response.",
        importance="high",
    ),
    ConfigKey(
        "max.request.partition.size.limit",
        "int",
        2000,
        "Maximum number of partitions in one response to DescribeTopicPartitions.",
        at_least(1),
    ),
)
REPLICATION = (
    ConfigKey(
        "default.replication.factor",
        "int",
        1,
        "Replicas of a topic that is created without a replication factor.",
        at_least(1),
    ),
    ConfigKey(
        "min.insync.replicas",
        "int",
        1,
        "Smallest ISR with which records sent with acks=all are accepted.",
        at_least(1),
        scope="cluster-wide",
        importance="high",
    ),
    ConfigKey(
        "replica.lag.time.max.ms",
        "long",
        30_000,
        "Time after which a follower that has not caught up leaves the ISR.",
        importance="high",
    ),
    ConfigKey(
        "replica.fetch.max.bytes",
        "int",
        1 << 20,
        "Maximum bytes of one partition that a follower requests in a fetch.",
        at_least(0),
    ),
    ConfigKey(
        "replica.socket.timeout.ms",
        "int",
        30_000,
        "Time for which a follower waits for a response, beyond replica.fetch.wait.max.ms.",
        at_least(1),
        importance="high",
    ),
    ConfigKey(
        "replica.fetch.response.max.bytes",
        "int",
        10 << 20,
        "Maximum bytes that a follower requests in a fetch.",
        at_least(0),
    ),
    ConfigKey(
        "replica.fetch.wait.max.ms",
        "int",
        500,
        "Longest time a follower's fetch waits for records.",
        importance="high",
    ),
    ConfigKey(
        "replica.fetch.min.bytes",
        "int",
        1,
        "Bytes that a follower's fetch waits for.",
        importance="high",
    ),
    ConfigKey(
        "replica.fetch.backoff.ms",
        "int",
        1000,
        "Longest wait before a follower tries again after a failed fetch; the first waits are shorter.",
        at_least(0),
    ),
    ConfigKey(
        "replica.high.watermark.checkpoint.interval.ms",
        "long",
        5000,
        "Time between two writes of the high watermarks.",
        importance="high",
    ),
)
GROUPS = (
    ConfigKey(
        "offsets.topic.num.partitions",
        "int",
        50,
        "Partitions of the topic __consumer_offsets.",
        at_least(1),
        importance="high",
    ),
    ConfigKey(
        "offsets.topic.replication.factor",
        "short",
        3,
        "Replicas of the topic __consumer_offsets.",
        at_least(1),
        importance="high",
    ),
    ConfigKey(
        "offsets.topic.segment.bytes",
        "int",
        100 << 20,
        "Segment size of the topic __consumer_offsets.",
        at_least(1),
        importance="high",
    ),
    ConfigKey(
        "offsets.retention.minutes",
        "int",
        7 * 24 * 60,
        "Time for which the offsets of an empty group are kept.",
        at_least(1),
        importance="high",
    ),
    ConfigKey(
        "offsets.retention.check.interval.ms",
        "long",
        600_000,
        "Time between two searches for expired offsets.",
        at_least(1),
        importance="high",
    ),
    ConfigKey(
        "offsets.load.buffer.size",
        "int",
        5 << 20,
        "Bytes read at a time while a coordinator loads its partitions.",
        at_least(1),
        importance="high",
    ),
    ConfigKey(
        "offsets.commit.timeout.ms",
        "int",
        5000,
        "Time a commit of offsets may take.",
        at_least(1),
        importance="high",
    ),
    ConfigKey(
        "offset.metadata.max.bytes",
        "int",
        4096,
        "Largest metadata of a committed offset.",
        importance="high",
    ),
    ConfigKey(
        "group.min.session.timeout.ms",
        "int",
        6000,
        "Shortest session timeout that a member of a group may request.",
    ),
    ConfigKey(
        "group.max.session.timeout.ms",
        "int",
        1_800_000,
        "Longest session timeout that a member of a group may request.",
    ),
    ConfigKey(
        "group.initial.rebalance.delay.ms",
        "int",
        3000,
        "Time a new group waits for more members.",
    ),
    ConfigKey(
        "group.max.size", "int", INT_MAX, "Maximum number of members of a group.", at_least(1)
    ),
)
