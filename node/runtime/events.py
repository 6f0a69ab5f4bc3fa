"""Lines of the log that scripts wait for and alerts count: each has a name and fields that stay, listed in
docs/events.md. The words of a line may change.

In a log of JSON they are `event` and `fields`; a line without a name is for people.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass

_FIELD = re.compile(r"%\((\w+)\)")


@dataclass(frozen=True, slots=True)
class Event:
    """`text` has its fields as `%(name)s`; `meaning` is for who reads the manual."""

    name: str
    level: int
    text: str
    meaning: str

    @property
    def fields(self) -> tuple[str, ...]:
        return tuple(_FIELD.findall(self.text))

    def log(self, logger: logging.Logger, **fields: object) -> None:
        """Writes the line; `fields` are all of those."""
        arguments = (fields,) if fields else ()  # an empty mapping is no argument of `%`
        logger.log(self.level, self.text, *arguments, extra={"named_event": self}, stacklevel=2)


def event_of(record: logging.LogRecord) -> Event | None:
    """What was logged by `Event.log`."""
    return getattr(record, "named_event", None)


_I, _W, _E = logging.INFO, logging.WARNING, logging.ERROR
NODE_STARTED = Event(
    "node.started", _I, "[KafkaServer id=%(node)s] started", "All roles of the node serve."
)
NODE_STOPPING = Event(
    "node.stopping", _I, "stopping by signal %(signal)s", "SIGTERM or SIGINT came."
)
METRICS_SERVED = Event(
    "metrics.served",
    _I,
    "metrics are served at http://%(host)s:%(port)s/metrics",
    "/metrics, /healthz and /readyz answer.",
)
BROKER_REGISTERED = Event(
    "broker.registered",
    _I,
    "registered as broker %(broker)s, epoch %(epoch)s",
    "The controller knows the broker. It is fenced until it is ready.",
)
BROKER_REFUSED = Event(
    "broker.refused",
    _W,
    "registration refused: %(reason)s; trying again",
    "The controller does not take the broker. It asks again.",
)
BROKER_READY = Event(
    "broker.ready", _I, "broker %(broker)s is ready", "The broker is unfenced: clients use it."
)
BROKER_FENCED = Event(
    "broker.fenced",
    _W,
    "heartbeat: %(error)s; registering again",
    "The controller has forgotten the broker. It registers anew.",
)
HEARTBEAT_FAILED = Event(
    "broker.heartbeat_failed",
    _W,
    "heartbeat failed: %(error)s",
    "No controller answered. After broker.session.timeout.ms the broker is fenced.",
)
BROKER_LEFT_WITHOUT_LEAVE = Event(
    "broker.stopped_without_leave",
    _W,
    "stopping without the controller's leave",
    "The controlled shutdown did not end in time. Partitions may have no leader for a while.",
)
LOG_DIRECTORY_OFFLINE = Event(
    "log_directory.offline",
    _E,
    "log directory %(directory)s is offline: %(error)s",
    "Its replicas are out of service until the broker starts again.",
)
REPLICA_TRUNCATED = Event(
    "replica.truncated",
    _W,
    "%(partition)s is cut from %(from_offset)s to its leader's end %(to_offset)s",
    "A follower gave up records that its leader does not have.",
)
REPLICA_MOVE_STARTED = Event(
    "replica.move_started",
    _I,
    "%(partition)s moves to %(directory)s",
    "A replica is copied to another log directory.",
)
REPLICA_MOVED = Event(
    "replica.moved",
    _I,
    "%(partition)s has moved to %(directory)s",
    "The replica is served from there.",
)
COORDINATOR_LOADED = Event(
    "coordinator.loaded",
    _I,
    "%(shard)s: loaded %(records)s records in %(seconds)s s",
    "A coordinator of groups or transactions serves this partition of its topic.",
)
TRANSACTION_TIMED_OUT = Event(
    "transaction.timed_out",
    _I,
    "transaction of %(transactional_id)r is aborted: open for more than %(timeout_ms)s ms",
    "Its producer is fenced.",
)
QUORUM_ROLE = Event(
    "quorum.role",
    _I,
    "node %(node)s: %(role)s",
    "The node votes, follows, stands for election or leads, and in which epoch.",
)
CONTROLLER_ACTIVE = Event(
    "controller.active",
    _I,
    "active controller of epoch %(epoch)s from offset %(offset)s",
    "This node makes the decisions of the cluster.",
)
CONTROLLER_ENDED = Event(
    "controller.ended",
    _I,
    "controller epoch %(epoch)s has ended",
    "This node was the active controller, and is no more.",
)
SNAPSHOT_WRITTEN = Event(
    "snapshot.written",
    _I,
    "wrote snapshot %(snapshot)s of %(bytes)s bytes",
    "The metadata log before it may be deleted.",
)
LOG_LEVEL_CHANGED = Event(
    "log_level.changed",
    _W,
    "log level of %(logger_name)s is now %(level)s",
    "Somebody altered BROKER_LOGGER configs.",
)
SECURITY_INVALID = Event(
    "security.invalid",
    _E,
    "a changed file is not usable, the previous one stays in use: %(error)s",
    "A keystore or truststore was replaced by one that cannot be read.",
)
BROKER_FENCED_BY_CONTROLLER = Event(
    "controller.broker_fenced",
    _I,
    "fencing broker %(broker)s at epoch %(epoch)s: %(reason)s",
    "The active controller has given up a broker that did not take leave. It leads nothing now.",
)
UNCLEAN_ELECTION = Event(
    "controller.unclean_election",
    _W,
    "unclean leader election for %(partitions)s partitions: records may be lost",
    "Nobody of an ISR was left, and unclean.leader.election.enable allows others to lead.",
)
REPLICA_UNUSABLE = Event(
    "replica.unusable",
    _E,
    "%(partition)s cannot be opened: %(error)s",
    "A replica neither leads nor follows here, because its log does not open.",
)
REPLICA_OFFLINE = Event(
    "replica.offline",
    _E,
    "%(partition)s: %(error)s; this replica is out of service. To have it fetched anew from its leader stop this "
    "broker, move %(folder)s away, and start it again",
    "The files of one replica are damaged. The rest of the directory is in service.",
)
REPLICATION_FAILED = Event(
    "replica.fetch_failed",
    _W,
    "%(partition)s is not replicated from broker %(leader)s, epoch %(epoch)s, at offset %(offset)s: %(error)s",
    "A follower gets nothing from its leader. It is told once for each reason, and tried again.",
)
COMPACTION_STOPPED = Event(
    "compaction.stopped",
    _E,
    "%(partition)s is not compacted any more: %(error)s",
    "The log grows until the broker starts again.",
)
METADATA_DAMAGED = Event(
    "metadata_log.damaged",
    _E,
    "%(directory)s is damaged at offset %(offset)s: fetching it again up to %(end_offset)s, no vote until then "
    "(%(error)s)",
    "This replica of the metadata mends itself from the others.",
)
CONFIG_WITHOUT_EFFECT = Event(
    "config.without_effect",
    _W,
    "%(config)s was altered for %(resource)s and changes nothing: %(reason)s",
    "A config was taken that acts in Apache Kafka, and not here. It is told once for each key.",
)
MIRROR_LEADS = Event(
    "mirror.leads",
    _I,
    "Claimed controller epoch %(epoch)s for leader %(leader)s",
    "This mirror writes to ZooKeeper from now on.",
)
MIRROR_LOST_ZOOKEEPER = Event(
    "mirror.lost_zookeeper",
    _W,
    "ZooKeeper at %(connect)s %(reason)s; retrying all servers",
    "Nothing is mirrored until it answers.",
)
MIRROR_WAITS_FOR_QUORUM = Event(
    "mirror.waits_for_quorum",
    _W,
    "The quorum has no leader: waiting for a majority of the controllers",
    "ZooKeeper shows the state of before.",
)
EVENTS = tuple(one for one in list(globals().values()) if isinstance(one, Event))
