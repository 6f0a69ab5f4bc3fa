"""SASL on real sockets: no request is served before the peer is authenticated."""

import threading
from dataclasses import dataclass
from functools import partial

import pytest
import trio
import trio.lowlevel

from tests.certificates import Certificates
from tests.wire.transport.support import (
    Toy,
    ask_api_versions,
    heartbeat,
    heartbeat_frame,
    open_raw,
    open_server,
    request_frame,
    sized,
)
from trimaran.wire.blocking import BlockingConnection
from trimaran.wire.client.errors import AuthenticationRefused
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.heartbeat import HeartbeatRequest
from trimaran.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from trimaran.wire.messages.sasl_handshake import SaslHandshakeRequest
from trimaran.wire.security.listener import ClientSecurity, ListenerSecurity
from trimaran.wire.security.sasl.authenticator import SaslSettings
from trimaran.wire.security.sasl.plain import PlainCredentials, PlainExchange
from trimaran.wire.transport.client.node_connection import open_node_connection

BEFORE_LOGIN = 28 << 10

SASL = SaslSettings({"PLAIN": lambda: PlainExchange({"alice": "secret"})})
LISTENER = ListenerSecurity(sasl=SASL)
HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


async def handshake(client, version=1, mechanism="PLAIN"):
    await client.send(request_frame(SaslHandshakeRequest(mechanism=mechanism), version, 1))
    return (await client.answer(17, version))[1]


async def authenticate(client, token=b"\0alice\0secret", version=2):
    await client.send(request_frame(SaslAuthenticateRequest(auth_bytes=token), version, 2))
    return (await client.answer(36, version))[1]


async def test_both_shells_log_in_with_their_principal():
    toy, security = Toy(), ClientSecurity(sasl=PlainCredentials("alice", "secret"))
    async with open_server(heartbeat, context=toy, security=LISTENER) as server:
        address = server.addresses["PLAINTEXT"]
        async with open_node_connection(*address, security=security) as client:
            await client.call(HEARTBEAT, timeout=5)
        assert str(toy.connections["g"].principal) == "User:alice"
        make = partial(BlockingConnection, address, security=security)
        connection = await trio.to_thread.run_sync(make)
        assert (await trio.to_thread.run_sync(connection.call, HEARTBEAT)).throttle_time_ms == 2
        connection.close()


async def test_wrong_password_is_refused_after_delay(autojump_clock):
    security = ClientSecurity(sasl=PlainCredentials("alice", "wrong"))
    async with open_server(heartbeat, context=Toy(), security=LISTENER) as server:
        began = trio.current_time()
        with pytest.raises(AuthenticationRefused, match="invalid credentials"):
            async with open_node_connection(*server.addresses["PLAINTEXT"], security=security):
                pass
        assert trio.current_time() - began >= SASL.failure_delay_seconds
        assert server.counters.failed_authentications == 1


async def test_sasl_over_tls_uses_both():
    certificates, toy = Certificates(), Toy()
    listener = ListenerSecurity(certificates.server_context(), SASL)
    security = ClientSecurity(certificates.client_context(), PlainCredentials("alice", "secret"))
    async with open_server(heartbeat, context=toy, security=listener) as server:
        address = server.addresses["PLAINTEXT"]
        async with open_node_connection(*address, security=security) as client:
            await client.call(HEARTBEAT, timeout=5)
        assert str(toy.connections["g"].principal) == "User:alice"


async def test_other_requests_are_refused_and_close():
    toy = Toy()
    async with open_server(heartbeat, context=toy, security=LISTENER) as server:
        async with open_raw(server) as client:
            await ask_api_versions(client)
            await client.send(heartbeat_frame("g", 3) * 2)
            correlation_id, response = await client.heartbeat()
            assert correlation_id == 3
            assert response.error_code == ErrorCode.ILLEGAL_SASL_STATE
            assert await client.is_closed()
        async with open_raw(server) as client:
            await handshake(client)
            await client.send(heartbeat_frame("g", 3))
            assert (await client.heartbeat())[1].error_code == ErrorCode.ILLEGAL_SASL_STATE
            assert await client.is_closed()
    assert not toy.begun


async def test_unknown_mechanism_is_refused_with_known_ones():
    async with open_server(heartbeat, context=Toy(), security=LISTENER) as server:
        async with open_raw(server) as client:
            response = await handshake(client, mechanism="GSSAPI\n")
            assert response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
            assert response.mechanisms == ["PLAIN"]
            assert await client.is_closed()


async def test_old_clients_send_bare_tokens():
    toy = Toy()
    async with open_server(heartbeat, context=toy, security=LISTENER) as server:
        async with open_raw(server) as client:
            assert (await handshake(client, 0)).error_code == 0
            await client.send(sized(b"\0alice\0secret"))
            assert await client.frame() == b""
            await client.send(heartbeat_frame("g", 9))
            assert (await client.heartbeat())[0] == 9
    assert toy.begun == ["g"]


async def test_open_connection_refuses_second_login():
    async with open_server(heartbeat, context=Toy(), security=LISTENER) as server:
        async with open_raw(server) as client:
            await handshake(client)
            assert (await authenticate(client)).error_code == 0
            assert (await handshake(client)).error_code == ErrorCode.ILLEGAL_SASL_STATE
            assert (await authenticate(client)).error_code == ErrorCode.ILLEGAL_SASL_STATE
            await client.send(heartbeat_frame("g", 4))
            assert (await client.heartbeat())[0] == 4


async def test_frames_are_small_until_the_peer_is_known(caplog):
    """Large frames are accepted after the login."""
    toy = Toy()
    async with open_server(heartbeat, context=toy, security=LISTENER) as server:
        async with open_raw(server) as client:
            await client.send((BEFORE_LOGIN + 1).to_bytes(4, "big"))
            assert await client.is_closed()
        async with open_raw(server) as client:
            await handshake(client)
            await authenticate(client)
            tail = bytes(BEFORE_LOGIN)
            frame = heartbeat_frame("g", 4)[4:] + tail
            await client.send(sized(frame))
            assert (await client.heartbeat())[0] == 4
    assert "frame size 28673" in caplog.text


@pytest.mark.parametrize("steps", [0, 1, 2])
async def test_unauthenticated_client_is_closed(autojump_clock, steps):
    async with open_server(
        heartbeat, context=Toy(), security=LISTENER, handshake_seconds=3.0
    ) as server:
        async with open_raw(server) as client:
            if steps:
                await ask_api_versions(client)
            if steps > 1:
                await handshake(client)
            began = trio.current_time()
            assert await client.is_closed()
            assert trio.current_time() - began <= 3.0


async def test_authenticated_client_stays_indefinitely(autojump_clock):
    async with open_server(
        heartbeat, context=Toy(), security=LISTENER, handshake_seconds=3.0
    ) as server:
        async with open_raw(server) as client:
            await handshake(client)
            await authenticate(client)
            await trio.sleep(100)
            await client.send(heartbeat_frame("g", 4))
            assert (await client.heartbeat())[0] == 4


@dataclass
class Noting:
    """A mechanism whose token is the password of alice; notes the host and the thread of each exchange."""

    blocks: bool
    noted: list

    mechanism = "PLAIN"

    def exchange(self, host):
        self.noted.append((host, threading.current_thread() is threading.main_thread()))
        return PlainCredentials("alice", "secret").exchange()


@pytest.mark.parametrize("blocks", [False, True])
async def test_exchange_gets_connected_host_and_a_thread(blocks):
    async with open_server(heartbeat, context=Toy(), security=LISTENER) as server:
        host, port = server.addresses["PLAINTEXT"]
        credentials = Noting(blocks, [])
        security = ClientSecurity(sasl=credentials)
        async with open_node_connection(host, port, security=security) as client:
            await client.call(HEARTBEAT, timeout=5)
    assert credentials.noted == [(host, not blocks)]


def asking(ask):
    exchange = partial(PlainExchange, {"alice": "secret"}, ask)
    return ListenerSecurity(sasl=SaslSettings({"PLAIN": exchange}, blocks=True))


async def test_external_password_check_blocks_no_other():
    may_answer, asked = threading.Event(), []

    def ask(name, password):
        asked.append(name)
        may_answer.wait(10)
        return password == "right"

    toy = Toy()
    async with open_server(heartbeat, context=toy, security=asking(ask)) as server:
        async with open_raw(server) as slow, open_raw(server) as quick:
            await handshake(slow)
            await slow.send(
                request_frame(SaslAuthenticateRequest(auth_bytes=b"\0bob\0right"), 2, 2)
            )
            await handshake(quick)
            assert (await authenticate(quick)).error_code == 0
            may_answer.set()
            assert (await slow.answer(36, 2))[1].error_code == 0
            await slow.send(heartbeat_frame("bob", 4))
            await slow.heartbeat()
        assert str(toy.connections["bob"].principal) == "User:bob"
        async with open_raw(server) as client:
            await handshake(client)
            answer = await authenticate(client, b"\0bob\0wrong")
            assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert asked == ["bob", "bob"]


@pytest.mark.parametrize("answer", [None, 1, "yes", RuntimeError("topsecret")])
async def test_anything_except_true_is_false(answer, caplog):
    def ask(_name, _password):
        if isinstance(answer, Exception):
            raise answer
        return answer

    async with open_server(heartbeat, context=Toy(), security=asking(ask)) as server:
        async with open_raw(server) as client:
            await handshake(client)
            found = await authenticate(client, b"\0bob\0x")
            assert found.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "topsecret" not in caplog.text


async def test_missing_login_answer_ends_by_login_time():
    may_answer = threading.Event()
    security = asking(lambda *_: may_answer.wait(10))
    async with open_server(
        heartbeat, context=Toy(), security=security, handshake_seconds=1.0
    ) as server:
        async with open_raw(server) as client:
            await handshake(client)
            request = SaslAuthenticateRequest(auth_bytes=b"\0bob\0x")
            await client.send(request_frame(request, 2, 2))
            assert await client.is_closed()
            may_answer.set()


async def test_connection_before_login_holds_one_frame():
    async with open_server(heartbeat, context=Toy(), security=LISTENER) as server:
        async with open_raw(server) as client:
            await client.send(BEFORE_LOGIN.to_bytes(4, "big"))
            await client.send(bytes(BEFORE_LOGIN - 1))
            (connection,) = server.connections.values()
            with trio.fail_after(5):
                while connection.core.frames.unread < BEFORE_LOGIN + 3:
                    await trio.lowlevel.checkpoint()
            assert len(connection.core.frames._buffer) <= BEFORE_LOGIN + 4
