"""The failures of log directories that a running broker handles."""

from __future__ import annotations

import pytest
import trio

from tests.broker.storage.directories import Disks
from trimaran.broker.process.failed_directories import FailedDirectories


@pytest.fixture
def disks(tmp_path):
    disks = Disks(tmp_path)
    yield disks
    disks.stop(clean=False)


def fail(directories, name):
    directories.at(str(directories.all[0].path.with_name(name))).health.fail("the disk is gone")


async def test_each_failure_is_reported_once(disks, autojump_clock):
    directories = disks.start()
    failures, told = FailedDirectories(directories), []

    async def watch():
        while True:
            told.append([directory.path.name for directory in await failures.wait()])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        await trio.sleep(1)
        assert told == []
        await trio.to_thread.run_sync(fail, directories, "b")
        await trio.sleep(1)
        assert told == [["b"]]
        fail(directories, "b")
        await trio.sleep(1)
        fail(directories, "a")
        fail(directories, "c")
        await trio.sleep(1)
        assert told == [["b"], ["a", "c"]]
        nursery.cancel_scope.cancel()
