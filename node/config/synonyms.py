"""Broker configs that are synonyms, in order of precedence.

Source: `DynamicBrokerConfig.brokerConfigSynonyms` of Kafka, KIP-226.
"""

from __future__ import annotations

from trimaran.wire.records.sensitive import base_of

_ROLL = ("log.roll.ms", "log.roll.hours")
_ROLL_JITTER = ("log.roll.jitter.ms", "log.roll.jitter.hours")
_RETENTION = ("log.retention.ms", "log.retention.minutes", "log.retention.hours")
_GROUPS = {name: group for group in (_ROLL, _ROLL_JITTER, _RETENTION) for name in group} | {
    "log.flush.interval.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")
}


def broker_synonyms(name: str, *, of_listeners: bool = True) -> tuple[str, ...]:
    """Returns the config and its synonyms; with `of_listeners`, the synonyms of a listener's config include that of the
    node.
    """
    if name in _GROUPS:
        return _GROUPS[name]
    if of_listeners and (base := base_of(name)) is not None:
        return name, base
    return (name,)
