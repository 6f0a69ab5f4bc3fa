"""Feature levels of a cluster: rows of those that are finalized or supported, and their changes (KIP-584)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from trimaran.errors.refused import Needs, check
from trimaran.quorum.metadata import versions
from trimaran.wire.messages.api_versions import ApiVersionsRequest
from trimaran.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

if TYPE_CHECKING:
    from trimaran.wire.blocking import BlockingClient
    from trimaran.wire.client.destinations import Destination

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3  # Kafka's FeatureUpdate.UpgradeType


def feature_rows(client: BlockingClient) -> list[dict[str, Any]]:
    """Returns a row for each feature: its level, 0 if it is off, and the levels that a broker supports."""
    response = _versions(client, None)
    levels = _levels(response)
    ranges = {
        supported_feature.name: (supported_feature.min_version, supported_feature.max_version)
        for supported_feature in response.supported_features
    }
    return [
        {
            "feature": name,
            "level": levels.get(name, 0),
            "release": versions.release_name(levels.get(name, 0))
            if name == versions.METADATA_VERSION
            else None,
            "supported_min": ranges.get(name, (None, None))[0],
            "supported_max": ranges.get(name, (None, None))[1],
        }
        for name in sorted(levels.keys() | ranges.keys())
    ]


def levels_at(client: BlockingClient, destination: Destination | None) -> dict[str, int]:
    """Returns the levels of the features that are on, as a node knows them."""
    return _levels(_versions(client, destination))


def _versions(client: BlockingClient, destination: Destination | None) -> Any:
    request = ApiVersionsRequest(client_software_name="trimaran", client_software_version="0")
    return client.call(destination, request)


def _levels(response: Any) -> dict[str, int]:
    return {feature.name: feature.max_version_level for feature in response.finalized_features}


def update_features(
    client: BlockingClient,
    levels: Iterable[versions.FeatureLevel],
    upgrade_type: int,
    *,
    validate_only: bool = False,
) -> None:
    """Changes levels of features, all or none. Raises KafkaError."""
    updates = [
        FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=upgrade_type)
        for name, level in levels
    ]
    request = UpdateFeaturesRequest(feature_updates=updates, validate_only=validate_only)
    response = client.call(None, request)
    for result in response.results:
        check(result.error_code, result.error_message, needs=Needs("ALTER"))
    check(response.error_code, response.error_message, needs=Needs("ALTER"))
