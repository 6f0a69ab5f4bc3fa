"""Feature levels in ApiVersions: the supported levels of this node and the finalized levels of the cluster (KIP-584).

kraft.version is not a record of the metadata: it is in the quorum's own log, and level 0 is omitted (KIP-853).
"""

from __future__ import annotations

from trimaran.quorum.metadata.features import REGISTERED_FEATURES
from trimaran.quorum.metadata.image import MetadataImage
from trimaran.quorum.metadata.versions import KRAFT_VERSION, METADATA_VERSION
from trimaran.wire.transport.dispatch.api_versions import Features


def api_versions_features(image: MetadataImage, kraft_version: int) -> Features:
    """Returns the features of a node, in the same form on brokers and controllers."""
    finalized = dict(image.features.levels)
    if image.features.metadata_version:
        finalized[METADATA_VERSION] = image.features.metadata_version
    if kraft_version:
        finalized[KRAFT_VERSION] = kraft_version
    return Features(
        supported={
            registered_feature.name: (registered_feature.min_level, registered_feature.max_level)
            for registered_feature in REGISTERED_FEATURES
        },
        finalized=finalized,
        finalized_epoch=image.provenance.offset,
    )
