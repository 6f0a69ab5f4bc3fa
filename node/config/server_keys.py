"""The configuration keys of a node that we act on, with Apache Kafka 4.3's defaults, and ours prefixed `trimaran.`.

Source: Kafka's `KafkaConfig` and the classes it gathers; the ZooKeeper keys are those of its ZooKeeper mode. Other keys of
Kafka's are in `ignored_keys`.
"""

from __future__ import annotations

from node.config.broker_keys import BROKER, GROUPS, REPLICATION
from node.config.config_def import ConfigDef, ConfigKey, at_least, one_of
from node.config.log_keys import LOGS
from node.config.node_keys import LISTENERS, METADATA_LOG, QUORUM, ROLES
from node.config.security_keys import ACCESS, LISTENER_JAAS, SERVER_SECURITY

LOG_LEVELS = one_of("DEBUG", "INFO", "WARNING", "ERROR")

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
    ConfigKey(
        "trimaran.dev.mode",
        "boolean",
        False,
        "Short timeouts and no fsync, for tests and laptops; what is set by itself stays as it is set.",
    ),
    ConfigKey("trimaran.log.level", "string", "INFO", "Least level that is logged.", LOG_LEVELS),
    ConfigKey(
        "trimaran.log.format",
        "string",
        "auto",
        "Form of log lines; auto: text on a terminal, JSON else.",
        one_of("auto", "text", "json"),
    ),
    ConfigKey(
        "trimaran.log.slow.steps.ms",
        "int",
        0,
        "Log who holds the event loop for longer, at most a line in ten seconds; 0: do not look.",
        at_least(0),
        importance="low",
    ),
    ConfigKey(
        "trimaran.zk.mirror.enable",
        "boolean",
        None,
        "Run the mirror; the same as zookeeper.metadata.migration.enable.",
    ),
    ConfigKey(
        "trimaran.zk.mirror.verify.interval.ms",
        "long",
        0,
        "How often the mirrored tree is read and compared; 0: never.",
        at_least(0),
    ),
    ConfigKey(
        "trimaran.metrics.listener",
        "string",
        "127.0.0.1:0",
        "Where metrics are served; not served yet.",
        importance="low",
    ),
    ConfigKey(
        "trimaran.admin.listener",
        "string",
        None,
        "Where the console is served; not served yet.",
        importance="low",
    ),
)

# What `trimaran.dev.mode` sets where nothing else does: a dead node is noticed in a second.
DEV_MODE: dict[str, str] = {
    "controller.quorum.election.timeout.ms": "200",
    "controller.quorum.election.backoff.max.ms": "200",
    "controller.quorum.fetch.timeout.ms": "500",
    "broker.session.timeout.ms": "1000",
    "broker.heartbeat.interval.ms": "200",
    "group.initial.rebalance.delay.ms": "0",
    "trimaran.log.fsync": "none",
}

SERVER_CONFIGS = ConfigDef(
    (
        *ROLES,
        *LISTENERS,
        *SERVER_SECURITY,
        *ACCESS,
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
# What may also be set for one listener.
LISTENER_CONFIGS = ConfigDef((*SERVER_SECURITY, LISTENER_JAAS))
