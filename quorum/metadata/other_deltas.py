"""Changes to features, configs and producer ids, and to parts that are stored as records.

Source: Kafka's `FeaturesDelta`, `ConfigurationsDelta`, `ProducerIdsDelta`, `AclsDelta`, `ScramDelta`,
`DelegationTokenDelta`, `ClientQuotasDelta`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from immutables import Map

from trimaran.quorum.metadata.image import (
    TOPIC_RESOURCE,
    ConfigResource,
    ConfigsImage,
    FeaturesImage,
    ProducerIdsImage,
    QuotaEntity,
    UnknownRecords,
)
from trimaran.quorum.metadata.maps import updated
from trimaran.quorum.metadata.versions import KRAFT_VERSION, METADATA_VERSION
from trimaran.wire.records.configs import ConfigRecord
from trimaran.wire.records.features import FeatureLevelRecord
from trimaran.wire.records.metadata import UnknownRecord
from trimaran.wire.records.producer_ids import ProducerIdsRecord
from trimaran.wire.records.quotas import ClientQuotaRecord

K = TypeVar("K")
R = TypeVar("R")


class FeaturesDelta:
    """Changes to features. `changed` maps features to levels, None for a removed one; `metadata_version` is None if
    unchanged.
    """

    __slots__ = ("changed", "image", "metadata_version")

    def __init__(self, image: FeaturesImage) -> None:
        self.image = image
        self.changed: dict[str, int | None] = {}
        self.metadata_version: int | None = None

    def set_level(self, record: FeatureLevelRecord) -> None:
        if record.name == METADATA_VERSION:
            self.metadata_version = record.feature_level
        elif record.name != KRAFT_VERSION:
            self.changed[record.name] = record.feature_level or None

    def finish_snapshot(self) -> None:
        for name, level in self.image.levels.items():
            if name not in self.changed:
                self.changed[name] = None
            elif self.changed[name] == level:
                del self.changed[name]
        if self.metadata_version == self.image.metadata_version:
            self.metadata_version = None

    def apply(self) -> FeaturesImage:
        if not self.changed and self.metadata_version is None:
            return self.image
        version = self.metadata_version
        return FeaturesImage(
            self.image.metadata_version if version is None else version,
            updated(self.image.levels, self.changed),
        )


class ConfigsDelta:
    """Changes to configs. `changed` maps resources to the values set on them, None for a deleted value."""

    __slots__ = ("changed", "image")

    def __init__(self, image: ConfigsImage) -> None:
        self.image = image
        self.changed: dict[ConfigResource, dict[str, str | None]] = {}

    def set_config(self, record: ConfigRecord) -> None:
        resource = (record.resource_type, record.resource_name)
        self.changed.setdefault(resource, {})[record.name] = record.value

    def topic_removed(self, name: str) -> None:
        """Removes the configs of a deleted topic."""
        resource = (TOPIC_RESOURCE, name)
        present = self.image.by_resource.get(resource)
        if present is None:
            self.changed.pop(resource, None)
        else:
            self.changed[resource] = dict.fromkeys(present)

    def finish_snapshot(self) -> None:
        for resource, present in self.image.by_resource.items():
            changes = self.changed.setdefault(resource, {})
            for key, value in present.items():
                if key not in changes:
                    changes[key] = None
                elif changes[key] == value:
                    del changes[key]
            if not changes:
                del self.changed[resource]

    def apply(self) -> ConfigsImage:
        if not self.changed:
            return self.image
        new: dict[ConfigResource, Map[str, str] | None] = {}
        for resource, changes in self.changed.items():
            new[resource] = updated(self.image.of(*resource), changes) or None
        return ConfigsImage(updated(self.image.by_resource, new))


class ProducerIdsDelta:
    __slots__ = ("image", "next_producer_id")

    def __init__(self, image: ProducerIdsImage) -> None:
        self.image = image
        self.next_producer_id = image.next_producer_id

    def set_next(self, record: ProducerIdsRecord) -> None:
        self.next_producer_id = record.next_producer_id

    def apply(self) -> ProducerIdsImage:
        if self.next_producer_id == self.image.next_producer_id:
            return self.image
        return ProducerIdsImage(self.next_producer_id)


_NONE_FOUND = UnknownRecords()


class UnknownDelta:
    """Counts the records that only a later Kafka version understands; no other part has their changes."""

    __slots__ = ("found", "image")

    def __init__(self, image: UnknownRecords) -> None:
        self.image = image
        self.found = _NONE_FOUND

    def add(self, record: UnknownRecord) -> None:
        self.found = self.found.plus(1, (record,))

    def finish_snapshot(self) -> None:
        self.image = UnknownRecords()

    def apply(self) -> UnknownRecords:
        return (
            self.image.plus(self.found.count, self.found.kinds) if self.found.count else self.image
        )


class MapDelta(Generic[K, R]):
    """Changes to a map of records. `changed` maps a key to its last record, None if the key was removed."""

    __slots__ = ("changed", "image")

    def __init__(self, image: Map[K, R]) -> None:
        self.image = image
        self.changed: dict[K, R | None] = {}

    def set(self, key: K, record: R | None) -> None:
        self.changed[key] = record

    def finish_snapshot(self) -> None:
        for key, old in self.image.items():
            if key not in self.changed:
                self.changed[key] = None
            elif self.changed[key] == old:
                del self.changed[key]

    def apply(self) -> Map[K, R]:
        return updated(self.image, self.changed) if self.changed else self.image

    def growth(self, measure: Callable[[R], int]) -> int:
        """Returns how much the changes add to the sum of `measure` over all records."""
        growth = 0
        for key, record in self.changed.items():
            before = self.image.get(key)
            growth += 0 if record is None else measure(record)
            growth -= 0 if before is None else measure(before)
        return growth


def quota_key(record: ClientQuotaRecord) -> tuple[QuotaEntity, str]:
    """Returns the entity and the quota; the components of an entity are sorted, because records have them in
    any order.
    """
    return tuple(sorted((e.entity_type, e.entity_name) for e in record.entity)), record.key
