"""Feature levels of a broker: what it registers with, and what ApiVersions tells clients (KIP-584).

Levels are Apache Kafka 4.3's. Features of which nothing is served stay at 0 (groups of KIP-848, transactions, share groups).
"""

from __future__ import annotations

from quorum.metadata.image import FeatureRange, MetadataImage
from wire.transport.api_versions import Features

METADATA_VERSION = "metadata.version"
# 3.3-IV3, the lowest that Kafka 4 accepts, and 4.3-IV0.
METADATA_VERSION_LEVELS = (7, 30)
KRAFT_VERSION = "kraft.version"
KRAFT_VERSION_LEVELS = (0, 1)

SUPPORTED = (
    FeatureRange(METADATA_VERSION, *METADATA_VERSION_LEVELS),
    FeatureRange(KRAFT_VERSION, *KRAFT_VERSION_LEVELS),
)


def features_of(image: MetadataImage) -> Features:
    """What ApiVersions says beside versions."""
    finalized = dict(image.features.levels)
    finalized[METADATA_VERSION] = image.features.metadata_version
    return Features(
        supported={feature.name: (feature.min_level, feature.max_level) for feature in SUPPORTED},
        finalized=finalized,
        finalized_epoch=image.provenance.offset,
    )
