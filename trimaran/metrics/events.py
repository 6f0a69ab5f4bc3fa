"""Named log lines of the metrics server. See `trimaran.wire.text.events`."""

from __future__ import annotations

import logging

from trimaran.wire.text.events import Event

_I, _W, _E = logging.INFO, logging.WARNING, logging.ERROR
METRICS_FAILED = Event(
    "metrics.failed",
    _E,
    "answering GET %(path)a failed",
    "Internal error; please report it. The scraper gets 500.",
)
METRICS_FULL = Event(
    "metrics.full",
    _W,
    "%(connections)d HTTP connections, the most allowed",
    "The connection of a scraper is closed at once.",
)
METRICS_SERVED = Event(
    "metrics.served",
    _I,
    "metrics are served at http://%(host)s:%(port)s/metrics",
    "/metrics, /healthz and /readyz answer.",
)
