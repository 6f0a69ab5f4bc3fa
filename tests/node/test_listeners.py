"""The bounds of connections that a node's configuration and its process give."""

import resource

import pytest

from node.listeners import bind, descriptors_end, limits_of
from tests.quorum.config_of import config_of
from wire.transport.memory import REQUEST_BYTES_MAX


@pytest.mark.parametrize(
    ("descriptors", "end"),
    [(20_000, 19_744), (1024, 768), (100, 75), (resource.RLIM_INFINITY, 1 << 31)],
)
def test_the_last_descriptors_are_for_files(descriptors, end):
    assert descriptors_end(descriptors) == end


def test_the_bound_is_that_of_this_process():
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert limits_of(config_of()).descriptors_end == descriptors_end(soft)


def test_bytes_of_requests_are_bounded_unless_somebody_says_otherwise():
    assert limits_of(config_of()).request_bytes_max == REQUEST_BYTES_MAX
    own = config_of(**{"queued.max.request.bytes": "1000"})
    assert limits_of(own).request_bytes_max == 1000


def test_a_listener_may_have_a_bound_of_its_own():
    own = config_of(
        **{
            "process.roles": "broker",
            "node.id": "2",
            "listeners": "PLAINTEXT://127.0.0.1:0,INSIDE://127.0.0.1:0",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "INSIDE",
            "max.connections": "7",
            "listener.name.plaintext.max.connections": "3",
        }
    )
    limits = limits_of(own)
    assert limits.connections_max == 7
    assert limits.connections_max_of_listeners == {"PLAINTEXT": 3}
    listeners = bind(own, own.broker_listeners)
    try:
        assert [one.for_nodes for one in listeners] == [False, True]
    finally:
        for one in listeners:
            one.socket.close()
