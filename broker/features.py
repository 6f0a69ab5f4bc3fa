"""Feature levels: what ApiVersions tells clients of what the cluster supports and has finalized (KIP-584)."""

from __future__ import annotations

from quorum.controller.features import SUPPORTED_FEATURES
from quorum.metadata.image import MetadataImage
from quorum.metadata.other_deltas import METADATA_VERSION
from wire.transport.api_versions import Features


def features_of(image: MetadataImage) -> Features:
    """What ApiVersions says beside versions."""
    finalized = dict(image.features.levels)
    finalized[METADATA_VERSION] = image.features.metadata_version
    return Features(
        supported={
            feature.name: (feature.min_level, feature.max_level) for feature in SUPPORTED_FEATURES
        },
        finalized=finalized,
        finalized_epoch=image.provenance.offset,
    )
