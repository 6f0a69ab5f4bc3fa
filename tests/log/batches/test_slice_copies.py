"""Slices of many records: compiled and interpreted code agree, and refuse slices beyond the data."""

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.log.interpreted import interpreted
from trimaran.log.batches import slice_copies

both = pytest.mark.parametrize(
    "module", [slice_copies, interpreted(slice_copies)], ids=["as installed", "source"]
)


@both
@given(
    data=st.binary(max_size=4),
    slices=st.lists(st.tuples(st.integers(-2, 6), st.integers(-2, 6)), max_size=3),
)
def test_slices_match_python_and_outside_ones_are_refused(module, data, slices):
    starts, sizes = (array("i", [slice_[i] for slice_ in slices]) for i in (0, 1))
    if all(size < 0 or 0 <= start <= start + size <= len(data) for start, size in slices):
        expected = [None if size < 0 else data[start : start + size] for start, size in slices]
        assert module.copy_slices(data, starts, sizes) == expected
    else:
        with pytest.raises(IndexError, match="is not within"):
            module.copy_slices(data, starts, sizes)


@both
def test_sums_beyond_32_bits_are_outside(module):
    most = array("i", [(1 << 31) - 1])
    with pytest.raises(IndexError):
        module.copy_slices(b"abc", most, most)
