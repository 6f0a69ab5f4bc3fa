"""A ZooKeeper in memory can be closed without a thread."""

import pytest

from trimaran.zkcompat.zookeeper import session


@pytest.fixture
def at_once(monkeypatch):
    """Closes sessions at once, not in another thread, because a clock that jumps would not wait for it."""

    async def run_at_once(call, *arguments):
        return call(*arguments)

    monkeypatch.setattr(session, "_stop", lambda client: client.stop())
    monkeypatch.setattr(session, "run_blocking", run_at_once)
