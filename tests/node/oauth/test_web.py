"""Requests to an identity provider end in time, regardless of its responses and their speed."""

import socket
import ssl
import threading
from contextlib import ExitStack, contextmanager, suppress

import pytest

from tests.certificates import Certificates
from trimaran.node.oauth.web import Web, WebError

SECONDS = 0.3
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"


@contextmanager
def dripping(begin, drip, tls=None):
    """Runs a server that sends `begin`, then `drip` repeatedly, each time long before a socket timeout."""
    ended = threading.Event()

    def serve():
        connection, _ = listener.accept()
        if tls is not None:
            connection = tls.wrap_socket(connection, server_side=True)
        with suppress(OSError), connection:
            connection.recv(4096)
            connection.sendall(begin)
            while not ended.wait(SECONDS / 10):
                connection.sendall(drip)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            ended.set()
            thread.join()


@pytest.mark.parametrize(
    ("begin", "drip"),
    [
        (b"", b""),
        (b"HTTP/1.1 200 OK", b"K"),
        (b"HTTP/1.1 200 OK\r\n", b"X-Drip: 1\r\n"),
        (HEAD, b"{"),
        (b"HTTP/1.1 200 OK\r\n\r\n", b"{"),
        (b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n"),
    ],
    ids=["silence", "status", "headers", "body", "body-without-length", "continues"],
)
@pytest.mark.parametrize("secured", [False, True])
def test_provider_that_drips_times_out(begin, drip, secured, tmp_path):
    certificates = Certificates()
    server = client = None
    if secured:
        pem = tmp_path / "server.pem"
        pem.write_text("".join(certificates.server))
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.load_cert_chain(pem)
        client = ssl.create_default_context(cadata=certificates.ca)
    scheme = "https" if secured else "http"
    with (
        dripping(begin, drip, server) as port,
        pytest.raises(WebError, match=r"longer than 0\.3 s|HTTP|headers|timed out"),
    ):
        Web(tls=client, seconds_max=SECONDS).get(f"{scheme}://localhost:{port}/jwks")


def test_provider_without_tls_handshake_times_out():
    with (
        dripping(b"\x16\x03\x03", b"\x00") as port,
        pytest.raises(WebError),
    ):
        Web(seconds_max=SECONDS).get(f"https://localhost:{port}/jwks")


def test_complete_answer_in_time_is_accepted():
    with dripping(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", b"") as port:
        assert Web(seconds_max=5.0).get(f"http://localhost:{port}/jwks") == b"{}"


def test_unreachable_provider_is_named_in_error():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(WebError, match="no answer from 127"):
        Web(seconds_max=SECONDS).get(f"http://127.0.0.1:{port}/jwks")


@pytest.mark.parametrize(("bytes_max", "is_taken"), [(1, False), (2, True), (3, True)])
def test_answer_up_to_size_bound_is_accepted(bytes_max, is_taken):
    with dripping(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", b"") as port:
        web = Web(seconds_max=5.0, bytes_max=bytes_max)
        if is_taken:
            assert web.get(f"http://localhost:{port}/jwks") == b"{}"
        else:
            with pytest.raises(WebError, match="larger than 1 bytes"):
                web.get(f"http://localhost:{port}/jwks")


def test_provider_that_accepts_no_connection_times_out():
    """The queue is full, so the kernel accepts no connection."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(3):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        with pytest.raises(WebError):
            Web(seconds_max=SECONDS).get(f"http://127.0.0.1:{listener.getsockname()[1]}/")
