"""What the mirror does in front of a ZooKeeper, once more in front of one in memory and by a clock that jumps: each step
of it in no time, so that none is left out for its length.
"""

import inspect

import pytest

from tests.zkcompat.mirroring import (
    test_claim_repair,
    test_follower,
    test_long_names,
    test_mirror,
    test_refusals,
    test_resync,
    test_sweeper,
)
from tests.zkcompat.zookeeper.in_memory import Ensemble
from zkcompat.zookeeper import session

# They turn a real server on and off, or need a process of their own.
NOT_THESE = ("own_zookeeper", "zookeeper", "tmp_path")
# Who asks again and again leaves no moment in which the clock could jump; other clients need a server.
NOT_WITH = (
    "lowlevel.checkpoint()",
    "_expire(",
    "._socket",
    'monkeypatch.setattr(Keeper, "transact"',
)


@pytest.fixture(autouse=True)
def connect(monkeypatch, autojump_clock):
    """In place of the one of real servers."""
    ensemble = Ensemble(lambda: int(autojump_clock.current_time() * 1000))
    monkeypatch.setattr(session, "make_client", ensemble.client)
    monkeypatch.setattr(session, "_stop", _stop)
    monkeypatch.setattr(session, "run_blocking", _run_at_once)
    return "memory/chroot"


def _stop(client):
    client.stop()


async def _run_at_once(call, *arguments):
    return call(*arguments)


def _tests_of(module):
    for name, test in vars(module).items():
        if name.startswith("test_") and inspect.iscoroutinefunction(test):
            wanted = inspect.signature(test).parameters
            if any(one in inspect.getsource(test) for one in NOT_WITH):
                continue
            if "connect" in wanted and not set(NOT_THESE) & set(wanted):
                yield f"{name}_without_servers", test


for _module in (
    test_claim_repair,
    test_follower,
    test_long_names,
    test_mirror,
    test_refusals,
    test_resync,
    test_sweeper,
):
    globals().update(_tests_of(_module))
