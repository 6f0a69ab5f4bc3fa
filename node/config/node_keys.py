"""Keys of every node: roles, listeners, the quorum, the metadata log.

Source: Kafka's `KRaftConfigs`, `SocketServerConfigs`, `QuorumConfig`, `MetadataLogConfig`.
"""

from __future__ import annotations

from typing import NamedTuple

from trimaran.node.config.config_def import (
    INT_MAX,
    LONG_MAX,
    ConfigError,
    ConfigKey,
    all_of,
    at_least,
)


class Override(NamedTuple):
    """The maximum number of connections from a host."""

    host: str
    connections_max: int


def override(text: str) -> Override:
    """Returns the limit that `HOST:COUNT` declares. Raises ConfigError."""
    host, _, count = text.rpartition(":")
    if not host or not count.isdecimal() or len(count) > _COUNT_DIGITS_MAX:
        raise ConfigError(
            "max.connections.per.ip.overrides",
            text,
            _OVERRIDE,
            fix="use an address or a host name, and a number",
        )
    return Override(host.strip("[]"), int(count))


def _overrides(value: list[str]) -> str | None:
    try:
        for entry in value:
            override(entry)
    except ConfigError as error:
        return error.why
    return None


_OVERRIDE = "an override is written HOST:COUNT"
_COUNT_DIGITS_MAX = 10

# Keys that may also be set for one listener.
OF_LISTENERS = (
    ConfigKey(
        "max.connections",
        "int",
        INT_MAX,
        "Most connections; nodes on their own listener are let in above it.",
        at_least(0),
        scope="cluster-wide",
    ),
    ConfigKey(
        "max.connection.creation.rate",
        "int",
        INT_MAX,
        "Maximum number of new connections of a broker in a second.",
        at_least(0),
        scope="cluster-wide",
    ),
)

HOUR_MS = 3600 * 1000

ROLES = (
    ConfigKey(
        "process.roles",
        "list",
        [],
        "Roles of this process: broker, controller or both.",
        all_of("broker", "controller"),
        required=True,
        importance="high",
    ),
    ConfigKey(
        "node.id",
        "int",
        -1,
        "Id of this node, unique in the cluster.",
        at_least(0),
        required=True,
        importance="high",
    ),
    ConfigKey(
        "broker.id",
        "int",
        -1,
        "Older name of node.id, with which it must agree.",
        importance="high",
    ),
    ConfigKey(
        "controller.listener.names",
        "list",
        [],
        "Names of the listeners that controllers use.",
        required=True,
        importance="high",
    ),
    ConfigKey(
        "controller.quorum.voters", "list", [], "Static voters, id@host:port.", importance="high"
    ),
    ConfigKey(
        "controller.quorum.bootstrap.servers",
        "list",
        [],
        "Addresses of the quorum, host:port.",
        importance="high",
    ),
    ConfigKey(
        "controller.quorum.auto.join.enable",
        "boolean",
        False,
        "Whether a controller that is not a voter requests to be added (kraft.version 1).",
        importance="low",
    ),
    ConfigKey(
        "server.max.startup.time.ms",
        "long",
        LONG_MAX,
        "Time after which a node stops that has not started.",
        at_least(0),
        internal=True,
    ),
)
LISTENERS = (
    ConfigKey(
        "listeners",
        "list",
        ["PLAINTEXT://:9092"],
        "Addresses to listen on, NAME://host:port.",
        importance="high",
    ),
    ConfigKey(
        "advertised.listeners",
        "list",
        None,
        "Addresses published to clients; `listeners` when not set.",
        importance="high",
    ),
    ConfigKey(
        "listener.security.protocol.map",
        "list",
        ["SASL_SSL:SASL_SSL", "PLAINTEXT:PLAINTEXT", "SSL:SSL", "SASL_PLAINTEXT:SASL_PLAINTEXT"],
        "Security protocol of each listener name.",
        importance="low",
        type_for_clients="string",
    ),
    ConfigKey(
        "early.start.listeners",
        "list",
        None,
        "Listeners that open before the ACLs are read: all of a controller, which elects its leader through them. "
        "The listeners of a broker wait for the metadata in any case.",
        importance="high",
    ),
    ConfigKey(
        "inter.broker.listener.name", "string", None, "Listener for connections between brokers."
    ),
    *OF_LISTENERS,
    ConfigKey(
        "max.connections.per.ip",
        "int",
        INT_MAX,
        "Maximum number of connections from one address.",
        at_least(0),
        scope="cluster-wide",
    ),
    ConfigKey(
        "max.connections.per.ip.overrides",
        "list",
        [],
        "Maximum number of connections from single addresses, HOST:COUNT.",
        _overrides,
        scope="cluster-wide",
        type_for_clients="string",
    ),
    ConfigKey(
        "connections.max.idle.ms", "long", 600_000, "Time after which an idle connection is closed."
    ),
    ConfigKey(
        "socket.request.max.bytes",
        "int",
        100 << 20,
        "Largest request.",
        at_least(1),
        importance="high",
    ),
    ConfigKey(
        "socket.receive.buffer.bytes",
        "int",
        100 << 10,
        "Receive buffer of the sockets of clients; -1 leaves its size to the operating system.",
        importance="high",
    ),
    ConfigKey(
        "socket.listen.backlog.size",
        "int",
        50,
        "Connections waiting to be accepted; ours is never below 1024.",
        at_least(1),
    ),
    ConfigKey(
        "queued.max.requests",
        "int",
        500,
        "Kafka's queue between its network and request threads.",
        at_least(1),
        importance="high",
        no_effect="queued requests are limited in bytes by queued.max.request.bytes",
    ),
    ConfigKey(
        "queued.max.request.bytes",
        "long",
        -1,
        "Maximum bytes of requests being received or handled; -1 means 128 MiB.",
        importance="medium",
    ),
)
QUORUM = (
    ConfigKey(
        "controller.quorum.election.timeout.ms",
        "int",
        1000,
        "Longest time of an election.",
        importance="high",
        check=at_least(0),
    ),
    ConfigKey(
        "controller.quorum.election.backoff.max.ms",
        "int",
        1000,
        "Longest wait before another election.",
        importance="high",
        check=at_least(0),
    ),
    ConfigKey(
        "controller.quorum.fetch.timeout.ms",
        "int",
        2000,
        "Time without a fetch after which a voter starts an election, or a leader resigns.",
        importance="high",
        check=at_least(0),
    ),
    ConfigKey(
        "controller.quorum.append.linger.ms",
        "int",
        0,
        "How long a change of metadata waits for others to be written with it. By default it does not wait, in Kafka "
        "for 25 ms:"
        " changes of one turn are written together anyway, and later ones share an fsync.",
        check=at_least(0),
    ),
    ConfigKey(
        "controller.quorum.request.timeout.ms",
        "int",
        2000,
        "Time for which a request to another voter waits for its response.",
        check=at_least(0),
    ),
    ConfigKey(
        "controller.quorum.retry.backoff.ms",
        "int",
        20,
        "Wait before a request is sent again.",
        importance="low",
        check=at_least(0),
    ),
    ConfigKey(
        "controller.quorum.fetch.max.bytes",
        "int",
        1 << 20,
        "Maximum bytes of records in a Fetch response, as requester and as leader: one batch at least, 8 MiB at most.",
        importance="low",
        check=at_least(1),
    ),
    ConfigKey(
        "controller.quorum.fetch.snapshot.max.bytes",
        "int",
        1 << 20,
        "Maximum bytes of a snapshot in a FetchSnapshot response, as requester and as leader: 8 MiB at most.",
        importance="low",
        check=at_least(1),
    ),
)
METADATA_LOG = (
    ConfigKey(
        "metadata.log.dir",
        "string",
        None,
        "Directory of the metadata log; the first of log.dirs when not set.",
        importance="high",
    ),
    ConfigKey(
        "metadata.log.segment.bytes",
        "int",
        1 << 30,
        "Segment size of the metadata log.",
        at_least(8 << 20),
        importance="high",
    ),
    ConfigKey(
        "metadata.log.segment.ms",
        "long",
        7 * 24 * HOUR_MS,
        "Age at which a segment of the metadata log is rolled.",
        importance="high",
    ),
    ConfigKey(
        "metadata.log.max.record.bytes.between.snapshots",
        "long",
        20 << 20,
        "Bytes of new records after which a snapshot is written.",
        at_least(1),
        importance="high",
    ),
    ConfigKey(
        "metadata.log.max.snapshot.interval.ms",
        "long",
        HOUR_MS,
        "Longest time between two snapshots; 0 for no limit.",
        at_least(0),
        importance="high",
    ),
    ConfigKey(
        "metadata.max.retention.bytes",
        "long",
        100 << 20,
        "Size that the metadata log and its snapshots are kept to.",
        importance="high",
    ),
    ConfigKey(
        "metadata.max.retention.ms",
        "long",
        7 * 24 * HOUR_MS,
        "Age at which snapshots and the log before them are deleted.",
        importance="high",
    ),
    ConfigKey(
        "metadata.max.idle.interval.ms",
        "int",
        500,
        "Time after which an idle leader writes a no-op record; 0 for never.",
        at_least(0),
        importance="low",
    ),
)
