"""The error of `trimaran zk` for an address without a ZooKeeper, before it waits for one."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager

import pytest

from tests.zkcompat.conftest import needs_zookeeper
from trimaran.cli.zk import get, status, tree
from trimaran.errors.user_error import Exit, UserError
from trimaran.errors.zookeeper import why_no_zookeeper
from trimaran.node.runtime.ports import HOST
from trimaran.zkcompat.zookeeper.server_process import start_zookeeper


@contextmanager
def answering(answer):
    """Runs a server that sends `answer` and closes the connection; with None it stays silent."""
    with socket.create_server((HOST, 0)) as server:

        def serve():
            with server.accept()[0] as connection:
                connection.recv(4)
                connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        if answer is not None:
            thread.start()
        yield f"{HOST}:{server.getsockname()[1]}"
    if answer is not None:
        thread.join(10)


@pytest.mark.parametrize("command", [status, tree, lambda **to: get("/", **to)])
def test_unknown_host_cannot_be_connected(command, tmp_path):
    with pytest.raises(UserError, match=r"host name no-such-host\.invalid is not known") as raised:
        command(zookeeper="no-such-host.invalid:2181/chroot", data=tmp_path)
    assert raised.value.exit_code is Exit.CANNOT_CONNECT


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
def test_server_of_another_protocol_is_reported(answer, tmp_path):
    with answering(answer) as where, pytest.raises(UserError, match="does not speak ZooKeeper"):
        tree(zookeeper=where, data=tmp_path)


def test_refused_connection_is_explained():
    assert f"nothing listens at {HOST}:1" in str(why_no_zookeeper(f"{HOST}:1"))


def test_silent_server_may_be_slow():
    with answering(None) as where:
        assert why_no_zookeeper(f"{HOST}:1,{where}/chroot") is None


def test_disallowed_command_is_no_error():
    with answering(b"srvr is not executed because it is not in the whitelist.\n") as where:
        assert why_no_zookeeper(where) is None


def test_running_zookeeper_is_accepted(tmp_path):
    needs_zookeeper()
    server = start_zookeeper(tmp_path, 0)
    try:
        assert why_no_zookeeper(server.connect) is None
    finally:
        server.kill()


def error_at(connect):
    error = why_no_zookeeper(connect)
    return error.what, error.why, error.fix, error.exit_code.name


def test_first_invalid_address_is_explained():
    fix = "name the client port of a ZooKeeper with -z HOST:PORT"
    with answering(b"HTTP/1.1 400 Bad Request\r\n\r\n") as where:
        what = f"{where} does not speak ZooKeeper's protocol"
        why = "it answers something else to ZooKeeper's word srvr"
        assert error_at(f"{where},{HOST}:1") == (what, why, fix, "CANNOT_CONNECT")
    with answering(b"") as where:
        what = f"{where} does not speak ZooKeeper's protocol"
        why = "it ends the connection to ZooKeeper's word srvr"
        assert error_at(where) == (what, why, fix, "CANNOT_CONNECT")
    with answering(b"") as where:
        assert error_at(f"{HOST}:1,{where}")[0] == f"nothing listens at {HOST}:1"


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (socket.gaierror(-2, "Name or service not known"), "Name or service not known"),
        (socket.gaierror("nothing said"), "nothing said"),
        (OSError(113, "No route to host"), "[Errno 113] No route to host"),
    ],
)
def test_network_error_is_the_reason(monkeypatch, error, why):
    def refuse(*_):
        raise error

    monkeypatch.setattr(socket, "create_connection", refuse)
    assert error_at("h")[1] == why
