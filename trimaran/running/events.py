"""Named log lines of a node's process. See `trimaran.wire.text.events`."""

from __future__ import annotations

import logging

from trimaran.wire.text.events import Event

_I, _W, _E, _C = logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL
CONFIG_WARNING = Event(
    "config.warning",
    _W,
    "%(warning)s",
    "A key in the node's file has no effect, or a different one than in Apache Kafka.",
)
CERTIFICATE_WARNING = Event(
    "certificate.warning",
    _W,
    "%(key)s: %(what)s",
    "A certificate of the node has expired, expires within 30 days, or is not valid yet.",
)
NODE_CRASHED = Event("node.crashed", _E, "the node stops", "Internal error; please report it.")
NODE_FAILED = Event(
    "node.failed", _C, "%(what)s: %(why)s; %(fix)s", "The node does not start, or stops."
)
NODE_STARTED = Event(
    "node.started", _I, "[KafkaServer id=%(node)s] started", "All roles of the node serve requests."
)
NODE_STOPPING = Event(
    "node.stopping", _I, "stopping by signal %(signal)s", "The node received SIGTERM or SIGINT."
)
