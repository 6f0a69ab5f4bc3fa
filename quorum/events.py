"""Named log events of controllers and of the metadata log. See `trimaran.wire.text.events`."""

from __future__ import annotations

import logging

from trimaran.wire.text.events import Event

_I, _W, _E = logging.INFO, logging.WARNING, logging.ERROR
CONFIG_WITHOUT_EFFECT = Event(
    "config.without_effect",
    _W,
    "%(config)s was altered for %(resource)s and changes nothing: %(reason)s",
    "A config was accepted that has an effect in Apache Kafka, but not here. Logged once for each key.",
)
CONNECTIONS_CONFIG_INVALID = Event(
    "connections.config_invalid",
    _E,
    "altered bounds of connections are not used: %(error)s",
    "The previous limits remain in effect.",
)
CONTROLLER_ACTIVE = Event(
    "controller.active",
    _I,
    "active controller of epoch %(epoch)s from offset %(offset)s",
    "This node makes the decisions of the cluster.",
)
BROKER_FENCED_BY_CONTROLLER = Event(
    "controller.broker_fenced",
    _I,
    "fencing broker %(broker)s at epoch %(epoch)s: %(reason)s",
    "The active controller has fenced a broker that did not shut down in a controlled way. It leads no partitions now.",
)
CONTROLLER_CHANGE_CUT_SHORT = Event(
    "controller.change_cut_short",
    _E,
    "a change of %(records)d records was cut short: giving up leadership",
    "A bug in trimaran. Another controller takes over.",
)
CONTROLLER_ENDED = Event(
    "controller.ended",
    _I,
    "controller epoch %(epoch)s has ended",
    "This node is no longer the active controller.",
)
CONTROLLER_FENCING_POSTPONED = Event(
    "controller.fencing_postponed",
    _W,
    "broker %(broker)d cannot be fenced yet: %(error)s",
    "The controller tries again.",
)
CONTROLLER_LEADERS_BALANCED = Event(
    "controller.leaders_balanced",
    _I,
    "moved %(partitions)d leaders back to preferred replicas",
    "auto.leader.rebalance.enable caused an election of preferred replicas.",
)
CONTROLLER_STARTED = Event(
    "controller.started",
    _I,
    "[ControllerServer id=%(node)d] started",
    "The controller of this process serves requests.",
)
CONTROLLER_STOPPED = Event(
    "controller.stopped",
    _I,
    "[ControllerServer id=%(node)d] stopped",
    "The controller of this process has ended.",
)
UNCLEAN_ELECTION = Event(
    "controller.unclean_election",
    _W,
    "unclean leader election for %(partitions)s partitions: records may be lost",
    "No member of an ISR was left, and unclean.leader.election.enable allows other replicas to lead.",
)
FEATURE_UNKNOWN = Event(
    "feature.unknown",
    _W,
    "%(feature)s %(level)d is not served here and stays off",
    "The metadata log has a feature that this release does not support.",
)
METADATA_PUBLISHER_FAILED = Event(
    "metadata.publisher_failed",
    _E,
    "%(publisher)s failed at metadata offset %(offset)d",
    "A component of this node failed to apply a metadata change. A bug in trimaran.",
)
METADATA_DAMAGED = Event(
    "metadata_log.damaged",
    _E,
    "%(directory)s is damaged at offset %(offset)s: fetching it again up to %(end_offset)s, no vote "
    "until then (%(error)s)",
    "This replica repairs its metadata log from the other replicas.",
)
METADATA_LOG_MENDED = Event(
    "metadata_log.mended",
    _I,
    "all that was damaged is here again, up to offset %(offset)d",
    "The replica votes again.",
)
METADATA_LOG_RECOVERY_POINT_DAMAGED = Event(
    "metadata_log.recovery_point_damaged",
    _W,
    "%(file)s is damaged: not used",
    "The log is checked from its start.",
)
METADATA_LOG_USERS_UNKNOWN = Event(
    "metadata_log.users_unknown",
    _W,
    "users of the metadata log are not known before a leader is: %(error)s",
    "Logins wait until the quorum has a leader.",
)
POLICY_FAILED = Event(
    "policy.failed",
    _E,
    "the policy of %(key)s failed",
    "A policy of the operator raised an unexpected exception. The request is refused.",
)
QUORUM_PEER_HOST_UNKNOWN = Event(
    "quorum.peer_host_unknown",
    _W,
    "node %(peer)s is not reached, the host name in %(address)a is not known: %(error)s",
    "This machine cannot resolve the name of a voter. Without a majority no leader is elected.",
)
QUORUM_PEER_REFUSED = Event(
    "quorum.peer_refused",
    _I,
    "%(peer)s: %(error)s",
    "Another replica does not support a request: it runs another release.",
)
QUORUM_ROLE = Event(
    "quorum.role",
    _I,
    "node %(node)s: %(role)s",
    "The role of the node in the quorum (voter, follower, candidate, leader) and its epoch.",
)
SECURITY_ALTERED = Event(
    "security.altered",
    _I,
    "new connections to %(listener)s get its altered security",
    "Open connections keep their security settings.",
)
SECURITY_CONFIG_INVALID = Event(
    "security.config_invalid",
    _E,
    "the altered configuration is invalid, the previous one stays in use: %(error)s",
    "The previous configuration stays in use.",
)
SECURITY_INVALID = Event(
    "security.invalid",
    _E,
    "a changed file is not usable, the previous one stays in use: %(error)s",
    "A keystore or truststore was replaced by one that cannot be read.",
)
SNAPSHOT_DAMAGED = Event(
    "snapshot.damaged",
    _W,
    "a fetched snapshot is damaged, asking again: %(error)s",
    "It is fetched again.",
)
SNAPSHOT_DROPPED = Event(
    "snapshot.dropped",
    _W,
    "%(error)s: kept as %(file)s, not used",
    "A snapshot in this node's directory is damaged. Another snapshot or the log has the same content.",
)
SNAPSHOT_TOO_LARGE = Event(
    "snapshot.too_large",
    _W,
    "a snapshot of %(bytes)d bytes is not fetched",
    "Another replica offers a snapshot above the size limit.",
)
SNAPSHOT_WRITTEN = Event(
    "snapshot.written",
    _I,
    "wrote snapshot %(snapshot)s of %(bytes)s bytes",
    "The metadata log before it may be deleted.",
)
