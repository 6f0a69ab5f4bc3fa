"""The options of `kafka_log`, parsed once into a frozen value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from spark.options import (
    EARLIEST,
    LATEST,
    OffsetsWanted,
    Options,
    TopicsWanted,
    offsets_wanted,
    positive,
    topics_wanted,
)

SPLIT_BYTES = 32 << 20  # a task's share: a second or two of decoding


@dataclass(frozen=True, slots=True)
class LogOptions:
    """Options of `kafka_log`."""

    paths: tuple[str, ...]
    topics: TopicsWanted
    starting: OffsetsWanted
    ending: OffsetsWanted
    level: str  # records, batches
    end: str  # high_watermark, log_end
    replicas: str  # leader, all
    include_headers: bool
    include_control: bool
    verify_crc: bool
    split_bytes: int
    min_partitions: int

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> LogOptions:
        """Raises OptionError."""
        o = Options("kafka_log", given)
        parsed = cls(
            paths=o.paths(),
            topics=topics_wanted(o),
            starting=o.parse(
                "startingOffsets",
                offsets_wanted("earliest", EARLIEST),
                OffsetsWanted(EARLIEST),
                'earliest or JSON such as {"orders":{"0":23,"1":-2}}',
            ),
            ending=o.parse(
                "endingOffsets",
                offsets_wanted("latest", LATEST),
                OffsetsWanted(LATEST),
                'latest or JSON such as {"orders":{"0":50,"1":-1}}',
            ),
            level=o.choice("level", ("records", "batches"), "records"),
            end=o.choice("end", ("high_watermark", "log_end"), "high_watermark"),
            replicas=o.choice("replicas", ("leader", "all"), "leader"),
            include_headers=o.flag("includeHeaders", False),
            include_control=o.flag("includeControl", False),
            verify_crc=o.flag("verifyCrc", True),
            split_bytes=o.parse("splitBytes", positive, SPLIT_BYTES, "a number above 0"),
            min_partitions=o.parse("minPartitions", positive, 1, "a number above 0"),
        )
        o.finish()
        return parsed
