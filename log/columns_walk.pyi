from array import array
from collections.abc import Sequence
from enum import IntEnum
from typing import Protocol, TypeAlias

_Buffer: TypeAlias = bytes | bytearray | memoryview

COMPILED: bool

class Problem(IntEnum):
    CUT_SHORT = 1
    RECORD_SIZE = 2
    VARINT = 3
    SIZE = 4
    HEADER_COUNT = 5
    HEADER_KEY = 6
    TIMESTAMP_OVERFLOW = 7
    OFFSET_DELTA = 8
    NULL_KEY = 9
    TIMESTAMP_RANGE = 10
    TRAILING_BYTES = 11

class _Columns(Protocol):
    batch: array[int]
    offset: array[int]
    timestamp_ms: array[int]
    record_start: array[int]
    key_start: array[int]
    key_size: array[int]
    value_start: array[int]
    value_size: array[int]
    headers_start: array[int]
    headers_count: array[int]

class Walker:
    def __init__(self, data: _Buffer) -> None: ...
    def check(
        self,
        count: int,
        base_timestamp: int,
        requires_keys: bool,
        timestamp_min: int,
        timestamp_max: int,
    ) -> tuple[int, int, int, int]: ...
    def write_to(self, columns: _Columns) -> None: ...
    def fill(
        self,
        start: int,
        stop: int,
        batch: int,
        count: int,
        base_offset: int,
        last_delta: int,
        base_timestamp: int,
        append_time: int | None,
    ) -> tuple[int, int]: ...
    def retain(
        self, keep: _Buffer, out: bytearray, count: int, base_timestamp: int, shift: int
    ) -> tuple[int, int, int, int, int, int, int]: ...
    def headers(
        self,
        places: tuple[array[int], array[int], array[int], array[int]],
        row: tuple[Sequence[int], Sequence[int]],
    ) -> int: ...
