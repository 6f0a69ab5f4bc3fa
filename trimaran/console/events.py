"""Named log lines of the console. See `trimaran.wire.text.events`."""

from __future__ import annotations

import logging

from trimaran.wire.text.events import Event

_I, _W, _E = logging.INFO, logging.WARNING, logging.ERROR
CONSOLE_PAGE_FAILED = Event(
    "console.page_failed", _E, "the page %(path)s failed", "Internal error; please report it."
)
CONSOLE_WRITE = Event(
    "console.write", _I, "%(verb)s %(resource)s by %(user)s: done", "The console has made a change."
)
CONSOLE_WRITE_REFUSED = Event(
    "console.write_refused",
    _W,
    "%(verb)s %(resource)s by %(user)s: refused: %(reason)s",
    "The cluster has refused a change of the console.",
)
