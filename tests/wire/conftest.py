"""A clock for tests over real sockets."""

import pytest
import trio.testing

from tests.wire.transport.support import SETTLED_SECONDS


@pytest.fixture
def autojump_clock():
    """A clock that jumps only when no bytes are in transit: otherwise bytes that were sent but not yet received would
    arrive after the jump.
    """
    return trio.testing.MockClock(autojump_threshold=1.2 * SETTLED_SECONDS)
