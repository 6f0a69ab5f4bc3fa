"""Long-lived objects are excluded from collection once there are many."""

import gc

from trimaran.node.runtime.long_lived import LongLived

OBJECTS = 10_000


def freezes(long_lived, added):
    """Whether adding `added` objects freezes new ones; older ones may be frozen already, or be freed meanwhile."""
    new = [[] for _ in range(OBJECTS)]
    before = gc.get_freeze_count()
    long_lived.add(added)
    return gc.get_freeze_count() - before > len(new) / 2


def test_objects_are_frozen_once_there_are_many():
    long_lived = LongLived()
    assert not freezes(long_lived, OBJECTS - 1)
    assert freezes(long_lived, 1)
    assert not freezes(long_lived, OBJECTS - 1)
