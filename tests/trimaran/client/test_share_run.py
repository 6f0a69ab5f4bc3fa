"""The part of a share group's records that a run reads: transitions at its ends and at its locks."""

import pytest

from trimaran.client.share_run import SECONDS_BEFORE_LOCK, ShareRun
from trimaran.wire.identity import TopicIdPartition

FIRST, SECOND = (TopicIdPartition(bytes(16), partition) for partition in (0, 1))


@pytest.mark.parametrize(("offset", "is_wanted", "is_over"), [(3, 1, 0), (4, 1, 1), (5, 0, 1)])
def test_end_of_a_partition_ends_its_part(offset, is_wanted, is_over):
    run = ShareRun({0: 5})
    assert run.wants(FIRST, offset) == is_wanted
    assert run.is_over([FIRST], 0.0) == is_over


def test_every_assigned_partition_must_be_read():
    run = ShareRun({0: 1, 1: 1})
    run.wants(FIRST, 0)
    assert [run.is_over(parts, 0.0) for parts in ([], [FIRST], [SECOND], [FIRST, SECOND])] == [
        False,
        True,
        False,
        False,
    ]


def test_partition_without_end_stays_unfinished():
    run = ShareRun({0: 0})
    assert [run.is_over([FIRST], 0.0), run.is_over([SECOND], 0.0)] == [True, False]
    assert run.wants(SECOND, 10**9)


@pytest.mark.parametrize(("gives_back", "again"), [(True, False), (False, True)])
def test_only_kept_records_are_delivered_once(gives_back, again):
    run = ShareRun(gives_back=gives_back)
    assert [run.wants(FIRST, 7), run.wants(FIRST, 7), run.wants(SECOND, 7)] == [True, again, True]


def test_first_lock_of_kept_records_ends_the_run():
    kept, accepted = ShareRun(gives_back=True), ShareRun()
    for run in (kept, accepted):
        run.locked(30.0)
        run.locked(35.0)
    at = [30.0 - SECONDS_BEFORE_LOCK - 0.1, 30.0 - SECONDS_BEFORE_LOCK, 100.0]
    assert [kept.has_locks_ending(now) for now in at] == [False, True, True]
    assert [kept.is_over([], now) for now in at] == [False, True, True]
    assert [accepted.is_over([], now) for now in at] == [False, False, False]
