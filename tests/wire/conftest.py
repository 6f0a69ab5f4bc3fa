"""A clock for tests over real sockets."""

import pytest
import trio.testing

from tests.wire.transport.support import SETTLED_SECONDS


@pytest.fixture
def autojump_clock():
    """Jumps when nothing is on its way any more: what was sent and did not arrive yet would else be late for what
    jumped.
    """
    return trio.testing.MockClock(autojump_threshold=1.2 * SETTLED_SECONDS)
