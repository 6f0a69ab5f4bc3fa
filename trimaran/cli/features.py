"""`features list|upgrade|downgrade`: the feature levels of a cluster (KIP-584)."""

from __future__ import annotations

from trimaran.cli.connect import BROKERS, Brokers, DryRun
from trimaran.cli.output import Format, say, show_rows
from trimaran.errors import refused
from trimaran.errors.user_error import Exit, UserError
from trimaran.quorum.metadata import versions
from trimaran.wire.messages import api_versions, update_features

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3  # Kafka's FeatureUpdate.UpgradeType
COLUMNS = ("feature", "level", "release", "supported_min", "supported_max")


def list_features(*, brokers: Brokers = BROKERS, output: Format = "table") -> None:
    """Shows the level of each feature, and the levels that brokers support; 0 is off."""
    request = api_versions.ApiVersionsRequest(
        client_software_name="trimaran", client_software_version="0"
    )
    with brokers.connected() as client:
        response = client.call(None, request)
    levels = {feature.name: feature.max_version_level for feature in response.finalized_features}
    ranges = {
        supported_feature.name: (supported_feature.min_version, supported_feature.max_version)
        for supported_feature in response.supported_features
    }
    rows = [
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
    show_rows(rows, output, columns=COLUMNS)


def upgrade(*levels: str, dry_run: DryRun = False, brokers: Brokers = BROKERS) -> None:
    """Raises the levels of features.

    Args:
        levels: FEATURE=LEVEL: metadata.version=4.4 or metadata.version=33, kraft.version=1.
    """
    _update(brokers, levels, UPGRADE, dry_run)


def downgrade(
    *levels: str, unsafe: bool = False, dry_run: DryRun = False, brokers: Brokers = BROKERS
) -> None:
    """Lowers the levels of features; level 0 turns a feature off.

    Args:
        levels: FEATURE=LEVEL: metadata.version=4.2 or metadata.version=29.
        unsafe: Downgrade even if that loses metadata.
    """
    _update(brokers, levels, UNSAFE_DOWNGRADE if unsafe else SAFE_DOWNGRADE, dry_run)


def parse_level(text: str) -> tuple[str, int]:
    """See `feature_level`. Raises UserError."""
    try:
        return versions.feature_level(text)
    except ValueError as error:
        raise UserError(
            f"{text!r} is not a feature level",
            str(error),
            "write FEATURE=LEVEL; trimaran features list shows all features",
            exit_code=Exit.USAGE,
        ) from None


def _update(brokers: Brokers, levels: tuple[str, ...], upgrade_type: int, dry_run: bool) -> None:
    wanted = [parse_level(text) for text in levels]
    if not wanted:
        raise UserError(
            "nothing to change",
            "no feature was named",
            "name one: trimaran features upgrade metadata.version=4.4",
            exit_code=Exit.USAGE,
        )
    updates = [
        update_features.FeatureUpdateKey(
            feature=name, max_version_level=level, upgrade_type=upgrade_type
        )
        for name, level in wanted
    ]
    with brokers.connected() as client:
        response = client.call(
            None,
            update_features.UpdateFeaturesRequest(feature_updates=updates, validate_only=dry_run),
        )
        for result in response.results:
            refused.check(result.error_code, result.error_message)
        refused.check(response.error_code, response.error_message)
    done = ", ".join(f"{name} to {level}" for name, level in wanted)
    say(f"{'would change' if dry_run else 'changed'} {done}")
