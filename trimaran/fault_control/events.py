"""Named log lines of the control. See `trimaran.wire.text.events`."""

from __future__ import annotations

import logging

from trimaran.wire.text.events import Event

CONTROL_REQUEST_FAILED = Event(
    "control.request_failed",
    logging.ERROR,
    "the request %(operation)s failed",
    "Internal error of the fault control; please report it.",
)
