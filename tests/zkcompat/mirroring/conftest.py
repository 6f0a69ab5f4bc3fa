"""A ZooKeeper in memory is closed without a thread."""

import pytest

from trimaran.zkcompat.zookeeper import session


@pytest.fixture
def at_once(monkeypatch):
    """Closes sessions directly, not in another thread, because a clock that jumps would not wait for a thread."""

    async def run_at_once(call, *arguments):
        return call(*arguments)

    monkeypatch.setattr(session, "_stop", lambda client: client.stop())
    monkeypatch.setattr(session, "run_blocking", run_at_once)
