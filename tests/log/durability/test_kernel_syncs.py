"""Asynchronous syncs of the kernel on the loop."""

import errno
import logging
import os

import trio
from trio.testing import wait_all_tasks_blocked as settled

from tests.log.durability.held_syncs import held
from trimaran.log.durability import syncing
from trimaran.log.durability.syncing import of_this_run
from trimaran.wire.text import events
from trimaran.wire.text.events import event_of


async def test_real_file_is_synced(tmp_path):
    ended, errors = trio.Event(), []

    def end(error):
        errors.append(error)
        ended.set()

    file = os.open(tmp_path / "file", os.O_CREAT | os.O_RDWR, 0o600)
    os.write(file, b"record")
    syncs = of_this_run()
    if syncs is not None and syncs.begin([file], end):
        await ended.wait()
        assert errors == [None]
    os.close(file)
    assert of_this_run() is syncs


async def test_batch_ends_with_last_file_and_first_error():
    kernel, ended = held(), []
    assert of_this_run().begin([3, 4, 5], ended.append)
    assert of_this_run().begin([6], ended.append)
    assert kernel.submitted == [[3, 4, 5], [6]]
    kernel.complete(0, errno.EIO)
    kernel.complete(0, errno.ENOSPC)
    await settled()
    assert ended == []
    kernel.complete(1)
    await settled()
    assert ended == [None]
    kernel.complete(0)
    await settled()
    assert [error and error.errno for error in ended] == [None, errno.EIO]
    assert "Input/output" in str(ended[1])


async def test_partially_accepted_batch_fails():
    """A sync of the remaining files would not report errors of these."""
    kernel, ended = held(), []
    kernel.takes_max = 2
    assert of_this_run().begin([3, 4, 5], ended.append)
    kernel.complete(0)
    await settled()
    assert ended == []
    kernel.complete(0)
    await settled()
    assert [error.errno for error in ended] == [errno.EIO]


async def test_batch_refused_by_kernel_remains_to_sync():
    kernel = held()
    kernel.takes_max = 0
    assert not of_this_run().begin([3, 4], os.abort)


def test_next_run_reuses_the_context():
    """One context per run would have to be destroyed, which takes long."""
    first, *others = (trio.run(_eventfd) for _ in range(3))
    assert others == [first, first]


async def _eventfd():
    syncs = of_this_run()
    return None if syncs is None else syncs._fdatasyncs.eventfd


def test_missing_context_is_logged_once(monkeypatch, caplog):
    caplog.set_level(logging.INFO)

    def refuse():
        raise OSError(errno.EAGAIN, "too many")

    async def run():
        assert of_this_run() is None
        assert of_this_run() is None

    monkeypatch.setattr(syncing, "_spare", [])
    monkeypatch.setattr(syncing, "Fdatasyncs", refuse)
    trio.run(run)
    [told] = [record for record in caplog.records if event_of(record) is events.FSYNC_BY_THREADS]
    assert "too many" in told.getMessage()
