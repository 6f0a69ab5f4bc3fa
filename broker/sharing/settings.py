"""The settings of a share group's deliveries: the broker's `group.share.*`, and the configs of the group itself.

Source: Kafka's `ShareGroupConfig`, `ShareGroupConfigProvider`, `ShareGroupAutoOffsetResetStrategy`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from trimaran.broker.sharing.rules import SharingRules
from trimaran.node.config.group_keys import GROUP_CONFIGS
from trimaran.node.config.server import ServerConfig
from trimaran.quorum.metadata.image import GROUP_RESOURCE, ConfigsImage

EARLIEST, LATEST, BY_DURATION = "earliest", "latest", "by_duration:"
_PART = re.compile(r"([+-]?\d+(?:[.,]\d+)?)([DHMS])", re.IGNORECASE)
# By a group's config, the broker's configs for its default, minimum and maximum.
_OF_BROKER = {
    "share.partition.max.record.locks": (
        "group.share.partition.max.record.locks",
        "group.share.min.partition.max.record.locks",
        "group.share.max.partition.max.record.locks",
    ),
    "share.delivery.count.limit": (
        "group.share.delivery.count.limit",
        "group.share.min.delivery.count.limit",
        "group.share.max.delivery.count.limit",
    ),
    "share.record.lock.duration.ms": (
        "group.share.record.lock.duration.ms",
        "group.share.min.record.lock.duration.ms",
        "group.share.max.record.lock.duration.ms",
    ),
}
_SECONDS = {"D": 86_400, "H": 3_600, "M": 60, "S": 1}


class Sharing(NamedTuple):
    """The settings of one group at this moment. `offset_reset` is where a group begins that has no position yet."""

    rules: SharingRules
    offset_reset: str
    reads_committed: bool

    @property
    def lock_ms(self) -> int:
        """The duration of a lock, as responses name it."""
        return round(self.rules.lock_seconds * 1000)


def duration_ms(reset: str) -> int:
    """Returns the duration in `by_duration:P1DT2H`, which is valid (ISO 8601 as in Java's `Duration`)."""
    parts = _PART.findall(reset.removeprefix(BY_DURATION))
    return round(
        sum(float(number.replace(",", ".")) * _SECONDS[unit.upper()] for number, unit in parts)
        * 1000
    )


class SharingSettings:
    """The current settings by group id; altered values apply from the next request on."""

    def __init__(self, config: ServerConfig, configs: Callable[[], ConfigsImage]) -> None:
        self._config = config
        self._configs = configs
        self._base = self._of({})
        # The settings of the groups with their own configs, cached until the configs change.
        self._known: tuple[ConfigsImage, dict[str, Sharing]] | None = None

    def of(self, group_id: str) -> Sharing:
        configs = self._configs()
        own = configs.of(GROUP_RESOURCE, group_id)
        if not own:
            return self._base
        if self._known is None or self._known[0] is not configs:
            self._known = configs, {}
        found = self._known[1].get(group_id)
        if found is None:
            found = self._known[1][group_id] = self._of(own)
        return found

    def _of(self, own: Mapping[str, str]) -> Sharing:
        rules = SharingRules(
            record_locks_max=self._bounded("share.partition.max.record.locks", own),
            deliveries_max=self._bounded("share.delivery.count.limit", own),
            lock_seconds=self._bounded("share.record.lock.duration.ms", own) / 1000,
            renews=bool(_value("share.renew.acknowledge.enable", own)),
            dead_letters=bool(_value("errors.deadletterqueue.topic.name", own)),
        )
        return Sharing(
            rules,
            str(_value("share.auto.offset.reset", own)),
            _value("share.isolation.level", own) == "read_committed",
        )

    def _bounded(self, key: str, own: Mapping[str, str]) -> int:
        """Returns the group's value within the broker's bounds, or the broker's own value."""
        config, (base, low, high) = self._config, _OF_BROKER[key]
        if key not in own:
            return int(config[base])
        return int(max(config[low], min(config[high], GROUP_CONFIGS[key].parse(own[key]))))


def _value(key: str, own: Mapping[str, str]) -> Any:
    known = GROUP_CONFIGS[key]
    return known.parse(own[key]) if key in own else known.default
