"""Named log events of controllers and of the metadata log. See `trimaran.wire.text.events`."""

from __future__ import annotations

import logging

from trimaran.wire.text.events import Event

_I, _W, _E = logging.INFO, logging.WARNING, logging.ERROR
CONFIG_WITHOUT_EFFECT = Event(
    "config.without_effect",
    _W,
    "%(config)s was altered for %(resource)s and changes nothing: %(reason)s",
    "A config was taken that acts in Apache Kafka, and not here. It is told once for each key.",
)
CONNECTIONS_CONFIG_INVALID = Event(
    "connections.config_invalid",
    _E,
    "altered bounds of connections are not used: %(error)s",
    "The bounds of before stay in force.",
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
    "The active controller has given up a broker that did not take leave. It leads nothing now.",
)
CONTROLLER_CHANGE_CUT_SHORT = Event(
    "controller.change_cut_short",
    _E,
    "a change of %(records)d records was cut short: giving up leadership",
    "A mistake of ours. Another controller takes over.",
)
CONTROLLER_ENDED = Event(
    "controller.ended",
    _I,
    "controller epoch %(epoch)s has ended",
    "This node was the active controller, and is no more.",
)
CONTROLLER_FENCING_POSTPONED = Event(
    "controller.fencing_postponed",
    _W,
    "broker %(broker)d cannot be fenced yet: %(error)s",
    "It is tried again.",
)
CONTROLLER_LEADERS_BALANCED = Event(
    "controller.leaders_balanced",
    _I,
    "moved %(partitions)d leaders back to preferred replicas",
    "auto.leader.rebalance.enable had preferred replicas elected.",
)
CONTROLLER_STARTED = Event(
    "controller.started",
    _I,
    "[ControllerServer id=%(node)d] started",
    "The controller of this process serves.",
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
    "Nobody of an ISR was left, and unclean.leader.election.enable allows others to lead.",
)
FEATURE_UNKNOWN = Event(
    "feature.unknown",
    _W,
    "%(feature)s %(level)d is not served here and stays off",
    "The metadata log has a feature that this release does not know.",
)
METADATA_PUBLISHER_FAILED = Event(
    "metadata.publisher_failed",
    _E,
    "%(publisher)s failed at metadata offset %(offset)d",
    "A part of this node did not take a change of the metadata. A mistake of ours.",
)
METADATA_DAMAGED = Event(
    "metadata_log.damaged",
    _E,
    "%(directory)s is damaged at offset %(offset)s: fetching it again up to %(end_offset)s, no vote "
    "until then (%(error)s)",
    "This replica of the metadata mends itself from the others.",
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
    "A policy of the operator raised what no policy raises. The request is refused.",
)
QUORUM_PEER_REFUSED = Event(
    "quorum.peer_refused",
    _I,
    "%(peer)s: %(error)s",
    "Another replica does not serve a request: its release is another one.",
)
QUORUM_ROLE = Event(
    "quorum.role",
    _I,
    "node %(node)s: %(role)s",
    "The node votes, follows, stands for election or leads, and in which epoch.",
)
SECURITY_ALTERED = Event(
    "security.altered",
    _I,
    "new connections to %(listener)s get its altered security",
    "Connections that are open keep what they have.",
)
SECURITY_CONFIG_INVALID = Event(
    "security.config_invalid",
    _E,
    "the altered configuration is invalid, the previous one stays in use: %(error)s",
    "The configuration of before stays in use.",
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
    "A snapshot in this node's directory is damaged. Another one, or the log, says the same.",
)
SNAPSHOT_TOO_LARGE = Event(
    "snapshot.too_large",
    _W,
    "a snapshot of %(bytes)d bytes is not fetched",
    "Another replica offers a snapshot above our bound.",
)
SNAPSHOT_WRITTEN = Event(
    "snapshot.written",
    _I,
    "wrote snapshot %(snapshot)s of %(bytes)s bytes",
    "The metadata log before it may be deleted.",
)
