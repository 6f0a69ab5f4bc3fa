"""`features list|upgrade|downgrade`: the feature levels of a cluster (KIP-584)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trimaran.cli.connect import BROKERS, Brokers, DryRun
from trimaran.cli.output import Format, say, show_rows
from trimaran.client import features, group_kinds, groups
from trimaran.errors import refused
from trimaran.errors.user_error import Exit, UserError
from trimaran.node.text.wording import counted
from trimaran.quorum.metadata import versions
from trimaran.wire import errors
from trimaran.wire.client import errors as client_errors

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trimaran.wire.blocking import BlockingClient

_REFUSED = "their requests are refused (UNSUPPORTED_VERSION)"
# The consequences for members of groups if a feature is lowered to this level or below; for each feature the worst one
# first.
_LOSSES = (
    ("group.version", 0, _REFUSED),
    ("share.version", 0, _REFUSED),
    ("share.version", 1, "records that they give up are in no dead-letter queue"),
    ("streams.version", 0, _REFUSED),
)
NAMED_MAX = 10
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


def parse_level(text: str) -> versions.FeatureLevel:
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
        if upgrade_type != features.UPGRADE:
            _warn_of_members(client, wanted)
        rows = {row["feature"]: row for row in features.feature_rows(client)}
        before = {name: int(row["level"]) for name, row in rows.items()}
        try:
            features.update_features(client, wanted, upgrade_type, validate_only=dry_run)
        except errors.KafkaError as error:
            raise _refused(error, rows, wanted, upgrade_type) from error
    done = ", ".join(f"{name} to {level}" for name, level in wanted if before.get(name, 0) != level)
    if done:
        say(f"{'would change' if dry_run else 'changed'} {done}")
    for name, level in wanted:
        if before.get(name, 0) == level:
            say(f"{name} is {level} already")


def _refused(
    error: errors.KafkaError,
    rows: Mapping[str, Mapping[str, Any]],
    wanted: Sequence[versions.FeatureLevel],
    upgrade_type: int,
) -> UserError:
    """Returns the user-facing error; its remedy is the other command if a supported level is in its direction."""
    told = refused.refused(error)
    if error.code is not errors.ErrorCode.INVALID_UPDATE_VERSION:
        return told
    is_upgrade = upgrade_type == features.UPGRADE
    other = "downgrade" if is_upgrade else "upgrade"
    for name, level in wanted:
        row = rows.get(name)
        if row is None or row["supported_max"] is None or level > row["supported_max"]:
            continue
        if level < row["level"] if is_upgrade else level > row["level"]:
            told.fix = f"{name} is {row['level']}: trimaran features {other} {name}={level}"
            break
    return told


def _warn_of_members(client: BlockingClient, levels: Sequence[versions.FeatureLevel]) -> None:
    """Names the groups that need the features: the controller does not check them, and lowers the levels anyway."""
    for name, level in levels:
        loss = next(
            (loss for feature, to, loss in _LOSSES if feature == name and level <= to), None
        )
        if loss is None:
            continue
        kinds = [kind.name for kind in group_kinds.KINDS.values() if kind.feature == name]
        try:
            rows = groups.with_members(client, kinds)
        except (
            errors.KafkaError,
            client_errors.ConnectionLost,
            client_errors.RequestTimedOut,
        ) as error:
            say(f"warning: the groups that need {name} are unknown: {error}")
            continue
        if rows:
            named = ", ".join(row["group"] for row in rows[:NAMED_MAX])
            more = f" and {len(rows) - NAMED_MAX} more" if len(rows) > NAMED_MAX else ""
            say(
                f"warning: {counted(len(rows), f'{kinds[0]} group')} with members: {named}{more}; "
                f"at {name}={level} {loss}"
            )
