"""Which configs of a broker say the same thing, in the order in which they count.

Source: `DynamicBrokerConfig.brokerConfigSynonyms` of Kafka, KIP-226.
"""

from __future__ import annotations

import re

LISTENER_KEY = re.compile(r"listener\.name\.[^.]*\.(?P<base>.*)")

_ROLL = ("log.roll.ms", "log.roll.hours")
_ROLL_JITTER = ("log.roll.jitter.ms", "log.roll.jitter.hours")
_RETENTION = ("log.retention.ms", "log.retention.minutes", "log.retention.hours")
_GROUPS = {name: group for group in (_ROLL, _ROLL_JITTER, _RETENTION) for name in group} | {
    "log.flush.interval.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")
}
# Set for one mechanism of a listener: `listener.name.LISTENER.MECHANISM.KEY`.
_OF_MECHANISMS = (
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
    "connections.max.reauth.ms",
)


def broker_synonyms(name: str, *, of_listeners: bool = True) -> tuple[str, ...]:
    """The config itself and its synonyms; with `of_listeners` also the config of the node behind a listener's."""
    if name in _GROUPS:
        return _GROUPS[name]
    if of_listeners and (base := base_of(name)) is not None:
        return name, base
    return (name,)


def base_of(name: str) -> str | None:
    """KEY of `listener.name.LISTENER.KEY` and of `listener.name.LISTENER.MECHANISM.KEY`; None of other names."""
    found = LISTENER_KEY.fullmatch(name)
    if found is None:
        return None
    base = found["base"]
    return next((key for key in _OF_MECHANISMS if base.endswith(key)), base)
