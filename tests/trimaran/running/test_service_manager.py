"""The notifications that systemd receives."""

import socket

import pytest

from trimaran.running.node_process import READY, STOPPING, VARIABLE, notify


@pytest.mark.parametrize("kind", ["file", "abstract"])
def test_state_is_received_by_service_manager(kind, tmp_path, monkeypatch):
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(path if kind == "file" else f"\0{path}")
        monkeypatch.setenv(VARIABLE, path if kind == "file" else f"@{path}")
        assert notify(READY) is True
        assert notify(STOPPING) is True
        assert [manager.recv(100), manager.recv(100)] == [b"READY=1", b"STOPPING=1"]


@pytest.mark.parametrize("where", ["", "vsock:2:1", "/there/is/nobody"])
def test_missing_manager_is_no_error(where, monkeypatch):
    monkeypatch.setenv(VARIABLE, where)
    assert notify(READY) is False


def test_manager_that_does_not_read_blocks_nothing(tmp_path, monkeypatch):
    path = str(tmp_path / "notify")
    monkeypatch.setenv(VARIABLE, path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(path)
        for _ in range(10_000):
            notify(READY)
        assert manager.recv(100) == b"READY=1"
