from array import array
from typing import Protocol, TypeAlias

_Buffer: TypeAlias = bytes | bytearray | memoryview

COMPILED: bool
SLOT_BYTES: int

class _Columns(Protocol):
    data: _Buffer
    batch: array[int]
    offset: array[int]
    key_start: array[int]
    key_size: array[int]
    value_size: array[int]

    def __len__(self) -> int: ...

class OffsetMap:
    def __init__(self, slots: int, entries_max: int, key: bytes) -> None: ...
    def __len__(self) -> int: ...
    def digest(self, key: bytes) -> bytes: ...
    def get(self, key: bytes) -> int: ...
    def put_all(self, columns: _Columns, first_offset: int) -> int: ...
    def mark(
        self, columns: _Columns, fates: _Buffer, latest_offset: int, keep: bytearray
    ) -> None: ...
