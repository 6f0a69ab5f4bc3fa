# cython: language_level=3, boundscheck=True, wraparound=False, initializedcheck=False
"""Copies keys or values of many records to bytes objects, in C if the package was built with a compiler.

Cython compiles this file; use it through `trimaran.log.batches.columns`. The types for callers are in
`slice_copies.pyi`.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from trimaran.log import cython_names as cython

COMPILED = cython.compiled


def copy_slices(data, slice_starts, slice_sizes):
    """Returns one element per slice, None for a negative size.

    Raises:
        IndexError: a slice is not within the data.
    """
    starts: cython.const[cython.int][::1] = slice_starts
    sizes: cython.const[cython.int][::1] = slice_sizes
    first: cython.p_const_char = data  # indexing is unchecked, so slices are checked here
    end: cython.Py_ssize_t = len(data)
    start: cython.Py_ssize_t
    size: cython.Py_ssize_t
    row: cython.Py_ssize_t
    found: list = []
    for row in range(len(slice_starts)):
        start, size = starts[row], sizes[row]
        if size < 0:
            found.append(None)
        elif start < 0 or start > end or size > end - start:
            raise IndexError(f"slice {row} is not within {end} bytes")
        else:
            found.append(first[start : start + size])
    return found
