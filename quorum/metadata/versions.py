"""Features and their levels: those of `metadata.version` that add records or fields. Source: Kafka 4.4's
`MetadataVersion`.
"""

from __future__ import annotations

from typing import NamedTuple

METADATA_VERSION = "metadata.version"
# The level of this feature is stored in control records, not in a FeatureLevelRecord; Kafka skips old
# FeatureLevelRecords with it (KAFKA-18979).
KRAFT_VERSION = "kraft.version"

OLDEST = 7  # 3.3-IV3, the oldest level that Kafka 4 reads
SCRAM = 11  # 3.5-IV2
TRANSACTIONS = 13  # 3.6-IV1, transactions of metadata records (KIP-868)
DELEGATION_TOKENS = 14  # 3.6-IV2
CONTROLLER_REGISTRATION = 15  # 3.7-IV0, KIP-919
DIRECTORY_ASSIGNMENT = 17  # 3.7-IV2, KIP-858
ELIGIBLE_LEADER_REPLICAS = 23  # 4.0-IV1, KIP-966
CORDONED_LOG_DIRS = 30  # 4.3-IV0
CIDR_ACLS = 32  # 4.4-IV1
CONTROLLER_UNREGISTRATION = 33  # 4.4-IV2, KIP-1312
LATEST = 33  # 4.4-IV2

# Levels that changed the content of records: a downgrade below one of them loses metadata.
CHANGED_METADATA = frozenset({7, 8, 11, 13, 14, 15, 17, 23, 30, 32, 33})


# The number of levels that each release added, from OLDEST on; the first level of 3.3 here is its IV3.
_RELEASES = (
    ("3.4", 1),
    ("3.5", 3),
    ("3.6", 3),
    ("3.7", 5),
    ("3.8", 1),
    ("3.9", 1),
    ("4.0", 4),
    ("4.1", 2),
    ("4.2", 2),
    ("4.3", 1),
    ("4.4", 3),
)
_NAMES = dict(
    enumerate(
        [
            "3.3-IV3",
            *(f"{release}-IV{number}" for release, count in _RELEASES for number in range(count)),
        ],
        OLDEST,
    )
)


def release_name(level: int) -> str:
    """Returns the name that Apache Kafka's tools print for a level, `4.3-IV0`; the number if it has no name."""
    return _NAMES.get(level, str(level))


def level_of(text: str) -> int:
    """Returns the level for `30`, `4.3-IV0`, or a release: `4.3`, `4.3.1` and `4.3.x` mean the newest level of 4.3.

    Raises:
        ValueError: there is no such release between the oldest and the newest.
    """
    if text.isdecimal():
        return int(text)
    release = ".".join(text.split(".")[:2])
    for level, name in reversed(_NAMES.items()):
        if release in (name, name.partition("-")[0]):
            return level
    raise ValueError(f"{text!r} is no release from {_NAMES[OLDEST]} to {_NAMES[LATEST]}")


class FeatureLevel(NamedTuple):
    """A feature and its level."""

    name: str
    level: int


def feature_level(text: str) -> FeatureLevel:
    """Parses `kraft.version=1`, `metadata.version=30` or `metadata.version=4.3` .

    Raises:
        ValueError: the text does not have that form, or there is no such release.
    """
    name, _, level = text.partition("=")
    if name == METADATA_VERSION and level:
        return FeatureLevel(name, level_of(level))
    if not name or not level.isdecimal():
        raise ValueError(f"{text!r} is not written FEATURE=LEVEL, where a level is a number")
    return FeatureLevel(name, int(level))


def loses_metadata(present: int, wanted: int) -> bool:
    """Returns whether a downgrade from `present` to `wanted` crosses a level that changed the content of records."""
    return any(wanted < level <= present for level in CHANGED_METADATA)
