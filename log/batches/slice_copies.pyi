from array import array

COMPILED: bool

def copy_slices(
    data: bytes, slice_starts: array[int], slice_sizes: array[int]
) -> list[bytes | None]: ...
