"""The features of Kafka 4.4: their levels, the levels that we support, and the levels of a new cluster.

Source: Kafka's `MetadataVersion`, `Feature` and related classes, KIP-584, KIP-778, KIP-1022. An unsupported feature
stays at 0, which is not written; setting it is refused as Kafka refuses an unknown feature.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from trimaran.quorum.metadata import versions
from trimaran.quorum.metadata.image import FeatureRange, FeaturesImage
from trimaran.quorum.metadata.versions import KRAFT_VERSION, METADATA_VERSION
from trimaran.quorum.raft.voters import DYNAMIC_QUORUM, STATIC_QUORUM
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.records.features import FeatureLevelRecord
from trimaran.wire.schema import Message

METADATA_VERSION_MIN = versions.OLDEST
METADATA_VERSION_LEVEL = versions.LATEST

TRANSACTION_VERSION = "transaction.version"
GROUP_VERSION = "group.version"
ELR_VERSION = "eligible.leader.replicas.version"
SHARE_VERSION = "share.version"
STREAMS_VERSION = "streams.version"


@dataclass(frozen=True, slots=True)
class Feature:
    """A feature. `levels` maps each level above 0 in Kafka 4.4 to the metadata.version at which new clusters start with
    it; `served` is our highest level.

    `needs`: by level, the levels of other features that it depends on.
    """

    name: str
    levels: Mapping[int, int]
    served: int = 0
    needs: Mapping[int, Mapping[str, int]] = field(default_factory=dict)


FEATURES = {
    feature.name: feature
    for feature in (
        Feature(TRANSACTION_VERSION, {1: 24, 2: 24}, served=2),
        Feature(GROUP_VERSION, {1: 22}, served=1),
        Feature(
            ELR_VERSION,
            {1: 26},
            served=1,
            needs={1: {METADATA_VERSION: versions.ELIGIBLE_LEADER_REPLICAS}},
        ),
        Feature(SHARE_VERSION, {1: 28, 2: 31}, served=2),
        Feature(STREAMS_VERSION, {1: 29}, served=1),
    )
}

# The supported levels of the features in the metadata.
SUPPORTED_FEATURES = (
    FeatureRange(METADATA_VERSION, METADATA_VERSION_MIN, METADATA_VERSION_LEVEL),
    *(
        FeatureRange(feature.name, 0, feature.served)
        for feature in FEATURES.values()
        if feature.served
    ),
)
# The levels that our nodes register. kraft.version is included, because Apache Kafka's controllers of a dynamic quorum
# otherwise refuse the registration.
REGISTERED_FEATURES = (
    *SUPPORTED_FEATURES,
    FeatureRange(KRAFT_VERSION, STATIC_QUORUM, DYNAMIC_QUORUM),
)


def first_levels(chosen: Mapping[str, int]) -> dict[str, int]:
    """Returns the levels of a new cluster: the chosen ones, the newest metadata.version if none is chosen, and for each
    other feature the level that belongs to that metadata.version.

    Raises:
        ValueError: a feature or its level is not supported, or a dependency is not met.
    """
    metadata_version = chosen.get(METADATA_VERSION, METADATA_VERSION_LEVEL)
    levels = {
        METADATA_VERSION: metadata_version,
        **{feature.name: default_level(feature, metadata_version) for feature in FEATURES.values()},
        **chosen,
    }
    served = {supported_feature.name: supported_feature for supported_feature in SUPPORTED_FEATURES}
    for name, level in chosen.items():
        if name not in served:
            raise ValueError(
                f"{name} is not a feature that can be chosen; choose from {', '.join(served)}"
            )
        _, low, high = served[name]
        if not low <= level <= high:
            raise ValueError(f"{name} {level} is out of range: it must be between {low} and {high}")
        for other, least in needs_of(name, level).items():
            if levels[other] < least:
                raise ValueError(f"{name} {level} needs {other} {least}, not {levels[other]}")
    return levels


def needs_of(name: str, level: int) -> Mapping[str, int]:
    """Returns the minimum levels of other features that this level depends on."""
    return FEATURES[name].needs.get(level, {}) if name in FEATURES else {}


def newest_known(name: str) -> int:
    """Returns the highest known level of a feature, even if it is not supported; 0 for unknown features."""
    if name == METADATA_VERSION:
        return METADATA_VERSION_LEVEL
    if name == KRAFT_VERSION:
        return DYNAMIC_QUORUM
    return max(FEATURES[name].levels) if name in FEATURES else 0


def bootstrap_records(levels: Mapping[str, int] | None = None) -> list[Message]:
    """Returns the first records of a new cluster's log: metadata.version first, then the other enabled features."""
    found = first_levels({}) if levels is None else levels
    return [
        FeatureLevelRecord(name=name, feature_level=level) for name, level in found.items() if level
    ]


def default_level(feature: Feature, metadata_version: int) -> int:
    """Returns the supported level of a feature with which a new cluster of `metadata_version` starts."""
    return max(
        (
            level
            for level, since in feature.levels.items()
            if since <= metadata_version and level <= feature.served
        ),
        default=0,
    )


def check_supported(features: FeaturesImage, ranges: Iterable[FeatureRange], who: str) -> None:
    """Checks that a node supports every finalized level; a feature that it does not name has level 0 there.

    Raises:
        KafkaError: UNSUPPORTED_VERSION; INVALID_REGISTRATION if it does not name metadata.version.
    """
    ranges = list(ranges)
    if all(range_.name != METADATA_VERSION for range_ in ranges):
        raise KafkaError(
            ErrorCode.INVALID_REGISTRATION, f"{who} does not name the feature {METADATA_VERSION}"
        )
    if lacking := unsupported_levels(features, ranges):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"{who} does not support {lacking}")


def unsupported_levels(features: FeaturesImage, ranges: Iterable[FeatureRange]) -> str:
    """Returns the finalized levels outside a node's supported ranges, as readable text; empty if there are none."""
    supported = {range_.name: range_ for range_ in ranges}
    finalized: Mapping[str, int] = {
        METADATA_VERSION: features.metadata_version,
        KRAFT_VERSION: 0,
        **features.levels,
    }
    lacking = []
    for name in sorted(finalized.keys() | supported.keys()):
        level = finalized.get(name, 0)
        low, high = supported.get(name, FeatureRange(name, 0, 0))[1:]
        if not low <= level <= high:
            lacking.append(f"{name}={level} (only {low} to {high})")
    return ", ".join(lacking)
