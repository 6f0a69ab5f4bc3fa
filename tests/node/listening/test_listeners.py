"""The connection limits of a node's configuration and process."""

import math
import resource
import socket

import pytest

from tests.quorum.config_of import config_of
from trimaran.broker.process.composition import compose
from trimaran.log.directories.meta_properties import MetaPropertiesError
from trimaran.node.listening.addresses import AddressBook
from trimaran.node.listening.listeners import bind, descriptors_end, limits_of
from trimaran.node.runtime.ports import port_of, reserve
from trimaran.quorum.serving.altered_connections import connections_of
from trimaran.wire.transport.memory.bounds import REQUEST_BYTES_MAX


@pytest.mark.parametrize(
    ("descriptors", "end"),
    [(20_000, 19_744), (1024, 768), (100, 75), (resource.RLIM_INFINITY, 1 << 31)],
)
def test_last_descriptors_are_reserved_for_files(descriptors, end):
    assert descriptors_end(descriptors) == end


def test_connection_limit_follows_process_limit():
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert limits_of(config_of()).descriptors_end == descriptors_end(soft)


def test_request_bytes_are_bounded_by_default():
    assert limits_of(config_of()).request_bytes_max == REQUEST_BYTES_MAX
    own = config_of(**{"queued.max.request.bytes": "1000"})
    assert limits_of(own).request_bytes_max == 1000


def broker_on(port, *, log_dirs="/nowhere", second=""):
    return config_of(
        **{
            "process.roles": "broker",
            "node.id": "2",
            "listeners": f"PLAINTEXT://127.0.0.1:{port}{second}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": log_dirs,
        }
    )


def nothing_listens(port):
    with socket.create_server(("127.0.0.1", port)):
        return True


def test_broker_with_failed_composition_stops_listening(tmp_path):
    with reserve() as held:
        port = port_of(held)
    with pytest.raises(MetaPropertiesError) as raised:
        compose(broker_on(port, log_dirs=str(tmp_path / "not formatted")), None)
    assert nothing_listens(port), raised  # the traceback holds the open sockets


def test_earlier_binds_are_released_on_failure():
    with reserve() as held, socket.create_server(("127.0.0.1", 0)) as taken:
        port = port_of(held)
        held.close()
        config = broker_on(port, second=f",INSIDE://127.0.0.1:{taken.getsockname()[1]}")
        with pytest.raises(OSError, match="in use") as raised:
            bind(config, config.broker_listeners)
        assert nothing_listens(port), raised


def test_listener_may_have_its_own_limit():
    own = config_of(
        **{
            "process.roles": "broker",
            "node.id": "2",
            "listeners": "PLAINTEXT://127.0.0.1:0,INSIDE://127.0.0.1:0",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "INSIDE",
            "max.connections": "7",
            "listener.name.plaintext.max.connections": "3",
            "max.connections.per.ip.overrides": "127.0.0.1:5,[::1]:6",
            "listener.name.inside.max.connection.creation.rate": "20",
        }
    )
    bounds = connections_of(own, own.broker_listeners, AddressBook()).quotas.bounds
    assert bounds.connections_max == 7
    assert bounds.of_listeners == {"PLAINTEXT": 3, "INSIDE": 7}
    assert bounds.per_ip == {"127.0.0.1": 5, "::1": 6}
    assert bounds.rates_of_listeners == {"PLAINTEXT": math.inf, "INSIDE": 20}
    listeners = bind(own, own.broker_listeners)
    try:
        assert [listener.for_nodes for listener in listeners] == [False, True]
    finally:
        for listener in listeners:
            listener.socket.close()


def receive_buffer(sock):
    return sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)


@pytest.mark.parametrize("size", [None, 1 << 16, -1])
@pytest.mark.parametrize("is_given", [False, True])
def test_accepted_socket_has_configured_receive_buffer(size, is_given):
    """Requests in the buffer delay a client's next login, which must come before the last one expires."""
    config = config_of(**({} if size is None else {"socket.receive.buffer.bytes": str(size)}))
    (endpoint,) = config.controller_listeners
    with reserve() as held, socket.socket() as plain:
        held.listen()
        (listener,) = bind(config, [endpoint], {endpoint.name: held} if is_given else None)
        if size != -1:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size or 100 << 10)
        with (
            listener.socket,
            socket.create_connection(listener.address),
            listener.socket.accept()[0] as accepted,
        ):
            assert receive_buffer(accepted) == receive_buffer(plain)
