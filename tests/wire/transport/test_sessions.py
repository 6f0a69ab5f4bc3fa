"""Login sessions that expire: a client that logs in again continues, one that does not is disconnected at its next
request (KIP-368).
"""

import math
from functools import partial

import pytest
import trio

from tests.wire.transport.support import (
    Toy,
    heartbeat,
    heartbeat_frame,
    open_raw,
    open_server,
    request_frame,
)
from trimaran.wire.blocking import BlockingConnection
from trimaran.wire.client.errors import ConnectionLost
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.heartbeat import HeartbeatRequest
from trimaran.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from trimaran.wire.messages.sasl_handshake import SaslHandshakeRequest
from trimaran.wire.security.listener import ClientSecurity, ListenerSecurity
from trimaran.wire.security.principal import Principal
from trimaran.wire.security.sasl.authenticator import SaslSettings
from trimaran.wire.security.sasl.exchange import Done
from trimaran.wire.security.sasl.plain import PlainCredentials, PlainExchange
from trimaran.wire.transport.client.node_connection import open_node_connection

USERS = {"alice": "secret", "bob": "secret"}
SESSION_MS = 10_000
ALICE, BOB = b"\0alice\0secret", b"\0bob\0secret"
HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


def listener(session_ms=SESSION_MS):
    mechanisms = {name: partial(PlainExchange, USERS) for name in ("PLAIN", "OTHER")}
    return ListenerSecurity(sasl=SaslSettings(mechanisms, session_ms_max={"PLAIN": session_ms}))


async def handshake(client, mechanism="PLAIN"):
    await client.send(request_frame(SaslHandshakeRequest(mechanism=mechanism), 1, 1))
    return (await client.answer(17, 1))[1].error_code


async def authenticate(client, token=ALICE, version=2):
    await client.send(request_frame(SaslAuthenticateRequest(auth_bytes=token), version, 2))
    return (await client.answer(36, version))[1]


async def log_in(client, token=ALICE, mechanism="PLAIN"):
    assert await handshake(client, mechanism) == 0
    return await authenticate(client, token)


async def ping(client, number):
    await client.send(heartbeat_frame("g", number))
    assert (await client.heartbeat())[0] == number


async def test_expired_login_is_closed_by_next_request(autojump_clock):
    toy = Toy()
    async with open_server(heartbeat, context=toy, security=listener()) as server:
        async with open_raw(server) as client:
            assert (await log_in(client)).session_lifetime_ms == SESSION_MS
            await trio.sleep(9)
            await ping(client, 1)
            await trio.sleep(1.1)
            await client.send(heartbeat_frame("late", 2))
            assert await client.is_closed()
        assert server.counters.expired_sessions == 1
    assert toy.begun == ["g"]


async def test_late_renewal_continues_the_session(autojump_clock):
    async with open_server(heartbeat, context=Toy(), security=listener()) as server:
        async with open_raw(server) as client:
            await log_in(client)
            for number, seconds in enumerate((8, 9, 15, 9.5)):
                await trio.sleep(seconds)
                answer = await log_in(client)
                assert (answer.error_code, answer.session_lifetime_ms) == (0, SESSION_MS)
                await ping(client, number)


async def test_login_does_not_wait_for_earlier_requests(autojump_clock):
    """The login follows them, and so does its response."""
    toy = Toy()
    event = toy.defer("slow")
    async with open_server(heartbeat, context=toy, security=listener()) as server:
        async with open_raw(server) as client:
            await log_in(client)
            await client.send(heartbeat_frame("slow", 7))
            await client.send(request_frame(SaslHandshakeRequest(mechanism="PLAIN"), 1, 8))
            await trio.sleep(1)
            event.set()
            assert (await client.heartbeat())[0] == 7
            assert (await client.answer(17, 1))[0] == 8
            assert (await authenticate(client)).error_code == 0


@pytest.mark.parametrize(
    ("token", "mechanism"), [(BOB, "PLAIN"), (ALICE, "OTHER"), (b"\0alice\0wrong", "PLAIN")]
)
async def test_neither_principal_nor_mechanism_may_change(autojump_clock, token, mechanism):
    async with open_server(heartbeat, context=Toy(), security=listener()) as server:
        async with open_raw(server) as client:
            await log_in(client)
            answer = await log_in(client, token, mechanism)
            assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert await client.is_closed()


async def test_only_login_is_answered_during_a_login(autojump_clock):
    toy, security = Toy(), listener()
    async with open_server(
        heartbeat, context=toy, security=security, handshake_seconds=3.0
    ) as server:
        async with open_raw(server) as client:
            await log_in(client)
            await handshake(client)
            await client.send(heartbeat_frame("g", 3))
            assert (await client.heartbeat())[1].error_code == ErrorCode.ILLEGAL_SASL_STATE
            assert await client.is_closed()
        async with open_raw(server) as client:
            await log_in(client)
            await handshake(client)
            began = trio.current_time()
            assert await client.is_closed()
            assert trio.current_time() - began <= 3.0
    assert toy.begun == []


async def test_endless_login_replaces_one_with_an_end(autojump_clock):
    """First a token, then a password: the former end of the session no longer applies."""
    lives = iter([5000, None])

    class Living:
        def evaluate(self, _token):
            return Done(Principal("alice"), b"", next(lives))

    security = ListenerSecurity(sasl=SaslSettings({"PLAIN": Living}))
    async with open_server(heartbeat, context=Toy(), security=security) as server:
        async with open_raw(server) as client:
            assert (await log_in(client)).session_lifetime_ms == 5000
            assert (await log_in(client)).session_lifetime_ms == 0
            await trio.sleep(400)
            await ping(client, 1)


async def test_logins_are_a_second_apart(autojump_clock):
    async with open_server(heartbeat, context=Toy(), security=listener()) as server:
        async with open_raw(server) as client:
            await log_in(client)
            await log_in(client)
            assert await handshake(client) == ErrorCode.ILLEGAL_SASL_STATE
            await trio.sleep(1)
            assert (await log_in(client)).error_code == 0


async def test_sessions_without_bound_do_not_expire(autojump_clock):
    async with open_server(heartbeat, context=Toy(), security=listener(0)) as server:
        async with open_raw(server) as client:
            assert (await log_in(client)).session_lifetime_ms == 0
            await trio.sleep(400)
            await ping(client, 1)
            assert await handshake(client) == ErrorCode.ILLEGAL_SASL_STATE


async def test_own_connections_renew_login_while_calls_wait(autojump_clock):
    toy = Toy()
    security = ClientSecurity(sasl=PlainCredentials("alice", "secret"))
    async with open_server(heartbeat, context=toy, security=listener()) as server:
        async with open_node_connection(*server.addresses["PLAINTEXT"], security=security) as one:
            for _ in range(40):
                await trio.sleep(1.7)
                await one.call(HEARTBEAT, timeout=5)
            assert not one.closed.is_set()
        assert server.counters.accepted == 1
        assert server.counters.expired_sessions == 0


async def test_own_connections_close_if_login_is_refused(autojump_clock):
    users = dict(USERS)
    mechanisms = {"PLAIN": partial(PlainExchange, users)}
    settings = SaslSettings(mechanisms, session_ms_max={"PLAIN": SESSION_MS})
    security = ClientSecurity(sasl=PlainCredentials("alice", "secret"))
    toy = Toy()
    async with open_server(
        heartbeat, context=toy, security=ListenerSecurity(sasl=settings)
    ) as server:
        async with open_node_connection(*server.addresses["PLAINTEXT"], security=security) as one:
            del users["alice"]
            await trio.sleep(9)
            with pytest.raises(ConnectionLost, match="invalid credentials"):
                await one.call(HEARTBEAT, timeout=5)
            await one.closed.wait()
    assert toy.begun == []


async def test_blocking_client_renews_login_before_a_call():
    security = ClientSecurity(sasl=PlainCredentials("alice", "secret"))
    async with open_server(heartbeat, context=Toy(), security=listener()) as server:
        address = server.addresses["PLAINTEXT"]

        def calls():
            connection = BlockingConnection(address, security=security)
            assert connection._log_in_at < math.inf
            connection._log_in_at = 0.0  # the session is about to end
            connection.call(HEARTBEAT)
            connection.close()
            return connection._log_in_at

        assert 0.0 < await trio.to_thread.run_sync(calls) < math.inf
    # ApiVersions, twice handshake and token, and the call itself
    assert server.counters.requests == 6
