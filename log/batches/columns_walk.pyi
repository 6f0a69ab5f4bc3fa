from array import array
from enum import IntEnum
from typing import Protocol, TypeAlias

_Buffer: TypeAlias = bytes | bytearray | memoryview

COMPILED: bool

class Problem(IntEnum):
    CUT_SHORT = -2
    RECORD_SIZE = -3
    VARINT = -4
    SIZE = -5
    HEADER_COUNT = -6
    HEADER_KEY = -7
    TIMESTAMP_OVERFLOW = -8
    OFFSET_DELTA = -9
    NULL_KEY = -10
    TIMESTAMP_RANGE = -11
    TRAILING_BYTES = -12

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
    # These two check the batch in `data`, in this order; `body` is its decompressed records, None if they are not
    # compressed.
    def has_sound_header(self, batch: memoryview) -> bool: ...
    def has_sound_records(
        self,
        body: _Buffer | None,
        requires_keys: bool,
        timestamp_min: int,
        timestamp_max: int,
        ignores_largest: bool,
    ) -> bool: ...
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
        headers_start: array[int],
        headers_count: array[int],
        places: tuple[array[int], array[int], array[int], array[int]],
    ) -> int: ...
