"""Kernel calls that end a process with its parent."""

import os
import signal

import pytest

from trimaran.node.runtime import parent_death
from trimaran.node.runtime.parent_death import end_with_parent

PARENT = 4711


@pytest.fixture
def kernel_calls(monkeypatch):
    found = []
    monkeypatch.setattr(parent_death, "_prctl", lambda *given: found.append(("prctl", *given)))
    monkeypatch.setattr(os, "kill", lambda *given: found.append(("kill", *given)))
    monkeypatch.setattr(os, "getppid", lambda: PARENT)
    return found


def test_a_process_gets_sigterm_when_its_parent_ends(kernel_calls):
    end_with_parent(PARENT)
    assert kernel_calls == [("prctl", 1, signal.SIGTERM, 0, 0, 0)]


def test_process_orphaned_before_request_ends_itself(kernel_calls):
    end_with_parent(PARENT + 1)
    assert kernel_calls == [
        ("prctl", 1, signal.SIGTERM, 0, 0, 0),
        ("kill", os.getpid(), signal.SIGTERM),
    ]


def test_missing_kernel_call_is_ignored(kernel_calls, monkeypatch):
    monkeypatch.setattr(parent_death, "_prctl", None)
    end_with_parent(PARENT + 1)
    assert kernel_calls == []
