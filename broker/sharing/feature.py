"""The cluster's level of `share.version`: from 1 on share groups are served, from 2 on dead-letter queues."""

from __future__ import annotations

from trimaran.quorum.metadata.features import SHARE_VERSION
from trimaran.quorum.metadata.image import FeaturesImage

# The first levels with share groups, and with their dead-letter queues (KIP-1191).
SHARE_GROUPS, DEAD_LETTER_QUEUES = 1, 2


def has_share_groups(features: FeaturesImage) -> bool:
    """Whether share groups are served."""
    return features.levels.get(SHARE_VERSION, 0) >= SHARE_GROUPS


def has_dead_letter_queues(features: FeaturesImage) -> bool:
    """Whether share groups may have dead-letter queues."""
    return features.levels.get(SHARE_VERSION, 0) >= DEAD_LETTER_QUEUES
