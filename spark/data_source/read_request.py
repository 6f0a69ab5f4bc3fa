"""What a read is to give; of a level's reader and of the tables of `kafka_metadata` alike."""

from __future__ import annotations

from dataclasses import dataclass

from trimaran.spark.origins.origin import DEFAULT_READING, Reading


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """What rows are made of: the columns in the order asked for, and how ranges are read."""

    columns: tuple[str, ...]
    reading: Reading = DEFAULT_READING
