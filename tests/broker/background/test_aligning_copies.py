"""Copies whose source log has changed keep only the records of the common history."""

from __future__ import annotations

import tempfile
from itertools import accumulate
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from tests.log.helpers import append, open_log, read_all
from trimaran.broker.background.directory_moves import align

# How many batches each leader epoch has written. Epochs that both histories share were written by the same leader.
SIZES = st.lists(st.integers(1, 3), max_size=3)


def written(path, epochs):
    """Returns a log with a batch of one to three records for each leader epoch in `epochs`."""
    log = open_log(path)
    for number, epoch in enumerate(epochs):
        append(log, 1 + number % 3, epoch=epoch)
    return log


def epochs_of(sizes, first, step):
    return [first + step * number for number, size in enumerate(sizes) for _ in range(size)]


@given(
    shared=SIZES,
    more=SIZES,
    others=SIZES,
    cut=st.integers(0, 3),
    goes_on=st.booleans(),
    deleted=st.integers(0, 12),
    deleted_in_copy=st.integers(0, 6),
)
@example(shared=[], more=[], others=[], cut=0, goes_on=False, deleted=0, deleted_in_copy=0)
@example(shared=[2], more=[], others=[3], cut=0, goes_on=False, deleted=0, deleted_in_copy=0)
@example(shared=[2], more=[2], others=[], cut=0, goes_on=True, deleted=6, deleted_in_copy=0)
@example(shared=[3], more=[2], others=[], cut=2, goes_on=False, deleted=0, deleted_in_copy=0)
@example(shared=[2, 1], more=[1], others=[1, 1], cut=0, goes_on=True, deleted=2, deleted_in_copy=0)
def test_copy_keeps_only_the_common_history(
    shared, more, others, cut, goes_on, deleted, deleted_in_copy
):
    """`shared` was copied; then the source lost its last batches (`cut`) and appended `more`, and the copy appended
    `others`, with epochs that the source never had. The last epoch may be longer in the source than in the copy
    (`goes_on`), and the source's first records may be deleted. The source does not know where an epoch above all of its
    own begins: everything is copied again.
    """
    copied = epochs_of(shared, 0, 1)
    common = copied[: len(copied) - min(cut, len(copied))]
    last = common[-1:] if goes_on and common == copied else []
    of_source = [*common, *last, *epochs_of(more, 10, 2)]
    of_copy = [*copied, *epochs_of(others, 11, 2)]
    with tempfile.TemporaryDirectory() as place:
        source = written(Path(place) / "source-0", of_source)
        copy = written(Path(place) / "copy-0", of_copy)
        ends = [0, *accumulate(1 + number % 3 for number in range(len(of_source)))]
        start = min(deleted, source.log_end_offset)
        source.delete_records_before(start)
        copy.delete_records_before(min(deleted_in_copy, copy.log_end_offset, start))
        align(source, copy)
        is_unknown = of_copy[-1:] > of_source[-1:]
        expected = start if is_unknown else max(ends[len(common)], start)
        assert (copy.log_start_offset, copy.log_end_offset) == (start, expected)
        kept = read_all(copy)
        assert kept == read_all(source)[: len(kept)]
        align(source, copy)
        assert copy.log_end_offset == expected, "what is aligned stays so"
        for log in (source, copy):
            log.close()


def test_copy_of_another_history_is_cut(tmp_path):
    source, copy = written(tmp_path / "t-0", [0, 0, 2]), written(tmp_path / "u-0", [0, 0, 1])
    align(source, copy)
    assert (copy.log_end_offset, copy.epochs.entries()) == (3, [(0, 0)])
    append(copy, 1, epoch=2)
    source.delete_records_before(2)
    align(source, copy)
    assert (copy.log_start_offset, copy.log_end_offset) == (2, 4)
    source.delete_records_before(6)
    align(source, copy)
    assert (copy.log_start_offset, copy.log_end_offset, copy.size_bytes) == (6, 6, 0)
    for log in (source, copy):
        log.close()


def test_copy_is_cut_where_its_own_epoch_ends(tmp_path):
    """The source has more records of the last common epoch than the copy had."""
    source = written(tmp_path / "t-0", [0, 0, 0, 3])
    copy = written(tmp_path / "u-0", [0, 1])
    align(source, copy)
    assert (copy.log_end_offset, copy.epochs.entries()) == (1, [(0, 0)])
    for log in (source, copy):
        log.close()
