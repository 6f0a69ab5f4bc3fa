"""The functions that a handler may use of its call and its connection."""

import logging
from types import SimpleNamespace

import pytest

from trimaran.wire.messages.registry import ApiKey
from trimaran.wire.security.principal import ANONYMOUS
from trimaran.wire.transport.memory.pools import Memory
from trimaran.wire.transport.requests.calls import Call, ConnectionInfo


def connection():
    return ConnectionInfo(7, "L", ("::ffff:10.0.0.1", 5), ("10.0.0.2", 9092), memory=Memory())


def call_of(info=None, **fields):
    header = SimpleNamespace(api_key=ApiKey.LIST_GROUPS, api_version=5)
    return Call(header, info or connection(), **fields)


def test_new_connection_is_open_and_unauthenticated():
    info = connection()
    assert (info.closed, info.muted_until) == (False, None)
    assert (info.principal, info.client_software) == (ANONYMOUS, None)
    assert str(info).startswith("connection 7 from ")
    assert str(info).endswith(":5 on L")


def test_callbacks_run_once_in_reverse_on_disconnect(caplog):
    info, called = connection(), []

    def first():
        called.append("first")

    def fails():
        called.append("fails")
        raise ValueError

    def forgotten():
        raise AssertionError

    info.on_close(first)
    info.on_close(first)
    info.on_close(forgotten)
    info.on_close(fails)
    info.forget_on_close(forgotten)
    info.forget_on_close(forgotten)
    with caplog.at_level(logging.ERROR):
        info.mark_closed()
    assert (called, info.closed) == (["fails", "first"], True)
    assert "a callback for a closed connection failed" in caplog.text
    info.mark_closed()
    assert called == ["fails", "first"]
    info.on_close(first)
    assert called == ["fails", "first", "first"]


async def test_connection_is_muted_for_the_longest_time(mock_clock):
    info = connection()
    assert info.mute(5.0) == 5.0
    assert info.muted_until == 5.0
    assert info.mute(2.0) == 2.0
    assert info.muted_until == 5.0
    mock_clock.jump(4.0)
    info.mute(2.0)
    assert info.muted_until == 6.0
    assert info.mute(3601.0) == 3600.0
    assert info.muted_until == 3604.0


async def test_throttled_call_reports_its_longest_milliseconds(mock_clock):
    call = call_of()
    assert call.throttle(0.0) == 0
    assert call.throttle(-1.0) == 0
    assert call.connection.muted_until is None
    assert call.throttle(0.0126) == 13
    assert call.throttle(0.0054) == 13
    assert (call.throttle_ms, call.connection.muted_until) == (13, 0.0126)
    assert call.throttle(9999.0) == 3_600_000


@pytest.mark.parametrize(
    ("heavy", "size", "is_large"),
    [
        (False, None, False),
        (True, None, True),
        (False, 1 << 20, False),
        (False, (1 << 20) + 1, True),
    ],
)
async def test_long_encoding_leaves_the_loop(heavy, size, is_large):
    call = call_of(heavy=heavy)
    call.close_room()
    if size is not None:
        room = call.room()
        assert call.room() is room
        room.take(size)
        await room.pause()
    assert call.is_large is is_large
    memory = call.connection.memory
    call.close_room()
    assert (memory.large.used, memory.responses.used) == (0, 0)
