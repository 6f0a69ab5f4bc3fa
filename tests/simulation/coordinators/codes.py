"""The location of the error code in each response."""

from __future__ import annotations

from typing import Any

from trimaran.wire.errors import ErrorCode


def code_of(response: Any) -> ErrorCode:
    """Returns the first error code of a response."""
    code = getattr(response, "error_code", 0)
    for group in getattr(response, "groups", ()):
        code = code or group.error_code
        for topic in group.topics:
            code = code or next(
                (partition.error_code for partition in topic.partitions if partition.error_code), 0
            )
    for topic in getattr(response, "topics", ()):
        code = code or next(
            (partition.error_code for partition in topic.partitions if partition.error_code), 0
        )
    for topic in getattr(response, "results_by_topic_v3_and_below", ()):
        codes = (result.partition_error_code for result in topic.results_by_partition)
        code = code or next((code for code in codes if code), 0)
    return ErrorCode.of(code)
