"""Shared parts of tests of shards."""

from __future__ import annotations

import threading

import pytest

from trimaran.broker.coordination.loader import CoordinatorLoader


@pytest.fixture
def held_load(monkeypatch):
    """Blocks loads until it is set."""
    may_finish = threading.Event()
    replay_into = CoordinatorLoader.replay_into

    def slow(loader, *into):
        may_finish.wait(30)
        replay_into(loader, *into)

    monkeypatch.setattr(CoordinatorLoader, "replay_into", slow)
    yield may_finish
    may_finish.set()
