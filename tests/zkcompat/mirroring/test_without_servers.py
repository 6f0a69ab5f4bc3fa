"""Repeats the mirror's tests with a ZooKeeper in memory and a clock that jumps: the steps take no time, so all of them
run.
"""

import inspect
from functools import wraps

import pytest
import trio

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
from trimaran.zkcompat.zookeeper import session

# They stop and start a real server, or need a process of their own.
NOT_THESE = ("own_zookeeper", "zookeeper", "tmp_path")
# A test that polls never lets the clock jump; other clients need a server.
NOT_WITH = (
    "lowlevel.checkpoint()",
    "_expire(",
    "._socket",
    'monkeypatch.setattr(Keeper, "transact"',
)


@pytest.fixture
def connect(monkeypatch, at_once):
    """Replaces the fixture that starts real servers."""
    ensemble = Ensemble(lambda: int(trio.current_time() * 1000))
    monkeypatch.setattr(session, "make_client", ensemble.client)
    return "memory/chroot"


def _by_the_clock(test):
    """A separate fixture for the clock of a test."""

    @wraps(test)
    async def run(autojump_clock, **given):
        await test(**given)

    signature = inspect.signature(test)
    clock = inspect.Parameter("autojump_clock", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    run.__signature__ = signature.replace(parameters=[clock, *signature.parameters.values()])
    return run


def _tests_of(module):
    for name, test in vars(module).items():
        if name.startswith("test_") and inspect.iscoroutinefunction(test):
            wanted = inspect.signature(test).parameters
            if any(name in inspect.getsource(test) for name in NOT_WITH):
                continue
            if "connect" in wanted and not set(NOT_THESE) & set(wanted):
                yield f"{name}_without_servers", _by_the_clock(test)


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
