"""The feature levels that we can work at, and those that a new cluster gets.

Source: Kafka 4.3's `MetadataVersion` and `Feature`. Groups of KIP-848, transactions 2, share and streams groups and eligible
leader replicas are not served, so their features stay at 0, which is not written. Left out: UpdateFeatures.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from quorum.metadata.image import FeatureRange, FeaturesImage
from quorum.metadata.other_deltas import KRAFT_VERSION, METADATA_VERSION
from wire.errors import ErrorCode, KafkaError
from wire.records.features import FeatureLevelRecord
from wire.schema import Message

METADATA_VERSION_MIN = 7  # 3.3-IV3, the oldest that Kafka 4 reads
METADATA_VERSION_LEVEL = 30  # 4.3-IV0

# What our nodes register with.
SUPPORTED_FEATURES = (FeatureRange(METADATA_VERSION, METADATA_VERSION_MIN, METADATA_VERSION_LEVEL),)


def bootstrap_records() -> list[Message]:
    """What the metadata log of a new cluster begins with."""
    return [FeatureLevelRecord(name=METADATA_VERSION, feature_level=METADATA_VERSION_LEVEL)]


def check_supported(features: FeaturesImage, ranges: Iterable[FeatureRange], who: str) -> None:
    """A node must support every level that is finalized; what it does not name it supports at 0.

    Raises:
        KafkaError: UNSUPPORTED_VERSION; INVALID_REGISTRATION, it does not say which metadata.version it supports.
    """
    supported = {one.name: one for one in ranges}
    if METADATA_VERSION not in supported:
        raise KafkaError(
            ErrorCode.INVALID_REGISTRATION, f"{who} does not name the feature {METADATA_VERSION}"
        )
    finalized: Mapping[str, int] = {
        METADATA_VERSION: features.metadata_version,
        KRAFT_VERSION: 0,
        **features.levels,
    }
    for name in finalized.keys() | supported.keys():
        level = finalized.get(name, 0)
        low, high = supported.get(name, FeatureRange(name, 0, 0))[1:]
        if not low <= level <= high:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"{who} supports {name} from {low} to {high}, and the cluster is at {level}",
            )
