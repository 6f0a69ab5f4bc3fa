"""TLS on real sockets: the bytes that arrive, and which clients are accepted or refused."""

import os
import random
import socket
import ssl
import struct
from dataclasses import replace
from itertools import pairwise

import pytest
import trio

from tests.certificates import Certificates, self_signed, wrong_usage
from tests.wire.transport.support import (
    RawClient,
    Toy,
    api_versions_frame,
    heartbeat,
    heartbeat_frame,
    open_raw,
    open_server,
    settled,
)
from trimaran.wire.blocking import BlockingConnection
from trimaran.wire.buffers.framing import FrameBuffer
from trimaran.wire.buffers.outgoing import Outgoing
from trimaran.wire.client.errors import AuthenticationRefused, ConnectionLost
from trimaran.wire.messages.heartbeat import HeartbeatRequest
from trimaran.wire.security.listener import ClientSecurity, ListenerSecurity
from trimaran.wire.security.principal import Principal, PrincipalMapping
from trimaran.wire.security.tls.contexts import server_context
from trimaran.wire.transport.client import node_connection
from trimaran.wire.transport.client.node_connection import open_node_connection
from trimaran.wire.transport.endpoint.endpoint import TlsEndpoint
from trimaran.wire.transport.endpoint.send_queue import SendQueue

HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


@pytest.fixture(scope="module")
def certificates():
    return Certificates()


def listening(context):
    return ListenerSecurity(tls=context)


async def ask(server, context):
    security = ClientSecurity(tls=context)
    async with open_node_connection(*server.addresses["PLAINTEXT"], security=security) as client:
        return await client.call(HEARTBEAT, timeout=5)


def ask_blocking(server, context):
    security = ClientSecurity(tls=context)
    connection = BlockingConnection(server.addresses["PLAINTEXT"], security=security)
    try:
        return connection.call(HEARTBEAT)
    finally:
        connection.close()


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
async def test_both_shells_support_both_tls_versions(certificates, version):
    context = certificates.server_context(protocols=[version])
    async with open_server(heartbeat, context=Toy(), security=listening(context)) as server:
        trusted = certificates.client_context()
        assert (await ask(server, trusted)).throttle_time_ms == 1
        found = await trio.to_thread.run_sync(ask_blocking, server, trusted)
        assert found.throttle_time_ms == 2


@pytest.mark.parametrize("auth", ["requested", "required"])
async def test_clients_certificate_determines_its_principal(certificates, auth):
    toy = Toy()
    context = certificates.server_context(client_auth=auth)
    async with open_server(heartbeat, context=toy, security=listening(context)) as server:
        await ask(server, certificates.client_context(certificates.client))
        assert "CN=alice" in str(toy.connections["g"].principal)


async def test_client_without_certificate_is_anonymous_or_refused(certificates):
    toy, bare = Toy(), certificates.client_context()
    context = certificates.server_context(client_auth="requested")
    async with open_server(heartbeat, context=toy, security=listening(context)) as server:
        await ask(server, bare)
        assert str(toy.connections["g"].principal) == "User:ANONYMOUS"
    context = certificates.server_context(client_auth="required")
    async with open_server(heartbeat, context=toy, security=listening(context)) as server:
        with pytest.raises(ConnectionLost):  # the alert, or a reset that overtook it
            await ask(server, bare)
        with pytest.raises(ConnectionLost):  # the alert, or a reset that overtook it
            await trio.to_thread.run_sync(ask_blocking, server, bare)
        assert toy.begun == ["g"]


async def test_rules_derive_principals_from_certificates(certificates):
    toy, context = Toy(), certificates.server_context(client_auth="requested")
    names = PrincipalMapping("RULE:^CN=(.*?),.*$/$1/")
    security = ListenerSecurity(tls=context, names=names)
    async with open_server(heartbeat, context=toy, security=security) as server:
        await ask(server, certificates.client_context(certificates.client))
        assert toy.connections["g"].principal == Principal("alice")
        await ask(server, certificates.client_context())
        assert str(toy.connections["g"].principal) == "User:ANONYMOUS"


async def test_client_without_matching_rule_is_refused(certificates):
    toy, context = Toy(), certificates.server_context(client_auth="required")
    security = ListenerSecurity(tls=context, names=PrincipalMapping("RULE:^CN=bob$/bob/"))
    async with open_server(heartbeat, context=toy, security=security) as server:
        with pytest.raises(ConnectionLost):
            await ask(server, certificates.client_context(certificates.client))
        assert server.counters.failed_handshakes == 1
    assert not toy.begun


async def test_revoked_certificates_are_refused(certificates, tmp_path):
    good = certificates.issue("bob@example.org", common_name="bob")
    lists = tmp_path / "crl.pem"
    lists.write_text(certificates.revocation_list(certificates.client))
    toy = Toy()
    context = certificates.server_context(client_auth="required", crl_location=str(lists))
    async with open_server(heartbeat, context=toy, security=listening(context)) as server:
        with pytest.raises(ConnectionLost):
            await ask(server, certificates.client_context(certificates.client))
        assert not toy.begun
        await ask(server, certificates.client_context(good))
    assert toy.begun == ["g"]


@pytest.mark.parametrize("kind", ["old", "of another authority"])
async def test_list_without_certificate_rule_refuses_all(certificates, tmp_path, kind):
    lists, toy = tmp_path / "crl.pem", Toy()
    other = certificates if kind == "old" else Certificates()
    lists.write_text(other.revocation_list(days=-1 if kind == "old" else 1))
    context = certificates.server_context(client_auth="required", crl_location=str(lists))
    async with open_server(heartbeat, context=toy, security=listening(context)) as server:
        with pytest.raises(ConnectionLost):
            await ask(server, certificates.client_context(certificates.client))
    assert not toy.begun


async def test_revoked_server_certificate_is_not_trusted(certificates, tmp_path):
    lists = tmp_path / "crl.pem"
    lists.write_text(certificates.revocation_list(certificates.server))
    context = certificates.server_context()
    async with open_server(heartbeat, context=Toy(), security=listening(context)) as server:
        with pytest.raises(AuthenticationRefused, match="revoked"):
            await ask(server, certificates.client_context(crl_location=str(lists)))


BAD_CLIENTS = {
    "expired": lambda c: c.expired(),
    "not yet valid": lambda c: c.not_yet_valid(),
    "self-signed": lambda _: self_signed("alice"),
    "of another authority": lambda _: wrong_usage()[1],
    "a megabyte of chain": lambda c: (c.client[0], c.client[1] + c.ca * 1400),
}


@pytest.mark.parametrize("kind", BAD_CLIENTS)
async def test_invalid_client_certificates_are_refused(certificates, kind, caplog):
    pair = BAD_CLIENTS[kind](certificates)
    toy = Toy()
    context = certificates.server_context(client_auth="required")
    async with open_server(heartbeat, context=toy, security=listening(context)) as server:
        with pytest.raises(Exception, match=r"(?i)tls|certificate|broke|closed"):
            await ask(server, certificates.client_context(pair))
        assert not toy.begun
        assert server.counters.failed_handshakes == 1
        await ask(server, certificates.client_context(certificates.client))
        assert toy.begun == ["g"]
    assert sum("TLS handshake failed" in line for line in caplog.messages) == 1


async def test_server_certificate_is_refused_for_clients(certificates):
    ca, pair = wrong_usage()
    toy = Toy()
    settings = certificates.server_settings(client_auth="required")
    context = server_context(replace(settings, truststore_certificates=ca))
    async with open_server(heartbeat, context=toy, security=listening(context)) as server:
        with pytest.raises(Exception, match=r"(?i)tls|certificate|broke|closed"):
            await ask(server, certificates.client_context(pair))
        assert not toy.begun


BAD_SERVERS = {
    "expired": lambda c: c.expired(),
    "not yet valid": lambda c: c.not_yet_valid(),
    "self-signed": lambda _: self_signed("localhost"),
    "another name": lambda c: c.issue("other.example.org"),
    "our name as a part": lambda c: c.issue("localhost.example.org"),
    "a wildcard of others": lambda c: c.issue("*.example.org"),
    "a common name only": lambda c: c.issue("other.example.org", common_name="localhost"),
}


@pytest.mark.parametrize("kind", BAD_SERVERS)
async def test_invalid_server_certificates_are_refused(certificates, kind):
    context = certificates.server_context(BAD_SERVERS[kind](certificates))
    async with open_server(heartbeat, context=Toy(), security=listening(context)) as server:
        trusting = certificates.client_context()
        with pytest.raises(AuthenticationRefused, match="CERTIFICATE_VERIFY_FAILED"):
            await ask(server, trusting)
        with pytest.raises(AuthenticationRefused, match="CERTIFICATE_VERIFY_FAILED"):
            await trio.to_thread.run_sync(ask_blocking, server, trusting)


async def test_other_name_passes_without_name_comparison(certificates):
    context = certificates.server_context(certificates.issue("other.example.org"))
    async with open_server(heartbeat, context=Toy(), security=listening(context)) as server:
        answer = await ask(server, certificates.client_context(check_hostname=False))
        assert answer.error_code == 0


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1")
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
async def test_old_versions_are_refused(certificates, version):
    context = certificates.server_context()
    async with open_server(heartbeat, context=Toy(), security=listening(context)) as server:
        old = certificates.client_context()
        old.minimum_version = version
        old.maximum_version = version
        old.set_ciphers("DEFAULT:@SECLEVEL=0")
        with pytest.raises(AuthenticationRefused):
            await ask(server, old)


PLAIN_STARTS = {
    "a Kafka request": api_versions_frame(),
    "HTTP": b"GET / HTTP/1.1\r\n\r\n",
    "SSH": b"SSH-2.0-OpenSSH_9.6\r\n",
    "zeros": bytes(64),
}


@pytest.mark.parametrize("kind", PLAIN_STARTS)
async def test_plaintext_on_tls_port_closes_with_line(certificates, kind, caplog):
    context = certificates.server_context()
    async with open_server(heartbeat, context=Toy(), security=listening(context)) as server:
        for _ in range(5):
            async with open_raw(server) as client:
                await client.send(PLAIN_STARTS[kind])
                with trio.fail_after(5):
                    while await _receive(client):  # possibly an alert
                        pass
        assert server.counters.failed_handshakes == 5
    assert len([m for m in caplog.messages if "TLS handshake failed" in m]) == 1


async def _receive(client):
    try:
        return await client.stream.receive_some(100)
    except trio.BrokenResourceError:
        return b""


async def test_client_hello_on_plaintext_port_is_named(certificates, caplog):
    async with open_server(heartbeat, context=Toy()) as server:
        with pytest.raises(Exception, match="TLS with"):
            await ask(server, certificates.client_context())
    assert any("TLS ClientHello" in m for m in caplog.messages)


async def test_endless_handshake_is_aborted(certificates, autojump_clock):
    context = certificates.server_context()
    async with open_server(
        heartbeat, context=Toy(), security=listening(context), handshake_seconds=3.0
    ) as server:
        async with open_raw(server) as client:
            await client.send(b"\x16\x03\x01")
            began = trio.current_time()
            assert await client.stream.receive_some(1) == b""
            assert trio.current_time() - began <= 3.0


async def test_requests_in_one_byte_records(certificates):
    """TLS records and frames are independent of each other."""
    context = certificates.server_context()
    async with open_server(heartbeat, context=Toy(), security=listening(context)) as server:
        stream = await trio.open_tcp_stream(*server.addresses["PLAINTEXT"])
        tls = trio.SSLStream(
            stream,
            certificates.client_context(),
            server_hostname="localhost",
            https_compatible=True,
        )
        client = RawClient(tls)
        for byte in heartbeat_frame("g", 5):
            await client.send(bytes([byte]))
        assert (await client.heartbeat())[0] == 5
        await client.send(heartbeat_frame("g", 6) * 200)
        assert [(await client.heartbeat())[0] for _ in range(200)] == [6] * 200
        await trio.aclose_forcefully(tls)


class FileSlice:
    def __init__(self, fd, position, size):
        self.fd, self.position, self.size = fd, position, size

    def fileno(self):
        return self.fd


async def test_pieces_of_files_and_memory_keep_order(certificates, tmp_path):
    """More than the socket accepts at once, so that OpenSSL's partial writes are continued."""
    data = random.Random(3).randbytes(3_000_000)
    (tmp_path / "segment").write_bytes(data)
    fd = os.open(tmp_path / "segment", os.O_RDONLY)
    ours, theirs = _tcp_pair()
    queue, expected = SendQueue(), b""
    for position, size in ((0, 1_000_000), (5, 100), (1_000_000, 2_000_000)):
        frame = Outgoing()
        frame += b"head"
        frame.splices.append((len(frame), FileSlice(fd, position, size)))
        frame += b"tail" * 10_000
        queue.add_frame(frame)
        expected += frame.wire_size.to_bytes(4, "big")
        expected += b"head" + data[position : position + size] + b"tail" * 10_000
    sender = TlsEndpoint(ours, certificates.server_context())
    receiver = TlsEndpoint(theirs, certificates.client_context(), server_name="localhost")
    found = b""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(sender.handshake)
        await receiver.handshake()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(sender.send, queue)
        frames = FrameBuffer(100 << 20)
        while len(found) < len(expected):
            assert receiver.receive_nowait(frames) or await receiver.receive(frames)
            while (frame := frames.next_frame()) is not None:
                found += len(frame).to_bytes(4, "big") + bytes(frame)
                del frame
    os.close(fd)
    assert found == expected
    assert not queue
    await sender.aclose()
    await receiver.aclose()


async def test_large_answer_moves_before_all_is_sent(certificates):
    """Otherwise a slow peer would look idle, and a fast one would block the loop until all of it is sent."""
    ours, theirs = _tcp_pair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
    sender = TlsEndpoint(ours, certificates.server_context())
    receiver = TlsEndpoint(theirs, certificates.client_context(), server_name="localhost")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(sender.handshake)
        await receiver.handshake()
    queue, frame, data = SendQueue(), Outgoing(), random.Random(1).randbytes(16 << 20)
    frame += data
    queue.add_frame(frame)
    frames, sent = FrameBuffer(100 << 20), []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(sender.send, queue)
        while (whole := frames.next_frame()) is None:
            assert await receiver.receive(frames)
            sent.append(queue.sent)
    assert whole == data
    steps = sorted({0, *sent, queue.sent})
    assert max(b - a for a, b in pairwise(steps)) < 4 << 20
    await sender.aclose()
    await receiver.aclose()


def _tcp_pair():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        one = socket.create_connection(listener.getsockname())
        return one, listener.accept()[0]


async def test_server_sends_close_notify(certificates):
    """close_notify proves that no attacker truncated the stream."""
    context = certificates.server_context()
    async with open_server(heartbeat, context=Toy(), security=listening(context)) as server:
        stream = await trio.open_tcp_stream(*server.addresses["PLAINTEXT"])
        tls = trio.SSLStream(stream, certificates.client_context(), server_hostname="localhost")
        await tls.send_all(heartbeat_frame("g", 1) + bytes(8))
        client = RawClient(tls)
        assert (await client.heartbeat())[0] == 1
        assert await tls.receive_some() == b""
        await trio.aclose_forcefully(tls)


def client_hello(context) -> bytes:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


async def test_end_at_any_handshake_byte_leaves_nothing(certificates):
    hello = client_hello(certificates.client_context())
    context = certificates.server_context()
    async with open_server(heartbeat, context=Toy(), security=listening(context)) as server:
        for size in range(len(hello) + 1):
            async with open_raw(server) as client:
                await client.send(hello[:size])
                if size % 2:
                    client.reset()
        with trio.fail_after(5):
            while server.counters.closed < len(hello) + 1:
                await settled()
        assert not server.connections
        await ask(server, certificates.client_context())


async def test_node_resetting_before_the_handshake_is_lost(certificates, monkeypatch):
    """The process has exited while its kernel still accepts connections."""
    listener = socket.create_server(("127.0.0.1", 0))
    sock = socket.create_connection(listener.getsockname())
    accepted, _ = listener.accept()
    accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    accepted.close()
    listener.close()
    await trio.lowlevel.wait_readable(sock)

    async def connected(*_args, **_options):
        return sock

    monkeypatch.setattr(node_connection, "connect", connected)
    security = ClientSecurity(tls=certificates.client_context())
    with pytest.raises(ConnectionLost):
        await node_connection.connect_endpoint("localhost", 1, security)
    assert sock.fileno() == -1
