"""`features list|upgrade|downgrade`: the feature levels of a cluster (KIP-584)."""

from __future__ import annotations

from trimaran.cli.connect import BROKERS, Brokers, DryRun
from trimaran.cli.output import Format, say, show_rows
from trimaran.client import features
from trimaran.errors.user_error import Exit, UserError
from trimaran.quorum.metadata import versions

COLUMNS = ("feature", "level", "release", "supported_min", "supported_max")


def list_features(*, brokers: Brokers = BROKERS, output: Format = "table") -> None:
    """Shows the level of each feature, and the levels that brokers support; 0 is off."""
    with brokers.connected() as client:
        rows = features.feature_rows(client)
    show_rows(rows, output, columns=COLUMNS)


def upgrade(*levels: str, dry_run: DryRun = False, brokers: Brokers = BROKERS) -> None:
    """Raises the levels of features.

    Args:
        levels: FEATURE=LEVEL: metadata.version=4.4 or metadata.version=33, kraft.version=1.
    """
    _update(brokers, levels, features.UPGRADE, dry_run)


def downgrade(
    *levels: str, unsafe: bool = False, dry_run: DryRun = False, brokers: Brokers = BROKERS
) -> None:
    """Lowers the levels of features; level 0 turns a feature off.

    Args:
        levels: FEATURE=LEVEL: metadata.version=4.2 or metadata.version=29.
        unsafe: Downgrade even if that loses metadata.
    """
    kind = features.UNSAFE_DOWNGRADE if unsafe else features.SAFE_DOWNGRADE
    _update(brokers, levels, kind, dry_run)


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
    with brokers.connected() as client:
        features.update_features(client, wanted, upgrade_type, validate_only=dry_run)
    done = ", ".join(f"{name} to {level}" for name, level in wanted)
    say(f"{'would change' if dry_run else 'changed'} {done}")
