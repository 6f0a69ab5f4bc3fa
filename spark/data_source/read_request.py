"""The request that the driver sends to executors, for each level of `kafka_log`."""

from __future__ import annotations

from dataclasses import dataclass

from trimaran.spark.origins.origin import DEFAULT_READING, Reading


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """The columns of the rows, in the user's order, and the settings for reading ranges."""

    columns: tuple[str, ...]
    reading: Reading = DEFAULT_READING
