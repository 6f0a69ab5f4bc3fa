from array import array
from typing import TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview | array[int]

COMPILED: bool

class Slices:
    def __init__(self, data: Buffer, starts: Buffer, sizes: Buffer) -> None: ...
    def check(self, rows: int) -> None: ...
    def hashes(self, rows: int) -> list[int]: ...

def place_rows(
    topics: Buffer,
    firsts: array[int],
    counts: array[int],
    partitions: Buffer,
    keys: Slices,
    values: Slices,
    sticky: array[int],
    filled: array[int],
    nexts: array[int],
    batch_bytes: int,
    uses_keys: bool,
    slots: array[int],
) -> int: ...
def group_rows(slots: array[int], ends: array[int], order: array[int]) -> None: ...

class RowWriter:
    def __init__(
        self,
        keys: Slices,
        values: Slices,
        timestamps: Buffer,
        headers_starts: Buffer | None,
        headers_counts: Buffer | None,
        names: Slices | None,
        texts: Slices | None,
    ) -> None: ...
    def write(
        self,
        out: Buffer,
        at: int,
        limit: int,
        rows: array[int],
        first: int,
        last: int,
        base_timestamp: int,
        delta: int,
    ) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def needed_bytes(self) -> int: ...
    @property
    def largest_timestamp(self) -> int: ...
