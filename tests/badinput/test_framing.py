"""Section 4.1: frames, on both listeners."""

import socket
import struct

import pytest

from tests.badinput.nodes import PEERS
from tests.badinput.peer import Peer, codes, connected, frame_of, header, is_closed_after, sized
from trimaran.wire.messages.api_versions import ApiVersionsRequest

pytestmark = pytest.mark.cluster

FRAME_BYTES_MAX = 100 << 20
TLS_HELLO = bytes.fromhex("16030100c8010000c40303") + bytes(64)
API_VERSIONS = frame_of(ApiVersionsRequest(), 0)


@pytest.mark.parametrize(
    "size", [-1, -(2**31), 0, FRAME_BYTES_MAX + 1, 2**31 - 1], ids="{:x}".format
)
def test_mf1_mf2_impossible_frame_size_is_refused(node, size):
    assert is_closed_after(node.address, struct.pack(">i", size) + bytes(100))


@pytest.mark.parametrize("size", range(1, 10))
def test_mf2_frame_shorter_than_header_is_refused(node, size):
    assert is_closed_after(node.address, sized(bytes(size)))


@pytest.mark.skipif(PEERS is not None, reason="Apache Kafka 4.3 runs out of heap by it")
def test_mf4_declared_sizes_cost_nothing(node):
    node.forget_peak()
    before = node.peak_kib()
    peers = [Peer(node.address) for _ in range(200)]
    for peer in peers:
        peer.send(struct.pack(">i", FRAME_BYTES_MAX) + header(0, 3) + bytes(1000))
    node.assert_serves()
    assert node.peak_kib() - before < 8 << 10
    for peer in peers:
        peer.close()


def test_mf4_pause_within_frame_size_is_tolerated(node):
    with connected(node.address) as peer:
        peer.send(API_VERSIONS[:3])
        node.assert_serves()
        peer.send(API_VERSIONS[3:])
        assert peer.answer(18, 0).error_code == 0


@pytest.mark.parametrize(
    "hello",
    [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", TLS_HELLO, b"SSH-2.0-OpenSSH_9.6\r\n", b"\r\n\r\n\r\n"],
    ids=["http", "tls", "ssh", "newlines"],
)
def test_mf5_other_protocol_closes_the_connection(node, hello):
    assert is_closed_after(node.address, hello)


@pytest.mark.parametrize("how", ["end", "reset", "close"])
def test_mf6_disconnect_at_any_byte_is_harmless(node, how):
    for end in range(len(API_VERSIONS)):
        peer = Peer(node.address)
        peer.send(API_VERSIONS[:end])
        getattr(peer, how)()
        peer.close()
    node.assert_serves()


def test_mf6_half_closed_connection_gets_its_response(node):
    with connected(node.address) as peer:
        peer.send(API_VERSIONS)
        peer.end()
        assert peer.answer(18, 0).error_code == 0
        assert peer.frame() is None


def test_mf7_unread_responses_take_bounded_memory(node):
    count = 10_000
    node.forget_peak()
    before = node.peak_kib()
    with connected(node.address, receive_buffer=4096) as peer:
        peer.socket.setblocking(False)
        unsent = memoryview(b"".join(frame_of(ApiVersionsRequest(), 0, i) for i in range(count)))
        unsent = unsent[_push(peer, unsent) :]
        node.assert_serves()
        assert node.peak_kib() - before < 16 << 10
        answered = 0
        while answered < count:
            unsent = unsent[_push(peer, unsent) :]
            peer.socket.settimeout(10)
            frame = peer.frame()
            peer.socket.setblocking(False)
            assert frame is not None
            assert int.from_bytes(frame[:4], "big") == answered
            answered += 1


def _push(peer, data) -> int:
    """Sends until the node stops reading."""
    sent = 0
    while sent < len(data):
        try:
            sent += peer.socket.send(data[sent : sent + 65536])
        except BlockingIOError:
            break
    return sent


@pytest.mark.parametrize("key", [-1, 4, 5, 999, 32767, -32768])
def test_mf9_unknown_api_key_closes_the_connection(node, key):
    assert is_closed_after(node.address, sized(header(key, 0) + bytes(50)))


@pytest.mark.parametrize("key", [52, 53, 54, 56, 58, 59, 62, 63, 67, 70])
def test_mf9_controller_api_at_broker_is_refused(broker, key):
    assert is_closed_after(broker.address, sized(header(key, 0) + bytes(50)))


@pytest.mark.parametrize("key", [0, 2, 3, 8, 9, 11, 12, 22])
def test_mf9_broker_api_at_controller_is_refused(controller, key):
    assert is_closed_after(controller.address, sized(header(key, 3) + bytes(50)))


@pytest.mark.parametrize("version", [-1, 99, 32767, -32768])
def test_mf9_version_out_of_range_is_refused(node, version):
    for key in (1, 19, 55):
        assert is_closed_after(node.address, sized(header(key, version) + bytes(50)))


@pytest.mark.parametrize("version", [-1, 6, 99, 32767])
def test_mf9_unsupported_apiversions_returns_version_range(node, version):
    with connected(node.address) as peer:
        peer.send(sized(header(18, version) + bytes(3)))
        response = peer.answer(18, 0)
        assert codes(response) == {"UNSUPPORTED_VERSION"}
        assert [key.api_key for key in response.api_keys] == [18]
        peer.send(API_VERSIONS)
        assert peer.answer(18, 0).error_code == 0


def test_mf10_correlation_ids_are_returned_in_order(node):
    numbers = [-1, 0, 2**31 - 1, -(2**31), 5, 5, 5]
    with connected(node.address) as one, connected(node.address) as other:
        for number in numbers:
            one.send(frame_of(ApiVersionsRequest(), 0, number))
            other.send(frame_of(ApiVersionsRequest(), 0, -number - 1))
        for number in numbers:
            assert int.from_bytes(one.frame()[:4], "big", signed=True) == number
            assert int.from_bytes(other.frame()[:4], "big", signed=True) == -number - 1


CLIENT_IDS = {
    "null": None,
    "empty": b"",
    "longest": b"x" * 32767,
    "escapes": b"\x1b[2J\r\nERROR forged line\x00",
    "formats": b"%s%n{0}${jndi:ldap://x}",
    "unicode": "\u202e\u0000\uffff".encode(),
}


@pytest.mark.parametrize("client_id", CLIENT_IDS.values(), ids=CLIENT_IDS)
def test_mf11_any_client_id_is_accepted_unlogged(node, client_id):
    with connected(node.address) as peer:
        peer.send(sized(header(18, 0, client_id=client_id)))
        assert peer.answer(18, 0).error_code == 0
    assert not [line for line in node.said() if "\x1b" in line or line.startswith("ERROR forged")]


@pytest.mark.parametrize(
    "tail",
    [struct.pack(">h", -2), struct.pack(">h", 100) + b"x", struct.pack(">h", 2) + b"\xff\xfe"],
)
def test_mf11_malformed_client_id_is_refused(node, tail):
    assert is_closed_after(node.address, sized(struct.pack(">hhi", 18, 0, 7) + tail))


def test_thousand_connections_take_bounded_memory(node):
    before = node.rss_kib()
    peers = [Peer(node.address) for _ in range(1000)]
    for peer in peers:
        peer.send(API_VERSIONS)
    for peer in peers:
        assert peer.answer(18, 0).error_code == 0
    assert node.rss_kib() - before < 24 << 10
    node.assert_serves()
    for peer in peers:
        peer.close()


def test_flood_of_bad_frames_logs_one_line(node):
    said = len(node.said())
    for _ in range(300):
        peer = Peer(node.address)
        peer.try_send(b"\xff" * 8)
        peer.socket.shutdown(socket.SHUT_WR)
        peer.close()
    assert len(node.said()) - said <= 2
