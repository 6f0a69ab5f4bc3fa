"""Named lines of the log: of processes, and of the console. See `trimaran.wire.text.events`."""

from __future__ import annotations

import logging

from trimaran.wire.text.events import Event

_I, _W, _E, _C = logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL
CONFIG_WARNING = Event(
    "config.warning",
    _W,
    "%(warning)s",
    "A key of the node's file has no effect, or another one than in Apache Kafka.",
)
CONSOLE_PAGE_FAILED = Event(
    "console.page_failed", _E, "the page %(path)s failed", "A mistake of ours."
)
CONSOLE_WRITE = Event(
    "console.write", _I, "%(verb)s %(resource)s by %(user)s: done", "A change by the console, done."
)
CONSOLE_WRITE_REFUSED = Event(
    "console.write_refused",
    _W,
    "%(verb)s %(resource)s by %(user)s: refused: %(reason)s",
    "A change by the console that the cluster did not take.",
)
METRICS_FAILED = Event(
    "metrics.failed",
    _E,
    "answering GET %(path)a failed",
    "A mistake of ours. The scraper gets 500.",
)
METRICS_FULL = Event(
    "metrics.full",
    _W,
    "%(connections)d HTTP connections, the most allowed",
    "A scraper is closed at once.",
)
METRICS_SERVED = Event(
    "metrics.served",
    _I,
    "metrics are served at http://%(host)s:%(port)s/metrics",
    "/metrics, /healthz and /readyz answer.",
)
NODE_CRASHED = Event("node.crashed", _E, "the node stops", "A mistake of ours.")
NODE_FAILED = Event(
    "node.failed", _C, "%(what)s: %(why)s; %(fix)s", "The node does not start, or stops."
)
NODE_STARTED = Event(
    "node.started", _I, "[KafkaServer id=%(node)s] started", "All roles of the node serve."
)
NODE_STOPPING = Event(
    "node.stopping", _I, "stopping by signal %(signal)s", "SIGTERM or SIGINT came."
)
