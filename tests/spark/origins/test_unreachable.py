"""Bootstrap servers that are not running, are not Kafka, or do not exist: the error is reported immediately, and the
wait is bounded.
"""

import logging
import socket
import threading
from contextlib import contextmanager

import pytest

from trimaran.spark.kafka_log.options import LogOptions
from trimaran.spark.kafka_log.plan import plan_log
from trimaran.spark.kafka_metadata.registry import TABLES
from trimaran.spark.kafka_metadata.source import parse_options, plan_table
from trimaran.spark.origins.origin import DataUnreadable

LIMIT = {"kafka.default.api.timeout.ms": "300"}


@contextmanager
def server(answer):
    """Accepts connections, reads one request from each, and responds with the bytes `answer`."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve():
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection:
                connection.recv(1000)
                connection.sendall(answer)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{listening.getsockname()[1]}"
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join()


def nobody():
    """Returns an address at which no process listens."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return f"127.0.0.1:{free.getsockname()[1]}"


def plan(bootstrap, **options):
    given = {"kafka.bootstrap.servers": bootstrap, "subscribe": "t", **LIMIT, **options}
    return plan_log(LogOptions.parse(given))


def test_dead_brokers_are_reported_and_awaited(caplog):
    first, second = nobody(), nobody()
    with pytest.raises(DataUnreadable) as raised, caplog.at_level(logging.WARNING):
        plan(f"{first},{second}")
    refused = "; ".join(
        f"cannot connect to {a}: [Errno 111] Connection refused" for a in (first, second)
    )
    assert caplog.messages == [f"{refused}; waiting up to 0.3 s (kafka.default.api.timeout.ms)"]
    assert str(raised.value) == (
        f"{first},{second}: {refused}; no connection within 0.3 s: check that these are listeners of running nodes, and "
        "the option kafka.security.protocol; kafka.default.api.timeout.ms sets the wait"
    )


def test_dead_controllers_are_reported_and_awaited(caplog):
    address = nobody()
    given = {"table": "image", "kafka.controller.bootstrap.servers": address, **LIMIT}
    options = parse_options(given)
    with pytest.raises(DataUnreadable, match=f"{address}: .*no connection within 0.3 s"):
        plan_table(TABLES["image"], options, ("kind",))
    assert "waiting up to 0.3 s" in caplog.text


def test_default_wait_is_that_of_kafkas_clients():
    cluster = LogOptions.parse({"kafka.bootstrap.servers": "a:1"}).cluster
    assert cluster.call_limit == ("kafka.default.api.timeout.ms", 60)
    assert cluster.poll_timeout_seconds == 120


@pytest.mark.parametrize(
    "answer",
    [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x15\x03\x03\x00\x02\x02\x50", b"SSH-2.0-OpenSSH\r\n"],
    ids=["HTTP", "an alert of TLS", "SSH"],
)
def test_port_of_another_protocol_is_refused_at_once(answer):
    with server(answer) as address, pytest.raises(DataUnreadable) as raised:
        plan(address, **{"kafka.default.api.timeout.ms": "600000"})
    assert f"{address} sent a malformed response" in str(raised.value)
    assert "check that it is a listener of Kafka, and the option kafka.security.protocol" in str(
        raised.value
    )


def test_server_that_closes_connections_is_reported(caplog):
    with (
        server(b"") as address,
        pytest.raises(DataUnreadable, match=r"no connection within 0\.3 s"),
    ):
        plan(address)
    assert f"the connection to {address} broke: the node closed it; waiting" in caplog.text


def test_unknown_host_is_refused_at_once(monkeypatch):
    def unknown(*_args, **_kwargs):
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(
        DataUnreadable, match=r"kafka.invalid:9092: .*Name or service not known; check"
    ):
        plan("kafka.invalid:9092", **{"kafka.default.api.timeout.ms": "600000"})


def test_one_running_broker_among_dead_is_enough(caplog):
    """A malformed answer shows that the second address was reached."""
    with server(b"HTTP/1.1 400 Bad Request\r\n\r\n") as address:
        with pytest.raises(DataUnreadable, match="malformed"):
            plan(f"{nobody()},{address}")
    assert "waiting" not in caplog.text
