"""Named log events of code that brokers and controllers share. See `trimaran.wire.text.events`."""

from __future__ import annotations

import logging

from trimaran.wire.text.events import Event

_W = logging.WARNING
LOG_LEVEL_CHANGED = Event(
    "log_level.changed",
    _W,
    "log level of %(logger_name)s is now %(level)s",
    "A client altered BROKER_LOGGER configs.",
)
SLOW_STEP = Event(
    "loop.slow_step",
    _W,
    "%(step)s",
    "A step of the event loop took long and delayed all other tasks.",
)
OAUTH_KEYS_KEPT = Event(
    "oauth.keys_kept",
    _W,
    "the keys of %(url)s stay as they are: %(error)s",
    "The identity provider returned no keys. The previous keys stay in use.",
)
OAUTH_ASSERTION_KEYS_UNUSED = Event(
    "oauth.assertion_keys_unused",
    _W,
    "the assertion in %(file)s is used, and the other keys sasl.oauthbearer.assertion.… have no effect",
    "sasl.oauthbearer.assertion.file is set together with keys for assertions that are signed here.",
)
QUOTA_UNKNOWN_HOST = Event(
    "quota.unknown_host",
    _W,
    "a quota for %(host)a has no effect: the name is not known",
    "The host's connections are not limited until its name can be resolved.",
)
