"""Metrics as text, from a listener that notes its requests."""

import urllib.request

import pytest

from tests.trimaran.client.listeners import listening, nobody
from trimaran.client.metrics_text import text_of
from trimaran.errors.user_error import UserError


@pytest.fixture
def served():
    """Returns an address, and the first lines of its requests."""
    asked = []

    def serve(connection):
        asked.append(connection.recv(4096).partition(b"\r\n")[0].decode())
        body = "up 1\n# ü\n".encode()
        connection.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    with listening(serve) as (host, port):
        yield f"{host}:{port}", asked


def test_metrics_are_requested_all_or_by_name(served):
    address, asked = served
    assert text_of(address) == "up 1\n# ü\n"
    assert text_of(address, names=["a_total", "b"]) == "up 1\n# ü\n"
    assert asked == [
        "GET /metrics HTTP/1.1",
        "GET /metrics?name%5B%5D=a_total&name%5B%5D=b HTTP/1.1",
    ]


def test_wait_and_size_are_bounded(served, monkeypatch):
    address, _ = served
    timeouts, sizes = [], []
    real = urllib.request.urlopen

    def urlopen(url, timeout):
        timeouts.append(timeout)
        response = real(url, timeout=5)
        read = response.read
        response.read = lambda size: sizes.append(size) or read(size)
        return response

    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    text_of(address)
    text_of(address, timeout=3)
    assert (timeouts, sizes) == ([10.0, 3], [128 << 20] * 2)


def error_at(address):
    with pytest.raises(UserError) as raised:
        text_of(address)
    error = raised.value
    return error.what, error.why, error.fix, error.exit_code.name


def test_unusable_answer_is_reported_with_reason():
    fix = "check that the node is running, and that its trimaran.metrics.listener is set"

    def serve(connection):
        connection.recv(4096)
        connection.sendall(b"SSH-2.0\r\n")

    with nobody() as (host, port):
        address = f"{host}:{port}"
        what = f"no metrics from {address}"
        reason = "[Errno 111] Connection refused"
        assert error_at(address) == (what, reason, fix, "CANNOT_CONNECT")
    with listening(serve) as (host, port):
        assert error_at(f"{host}:{port}")[1] == "SSH-2.0\r\n"
    assert error_at("h:x")[1] == "nonnumeric port: 'x'"
