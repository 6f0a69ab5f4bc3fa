"""A signal that comes while a process of a local cluster is forked stops what it should, and is not lost."""

import os
import signal
import subprocess
from types import SimpleNamespace

import pytest

from trimaran.cli import cluster
from trimaran.local.children import Child


@pytest.fixture
def raising():
    """Ends on SIGTERM by an exception, as a command does."""
    before = signal.signal(signal.SIGTERM, lambda *_: (_ for _ in ()).throw(SystemExit(143)))
    yield
    signal.signal(signal.SIGTERM, before)


def test_command_ended_while_forking_stops_its_supervisor(tmp_path, monkeypatch, raising):
    with subprocess.Popen(["sleep", "100"]) as supervisor:

        def forked():
            # sent to this thread only, since `up` has only one: a thread of the test runner would receive it despite
            # the mask
            signal.raise_signal(signal.SIGTERM)
            return supervisor.pid

        monkeypatch.setattr(cluster.os, "fork", forked)
        try:
            with pytest.raises(SystemExit):
                cluster._supervise_in_background(SimpleNamespace(data=tmp_path), [])
            with pytest.raises(ProcessLookupError):
                os.kill(supervisor.pid, 0)
        finally:
            supervisor.kill()


def test_node_stopped_before_its_handlers_ends(tmp_path):
    """The forked process still has the handlers of the supervisor, which only wake its loop."""
    child = Child(SimpleNamespace(log_file=tmp_path / "node.log"))
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        child.fork(lambda on_ready: on_ready(), lambda: os.kill(os.getpid(), signal.SIGTERM))
        _, status = os.waitpid(child.pid, 0)
    finally:
        signal.signal(signal.SIGTERM, before)
        os.close(child.ready_fd)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGTERM
