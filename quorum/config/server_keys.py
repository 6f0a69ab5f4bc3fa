"""The configuration keys of a node that we act on, with Apache Kafka 4.3's defaults, and ours prefixed `trimaran.`.

Source: Kafka's `KafkaConfig` and the classes it gathers (`KRaftConfigs`, `QuorumConfig`, `ServerLogConfigs`, `ReplicationConfigs`,
`SocketServerConfigs`, `GroupCoordinatorConfig`). A key of Kafka's that is not here warns as unknown and does nothing.
"""

from __future__ import annotations

from quorum.config.definition import (
    INT_MAX,
    LONG_MAX,
    ConfigDef,
    ConfigKey,
    all_of,
    at_least,
    between,
    one_of,
)
from quorum.config.topic_keys import CODECS

HOUR_MS = 3600 * 1000

ROLES = (
    ConfigKey(
        "process.roles",
        "list",
        [],
        "Roles of this process.",
        all_of("broker", "controller"),
        required=True,
    ),
    ConfigKey(
        "node.id", "int", -1, "Id of this node, unique in the cluster.", at_least(0), required=True
    ),
    ConfigKey(
        "controller.listener.names", "list", [], "Listeners that controllers use.", required=True
    ),
    ConfigKey("controller.quorum.voters", "list", [], "Static voters, id@host:port."),
    ConfigKey(
        "controller.quorum.bootstrap.servers", "list", [], "Where to find the quorum, host:port."
    ),
    ConfigKey("server.max.startup.time.ms", "long", LONG_MAX, "Longest start.", at_least(0)),
)
LISTENERS = (
    ConfigKey(
        "listeners", "list", ["PLAINTEXT://:9092"], "Addresses to listen on, NAME://host:port."
    ),
    ConfigKey(
        "advertised.listeners", "list", None, "Addresses told to clients; `listeners` when not set."
    ),
    ConfigKey(
        "listener.security.protocol.map",
        "list",
        ["SASL_SSL:SASL_SSL", "PLAINTEXT:PLAINTEXT", "SSL:SSL", "SASL_PLAINTEXT:SASL_PLAINTEXT"],
        "Security protocol of each listener name.",
    ),
    ConfigKey(
        "inter.broker.listener.name", "string", None, "Listener that brokers reach each other by."
    ),
    ConfigKey(
        "max.connections",
        "int",
        INT_MAX,
        "Connections of a node.",
        at_least(0),
        scope="cluster-wide",
    ),
    ConfigKey(
        "max.connections.per.ip",
        "int",
        INT_MAX,
        "Connections of one address.",
        at_least(0),
        scope="cluster-wide",
    ),
    ConfigKey(
        "connections.max.idle.ms", "long", 600_000, "An idle connection is closed after this."
    ),
    ConfigKey("socket.request.max.bytes", "int", 100 << 20, "Largest request.", at_least(1)),
    ConfigKey(
        "socket.listen.backlog.size",
        "int",
        50,
        "Connections waiting to be accepted; ours is never below 1024.",
        at_least(1),
    ),
    ConfigKey(
        "queued.max.requests", "int", 500, "Requests taken before answers leave.", at_least(1)
    ),
)
QUORUM = (
    ConfigKey(
        "controller.quorum.election.timeout.ms", "int", 1000, "How long an election may take."
    ),
    ConfigKey(
        "controller.quorum.election.backoff.max.ms",
        "int",
        1000,
        "Longest wait before another election.",
    ),
    ConfigKey(
        "controller.quorum.fetch.timeout.ms",
        "int",
        2000,
        "Silence after which a leader is doubted.",
    ),
    ConfigKey(
        "controller.quorum.append.linger.ms",
        "int",
        25,
        "Kafka's linger; proposals are batched without one here.",
    ),
    ConfigKey(
        "controller.quorum.request.timeout.ms", "int", 2000, "How long an answer is waited for."
    ),
    ConfigKey(
        "controller.quorum.retry.backoff.ms", "int", 20, "Wait before a request is sent again."
    ),
)
METADATA_LOG = (
    ConfigKey(
        "metadata.log.dir",
        "string",
        None,
        "Directory of the metadata log; the first of log.dirs when not set.",
    ),
    ConfigKey(
        "metadata.log.segment.bytes", "int", 1 << 30, "Size of its segments.", at_least(8 << 20)
    ),
    ConfigKey("metadata.log.segment.ms", "long", 7 * 24 * HOUR_MS, "Age of its segments."),
    ConfigKey(
        "metadata.log.max.record.bytes.between.snapshots",
        "long",
        20 << 20,
        "Log bytes after which a snapshot is written.",
        at_least(1),
    ),
    ConfigKey(
        "metadata.log.max.snapshot.interval.ms",
        "long",
        HOUR_MS,
        "Longest time between snapshots; 0 never.",
        at_least(0),
    ),
    ConfigKey(
        "metadata.max.retention.bytes",
        "long",
        100 << 20,
        "Metadata log and snapshots are kept up to this.",
    ),
    ConfigKey(
        "metadata.max.retention.ms",
        "long",
        7 * 24 * HOUR_MS,
        "Metadata log and snapshots are kept this long.",
    ),
    ConfigKey(
        "metadata.max.idle.interval.ms",
        "int",
        500,
        "A no-op record is written in an idle quorum; 0 never.",
        at_least(0),
    ),
)
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
    ),
    ConfigKey("leader.imbalance.per.broker.percentage", "int", 10, "Imbalance that is tolerated."),
    ConfigKey(
        "leader.imbalance.check.interval.seconds",
        "long",
        300,
        "Between checks of the imbalance.",
        at_least(1),
    ),
    ConfigKey(
        "unclean.leader.election.enable",
        "boolean",
        False,
        "Let a replica outside the ISR lead.",
        scope="cluster-wide",
    ),
    ConfigKey(
        "controlled.shutdown.enable", "boolean", True, "Hand leaderships over before stopping."
    ),
    ConfigKey("delete.topic.enable", "boolean", True, "Topics may be deleted."),
    ConfigKey(
        "request.timeout.ms", "int", 30_000, "How long an answer of another node is waited for."
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
    ),
    ConfigKey(
        "replica.lag.time.max.ms", "long", 30_000, "A follower behind for longer leaves the ISR."
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
    ConfigKey("replica.fetch.wait.max.ms", "int", 500, "How long a follower's fetch waits."),
    ConfigKey("replica.fetch.min.bytes", "int", 1, "Bytes a follower's fetch waits for."),
    ConfigKey("replica.fetch.backoff.ms", "int", 1000, "Wait after a failed fetch.", at_least(0)),
    ConfigKey(
        "num.replica.fetchers",
        "int",
        1,
        "Fetchers per leader; one is enough here.",
        scope="cluster-wide",
    ),
    ConfigKey(
        "replica.high.watermark.checkpoint.interval.ms",
        "long",
        5000,
        "Between writes of the high watermarks.",
    ),
)
LOGS = (
    ConfigKey(
        "log.dir", "string", "/tmp/kafka-logs", "Directory of the logs when log.dirs is not set."
    ),
    ConfigKey("log.dirs", "list", None, "Directories of the logs."),
    ConfigKey("num.partitions", "int", 1, "Partitions of topics that do not say.", at_least(1)),
    ConfigKey("auto.create.topics.enable", "boolean", True, "Create topics that clients ask for."),
    ConfigKey(
        "log.segment.bytes",
        "int",
        1 << 30,
        "Size at which a segment is rolled.",
        at_least(1 << 20),
        scope="cluster-wide",
    ),
    ConfigKey(
        "log.roll.ms", "long", None, "Age at which a segment is rolled.", scope="cluster-wide"
    ),
    ConfigKey("log.roll.hours", "int", 168, "The same in hours.", at_least(1)),
    ConfigKey(
        "log.roll.jitter.ms", "long", None, "Random part of log.roll.ms.", scope="cluster-wide"
    ),
    ConfigKey("log.roll.jitter.hours", "int", 0, "The same in hours.", at_least(0)),
    ConfigKey("log.retention.ms", "long", None, "Age at which segments go.", scope="cluster-wide"),
    ConfigKey("log.retention.minutes", "int", None, "The same in minutes."),
    ConfigKey("log.retention.hours", "int", 168, "The same in hours."),
    ConfigKey(
        "log.retention.bytes", "long", -1, "Size a partition is cut to.", scope="cluster-wide"
    ),
    ConfigKey(
        "log.retention.check.interval.ms",
        "long",
        300_000,
        "Between looks for old segments.",
        at_least(1),
    ),
    ConfigKey(
        "log.cleanup.policy",
        "list",
        ["delete"],
        "What becomes of old segments.",
        all_of("delete", "compact"),
        scope="cluster-wide",
    ),
    ConfigKey(
        "log.cleaner.delete.retention.ms",
        "long",
        24 * HOUR_MS,
        "How long tombstones stay.",
        at_least(0),
        scope="cluster-wide",
    ),
    ConfigKey(
        "log.cleaner.min.compaction.lag.ms",
        "long",
        0,
        "Youngest age to compact.",
        at_least(0),
        scope="cluster-wide",
    ),
    ConfigKey(
        "log.cleaner.max.compaction.lag.ms",
        "long",
        LONG_MAX,
        "Oldest age not compacted.",
        at_least(1),
        scope="cluster-wide",
    ),
    ConfigKey(
        "log.cleaner.min.cleanable.ratio",
        "double",
        0.5,
        "Dirty share before compaction.",
        between(0, 1),
        scope="cluster-wide",
    ),
    ConfigKey(
        "log.index.size.max.bytes",
        "int",
        10 << 20,
        "Largest index.",
        at_least(4),
        scope="cluster-wide",
    ),
    ConfigKey(
        "log.index.interval.bytes",
        "int",
        4096,
        "Bytes of log between two index entries.",
        at_least(0),
        scope="cluster-wide",
    ),
    ConfigKey(
        "log.flush.interval.messages",
        "long",
        LONG_MAX,
        "Kafka's fsync policy; see trimaran.log.fsync.",
        at_least(1),
        scope="cluster-wide",
    ),
    ConfigKey(
        "log.flush.interval.ms", "long", None, "Kafka's fsync policy by time.", scope="cluster-wide"
    ),
    ConfigKey(
        "log.flush.scheduler.interval.ms", "long", LONG_MAX, "Between looks for logs to fsync."
    ),
    ConfigKey(
        "log.flush.offset.checkpoint.interval.ms",
        "int",
        60_000,
        "Between writes of the recovery points.",
        at_least(0),
    ),
    ConfigKey(
        "log.segment.delete.delay.ms",
        "long",
        60_000,
        "How long a deleted segment's file stays.",
        at_least(0),
        scope="cluster-wide",
    ),
    ConfigKey(
        "log.preallocate", "boolean", False, "Preallocate segment files.", scope="cluster-wide"
    ),
    ConfigKey(
        "log.message.timestamp.type",
        "string",
        "CreateTime",
        "Whose clock.",
        one_of("CreateTime", "LogAppendTime"),
        scope="cluster-wide",
    ),
    ConfigKey(
        "log.message.timestamp.before.max.ms",
        "long",
        LONG_MAX,
        "How far back a timestamp may be.",
        at_least(0),
        scope="cluster-wide",
    ),
    ConfigKey(
        "log.message.timestamp.after.max.ms",
        "long",
        HOUR_MS,
        "How far ahead a timestamp may be.",
        at_least(0),
        scope="cluster-wide",
    ),
    ConfigKey(
        "message.max.bytes",
        "int",
        1048588,
        "Largest batch taken.",
        at_least(0),
        scope="cluster-wide",
    ),
    ConfigKey(
        "compression.type",
        "string",
        "producer",
        "Final compression.",
        one_of(*CODECS),
        scope="cluster-wide",
    ),
    ConfigKey(
        "compression.gzip.level", "int", -1, "Level for gzip.", between(-1, 9), scope="cluster-wide"
    ),
    ConfigKey(
        "compression.lz4.level", "int", 9, "Level for lz4.", between(1, 17), scope="cluster-wide"
    ),
    ConfigKey(
        "compression.zstd.level",
        "int",
        3,
        "Level for zstd.",
        between(-131072, 22),
        scope="cluster-wide",
    ),
    ConfigKey("fetch.max.bytes", "int", 55 << 20, "Largest answer to a fetch.", at_least(1024)),
    ConfigKey(
        "max.incremental.fetch.session.cache.slots",
        "int",
        1000,
        "Fetch sessions kept.",
        at_least(0),
    ),
    ConfigKey(
        "producer.id.expiration.ms",
        "int",
        24 * HOUR_MS,
        "An idle producer is forgotten after this.",
        at_least(1),
        scope="cluster-wide",
    ),
)
GROUPS = (
    ConfigKey(
        "offsets.topic.num.partitions", "int", 50, "Partitions of __consumer_offsets.", at_least(1)
    ),
    ConfigKey("offsets.topic.replication.factor", "short", 3, "Its replicas.", at_least(1)),
    ConfigKey(
        "offsets.topic.segment.bytes", "int", 100 << 20, "Size of its segments.", at_least(1)
    ),
    ConfigKey(
        "offsets.retention.minutes",
        "int",
        7 * 24 * 60,
        "Offsets of an empty group are kept this long.",
        at_least(1),
    ),
    ConfigKey(
        "offsets.retention.check.interval.ms",
        "long",
        600_000,
        "Between looks for expired offsets.",
        at_least(1),
    ),
    ConfigKey(
        "offsets.load.buffer.size",
        "int",
        5 << 20,
        "Bytes read at a time while loading.",
        at_least(1),
    ),
    ConfigKey("offsets.commit.timeout.ms", "int", 5000, "How long a commit may take.", at_least(1)),
    ConfigKey("offset.metadata.max.bytes", "int", 4096, "Largest metadata of a committed offset."),
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
    ),
    ConfigKey("transaction.state.log.num.partitions", "int", 50, "Its partitions.", at_least(1)),
    ConfigKey("transaction.state.log.min.isr", "int", 2, "Its smallest ISR.", at_least(1)),
)
ZOOKEEPER = (
    ConfigKey("zookeeper.connect", "string", None, "ZooKeeper to mirror into, host:port/chroot."),
    ConfigKey("zookeeper.session.timeout.ms", "int", 18_000, "Session of the mirror."),
    ConfigKey("zookeeper.connection.timeout.ms", "int", None, "How long to wait for a connection."),
    ConfigKey(
        "zookeeper.max.in.flight.requests", "int", 10, "Writes under way at once.", at_least(1)
    ),
    ConfigKey("zookeeper.set.acl", "boolean", False, "Protect znodes by ACLs."),
    ConfigKey("zookeeper.metadata.migration.enable", "boolean", False, "Run the mirror."),
    ConfigKey(
        "zookeeper.metadata.migration.min.batch.size",
        "int",
        200,
        "Operations of a multi.",
        at_least(1),
    ),
)
OURS = (
    ConfigKey(
        "trimaran.log.fsync",
        "string",
        "commit",
        "commit: acks=all answers after an fsync on the whole ISR; none: write-behind, as Apache Kafka by default.",
        one_of("commit", "none"),
        importance="high",
    ),
)

SERVER_CONFIGS = ConfigDef(
    (
        *ROLES,
        *LISTENERS,
        *QUORUM,
        *METADATA_LOG,
        *BROKER,
        *REPLICATION,
        *LOGS,
        *GROUPS,
        *ZOOKEEPER,
        *OURS,
    )
)
