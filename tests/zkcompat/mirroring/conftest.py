"""A ZooKeeper in memory needs no thread of its own to be closed."""

import pytest

from trimaran.zkcompat.zookeeper import session


@pytest.fixture
def at_once(monkeypatch):
    """Sessions are closed at once, and not in another thread, for which a clock that jumps would not wait."""

    async def run_at_once(call, *arguments):
        return call(*arguments)

    monkeypatch.setattr(session, "_stop", lambda client: client.stop())
    monkeypatch.setattr(session, "run_blocking", run_at_once)
