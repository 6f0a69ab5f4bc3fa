"""The options of `kafka_metadata`, parsed once into a frozen value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from spark.options import NO_NAMES, Options, names_of, positive

SPLIT_BYTES = (
    4 << 20
)  # metadata records are decoded one by one, so tasks are smaller than those of data
NodesWanted = str | frozenset[int]  # leader, all, or ids
LEADER: NodesWanted = "leader"
METADATA_TABLES = ("records", "partition_history", "quorum_epochs")


@dataclass(frozen=True, slots=True)
class MetadataOptions:
    """Options of `kafka_metadata`."""

    paths: tuple[str, ...]
    table: str
    nodes: NodesWanted
    record_types: frozenset[str]  # empty: all
    include_control: bool
    include_uncommitted: bool
    include_snapshots: str  # needed, true, false
    verify_crc: bool
    split_bytes: int

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> MetadataOptions:
        """Raises OptionError."""
        o = Options("kafka_metadata", given)
        parsed = cls(
            paths=o.paths(),
            table=o.choice("table", METADATA_TABLES, "records"),
            nodes=o.parse("nodes", _nodes, LEADER, "leader, all or ids parted by commas"),
            record_types=frozenset(o.parse("recordTypes", names_of, NO_NAMES, "record types")),
            include_control=o.flag("includeControl", False),
            include_uncommitted=o.flag("includeUncommitted", False),
            include_snapshots=o.choice("includeSnapshots", ("needed", "true", "false"), "needed"),
            verify_crc=o.flag("verifyCrc", True),
            split_bytes=o.parse("splitBytes", positive, SPLIT_BYTES, "a number above 0"),
        )
        o.finish()
        return parsed


def _nodes(text: str) -> NodesWanted:
    if text.lower() in ("leader", "all"):
        return text.lower()
    return frozenset(int(number) for number in text.split(","))
