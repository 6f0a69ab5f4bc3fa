"""A clock for tests over real sockets."""

import pytest
import trio.testing

from tests.wire.transport.support import SETTLED_SECONDS


@pytest.fixture
def autojump_clock():
    """Jumps when no bytes are in transit: otherwise bytes that were sent and not received yet would arrive after the
    jump.
    """
    return trio.testing.MockClock(autojump_threshold=1.2 * SETTLED_SECONDS)
