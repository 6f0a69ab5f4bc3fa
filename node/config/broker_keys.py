"""Keys of brokers and of what controllers decide about them: sessions, replication, groups, transactions.

Source: Kafka's `KRaftConfigs`, `ReplicationConfigs`, `GroupCoordinatorConfig`, `TransactionLogConfig`.
"""

from __future__ import annotations

from node.config.config_def import INT_MAX, ConfigKey, at_least

BROKER = (
    ConfigKey("broker.heartbeat.interval.ms", "int", 2000, "Between heartbeats to the controller."),
    ConfigKey("broker.session.timeout.ms", "int", 9000, "Silence after which a broker is fenced."),
    ConfigKey(
        "initial.broker.registration.timeout.ms",
        "int",
        60_000,
        "A broker that cannot register gives up.",
    ),
    ConfigKey("broker.rack", "string", None, "Rack, for placement and reading nearby."),
    ConfigKey(
        "auto.leader.rebalance.enable",
        "boolean",
        True,
        "Give leadership back to preferred replicas.",
        importance="high",
    ),
    ConfigKey("leader.imbalance.per.broker.percentage", "int", 10, "Imbalance that is tolerated."),
    ConfigKey(
        "leader.imbalance.check.interval.seconds",
        "long",
        300,
        "Between checks of the imbalance.",
        at_least(1),
        importance="high",
    ),
    ConfigKey(
        "unclean.leader.election.enable",
        "boolean",
        False,
        "Let a replica outside the ISR lead.",
        scope="cluster-wide",
        importance="high",
    ),
    ConfigKey(
        "unclean.leader.election.interval.ms",
        "long",
        300_000,
        "Between looks at partitions without a leader whose topics allow unclean elections.",
        at_least(1000),
    ),
    ConfigKey(
        "controlled.shutdown.enable", "boolean", True, "Hand leaderships over before stopping."
    ),
    ConfigKey("delete.topic.enable", "boolean", True, "Topics may be deleted.", importance="high"),
    ConfigKey(
        "request.timeout.ms",
        "int",
        30_000,
        "How long an answer of another node is waited for.",
        importance="high",
    ),
    ConfigKey(
        "max.request.partition.size.limit",
        "int",
        2000,
        "Most partitions in a page of DescribeTopicPartitions.",
        at_least(1),
    ),
)
REPLICATION = (
    ConfigKey(
        "default.replication.factor", "int", 1, "Replicas of topics that do not say.", at_least(1)
    ),
    ConfigKey(
        "min.insync.replicas",
        "int",
        1,
        "Smallest ISR that admits acks=all.",
        at_least(1),
        scope="cluster-wide",
        importance="high",
    ),
    ConfigKey(
        "replica.lag.time.max.ms",
        "long",
        30_000,
        "A follower behind for longer leaves the ISR.",
        importance="high",
    ),
    ConfigKey(
        "replica.fetch.max.bytes",
        "int",
        1 << 20,
        "Bytes of one partition in a follower's fetch.",
        at_least(0),
    ),
    ConfigKey(
        "replica.fetch.response.max.bytes",
        "int",
        10 << 20,
        "Bytes of a follower's fetch.",
        at_least(0),
    ),
    ConfigKey(
        "replica.fetch.wait.max.ms",
        "int",
        500,
        "How long a follower's fetch waits.",
        importance="high",
    ),
    ConfigKey(
        "replica.fetch.min.bytes",
        "int",
        1,
        "Bytes a follower's fetch waits for.",
        importance="high",
    ),
    ConfigKey("replica.fetch.backoff.ms", "int", 1000, "Wait after a failed fetch.", at_least(0)),
    ConfigKey(
        "num.replica.fetchers",
        "int",
        1,
        "Fetchers per leader; one is enough here.",
        scope="cluster-wide",
        importance="high",
        check=at_least(1),
    ),
    ConfigKey(
        "replica.high.watermark.checkpoint.interval.ms",
        "long",
        5000,
        "Between writes of the high watermarks.",
        importance="high",
    ),
)
GROUPS = (
    ConfigKey(
        "offsets.topic.num.partitions",
        "int",
        50,
        "Partitions of __consumer_offsets.",
        at_least(1),
        importance="high",
    ),
    ConfigKey(
        "offsets.topic.replication.factor",
        "short",
        3,
        "Its replicas.",
        at_least(1),
        importance="high",
    ),
    ConfigKey(
        "offsets.topic.segment.bytes",
        "int",
        100 << 20,
        "Size of its segments.",
        at_least(1),
        importance="high",
    ),
    ConfigKey(
        "offsets.retention.minutes",
        "int",
        7 * 24 * 60,
        "Offsets of an empty group are kept this long.",
        at_least(1),
        importance="high",
    ),
    ConfigKey(
        "offsets.retention.check.interval.ms",
        "long",
        600_000,
        "Between looks for expired offsets.",
        at_least(1),
        importance="high",
    ),
    ConfigKey(
        "offsets.load.buffer.size",
        "int",
        5 << 20,
        "Bytes read at a time while loading.",
        at_least(1),
        importance="high",
    ),
    ConfigKey(
        "offsets.commit.timeout.ms",
        "int",
        5000,
        "How long a commit may take.",
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
    ConfigKey("group.min.session.timeout.ms", "int", 6000, "Shortest session of a member."),
    ConfigKey("group.max.session.timeout.ms", "int", 1_800_000, "Longest session of a member."),
    ConfigKey(
        "group.initial.rebalance.delay.ms",
        "int",
        3000,
        "A new group waits this long for more members.",
    ),
    ConfigKey("group.max.size", "int", INT_MAX, "Members of a group.", at_least(1)),
    ConfigKey(
        "transaction.state.log.replication.factor",
        "short",
        3,
        "Replicas of __transaction_state.",
        at_least(1),
        importance="high",
    ),
    ConfigKey(
        "transaction.state.log.num.partitions",
        "int",
        50,
        "Its partitions.",
        at_least(1),
        importance="high",
    ),
    ConfigKey(
        "transaction.state.log.min.isr",
        "int",
        2,
        "Its smallest ISR.",
        at_least(1),
        importance="high",
    ),
)
