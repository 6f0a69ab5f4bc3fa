"""The configuration keys of a node: all of Apache Kafka 4.4's, with its defaults, and trimaran's own with the prefix
`trimaran.`.

A key has an effect, or gives the reason why it has none or accepts only its default (`ConfigKey`). Source: Kafka's
`KafkaConfig` and the classes it combines; the ZooKeeper keys are those of Kafka's ZooKeeper mode.
"""

from __future__ import annotations

from trimaran.node.config.broker_keys import BROKER, GROUPS, REPLICATION
from trimaran.node.config.config_def import (
    LONG_MAX,
    ConfigDef,
    ConfigKey,
    at_least,
    between,
    one_of,
)
from trimaran.node.config.consumer_group_keys import CONSUMER_GROUPS
from trimaran.node.config.legacy_admin_keys import LEGACY_ADMIN
from trimaran.node.config.log_keys import LOGS
from trimaran.node.config.node_keys import LISTENERS, METADATA_LOG, OF_LISTENERS, QUORUM, ROLES
from trimaran.node.config.oauthbearer_keys import OAUTHBEARER_HANDLERS, OAUTHBEARER_NOT_SERVED
from trimaran.node.config.quota_window_keys import QUOTA_WINDOWS
from trimaran.node.config.replaced_keys import REPLACED
from trimaran.node.config.security_keys import (
    ACCESS,
    LISTENER_JAAS,
    LISTENER_REAUTH,
    REFUSED,
    SERVER_SECURITY,
)
from trimaran.node.config.share_coordinator_keys import SHARE_COORDINATOR
from trimaran.node.config.share_delivery_keys import SHARE_DELIVERIES
from trimaran.node.config.share_group_keys import SHARE_GROUPS
from trimaran.node.config.streams_group_keys import STREAMS_GROUPS
from trimaran.node.config.transaction_keys import TRANSACTIONS
from trimaran.node.config.unserved_keys import UNSERVED
from trimaran.node.config.zookeeper_keys import ZOOKEEPER

LOG_LEVELS = one_of("DEBUG", "INFO", "WARNING", "ERROR")

PROVIDERS = (
    ConfigKey(
        "config.providers",
        "list",
        [],
        "Names of providers that resolve variables in values; config.providers.NAME.class is the class of each.",
        importance="low",
        scope="cluster-wide",
        no_effect_while_running="variables are resolved when the file is read",
        gaps=True,  # Kafka does not check an alteration of it
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
        "Short timeouts and no fsync, for tests and laptops; keys that are set explicitly keep their value.",
    ),
    ConfigKey(
        "trimaran.log.level",
        "string",
        "INFO",
        "Least level of the messages that are logged.",
        LOG_LEVELS,
    ),
    ConfigKey(
        "trimaran.log.format",
        "string",
        "auto",
        "Form of log lines; auto: text on a terminal, otherwise JSON.",
        one_of("auto", "text", "json"),
    ),
    ConfigKey(
        "trimaran.log.slow.steps.ms",
        "int",
        0,
        "Log steps that block the event loop for longer, at most one line in ten seconds; 0 disables it.",
        at_least(0),
        importance="low",
    ),
    ConfigKey(
        "trimaran.ssl.reload.interval.ms",
        "int",
        10_000,
        "Time between two checks whether keystores, truststores and revocation lists have changed; 0 for never.",
        at_least(0),
        importance="low",
    ),
    *LEGACY_ADMIN,
    ConfigKey(
        "trimaran.offsets.value.version",
        "int",
        4,
        "Version of offsets in __consumer_offsets. Readers without support of 4 need 3; Kafka before 2.1 wrote 1.",
        between(1, 4),
        importance="low",
    ),
    ConfigKey(
        "trimaran.metrics.listener",
        "string",
        None,
        "HOST:PORT at which /metrics, /healthz and /readyz are served by HTTP; null for nowhere.",
    ),
    ConfigKey(
        "trimaran.admin.listener",
        "string",
        None,
        "Address at which the console is served.",
        importance="low",
        no_effect="the console is a process of its own, by trimaran console",
    ),
)

# The values that `trimaran.dev.mode` sets unless they are set explicitly: a dead node is noticed in a second.
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
        *CONSUMER_GROUPS,
        *SHARE_GROUPS,
        *STREAMS_GROUPS,
        *SHARE_DELIVERIES,
        *TRANSACTIONS,
        *SHARE_COORDINATOR,
        *QUOTA_WINDOWS,
        *UNSERVED,
        *REPLACED,
        *OAUTHBEARER_NOT_SERVED,
        *REFUSED,
        *ZOOKEEPER,
        *PROVIDERS,
        *OURS,
    )
)
# Keys that may also be set for one listener.
LISTENER_CONFIGS = ConfigDef(
    (
        *SERVER_SECURITY,
        *LISTENER_JAAS,
        *LISTENER_REAUTH,
        *OAUTHBEARER_HANDLERS,
        *OF_LISTENERS,
    )
)
# For one listener, keys of OAUTHBEARER may have the mechanism in front. Source: `ConfigurationUtils` of Kafka.
_MECHANISM, _OF_MECHANISM = "oauthbearer.", "sasl.oauthbearer."


def listener_config(name: str) -> ConfigKey | None:
    """Returns the key that `listener.name.LISTENER.` before `name` sets for one listener."""
    base = name.removeprefix(_MECHANISM)
    return LISTENER_CONFIGS.get(base if base.startswith(_OF_MECHANISM) else name)


def names_for_listener(key: str) -> tuple[str, ...]:
    """Returns the names that set `key` after `listener.name.LISTENER.`; the first one that is set takes precedence."""
    return (f"{_MECHANISM}{key}", key) if key.startswith(_OF_MECHANISM) else (key,)


# Keys that are altered while a broker runs, and never set in its file.
DYNAMIC_ONLY = ConfigDef(
    ConfigKey(name, "long", LONG_MAX, doc, at_least(0), scope="cluster-wide")
    for name, doc in (
        (
            "leader.replication.throttled.rate",
            "Maximum bytes a second that throttled leaders send.",
        ),
        (
            "follower.replication.throttled.rate",
            "Maximum bytes a second that throttled followers take.",
        ),
        (
            "replica.alter.log.dirs.io.max.bytes.per.second",
            "Maximum bytes a second that are copied between log directories.",
        ),
    )
)
