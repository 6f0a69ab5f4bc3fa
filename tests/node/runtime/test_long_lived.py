"""Long-lived objects are excluded from collection once there are many."""

import gc

from trimaran.node.runtime.long_lived import LongLived

OBJECTS = 10_000


def test_objects_are_frozen_once_there_are_many():
    gc.unfreeze()
    long_lived = LongLived()
    try:
        long_lived.add(OBJECTS - 1)
        assert gc.get_freeze_count() == 0
        long_lived.add(1)
        assert gc.get_freeze_count() > 0
        gc.unfreeze()
        long_lived.add(OBJECTS - 1)
        assert gc.get_freeze_count() == 0
    finally:
        # As before the test: later collections do not traverse the objects of all tests
        gc.freeze()
