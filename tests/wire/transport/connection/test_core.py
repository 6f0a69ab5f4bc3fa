"""The state of a connection, byte by byte, without an event loop: order, login, back-pressure, muting, the end."""

import logging
import math
import subprocess
import sys
from types import SimpleNamespace

import pytest

from tests.wire.transport.support import HEARTBEAT_VERSION, heartbeat_frame, request_frame
from trimaran.wire.buffers.framing import BUFFER_BYTES_KEPT, BadFrame
from trimaran.wire.buffers.outgoing import Outgoing
from trimaran.wire.errors import CloseConnection, RemoteProtocolError
from trimaran.wire.messages.header import decode_response_header
from trimaran.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from trimaran.wire.messages.registry import RESPONSES
from trimaran.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from trimaran.wire.messages.sasl_handshake import SaslHandshakeRequest
from trimaran.wire.security.principal import ANONYMOUS, Principal
from trimaran.wire.security.sasl.authenticator import (
    Login,
    LoginAction,
    SaslAuthenticator,
    SaslSettings,
)
from trimaran.wire.transport.connection.core import ConnectionCore, Service
from trimaran.wire.transport.connection.limits import ConnectionLimits
from trimaran.wire.transport.connection.session import Session
from trimaran.wire.transport.dispatch.registry import Registry
from trimaran.wire.transport.endpoint.send_queue import NOTHING
from trimaran.wire.transport.metrics.limited_log import LimitedLog
from trimaran.wire.transport.requests.access import open_to_all
from trimaran.wire.transport.requests.calls import ConnectionInfo
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Blocking, Wait

LIMITS = ConnectionLimits(
    frame_bytes_max=1 << 16, in_flight_max=3, in_flight_bytes_max=5000, unsent_bytes_max=200
)
NOW = 100.0


@handles(HeartbeatRequest, versions="0-4", access=open_to_all("a test"))
def heartbeat(request, began, call):
    """Handles a heartbeat; words in its group id determine the result."""
    name, *words = request.group_id.split()
    began.append(name)
    if "closes" in words:
        raise CloseConnection("enough")
    if "waits" in words or "blocks" in words:
        return _later(name, Blocking if "blocks" in words else Wait)
    return HeartbeatResponse(throttle_time_ms=int(name))


def _later(name, effect):
    yield effect(None)
    return HeartbeatResponse(throttle_time_ms=int(name))


class Peer:
    """A core, its clock, and the peer's end of its connection."""

    def __init__(self, sasl=None, limits=LIMITS):
        self.now, self.began = NOW, []
        self.info = ConnectionInfo(1, "L", ("10.0.0.1", 5), ("10.0.0.2", 9092))
        log = LimitedLog(logging.Logger("core"))
        registry = Registry((heartbeat,))
        self.service = Service(registry, self.began, limits, lambda: self.now, log)
        self.core = ConnectionCore(self.info, self.service, sasl)

    def send(self, data: bytes) -> None:
        """Receives the bytes, and starts the requests in them that may start now."""
        frames = self.core.frames
        while data:
            room = frames.room()
            count = min(len(room), len(data))
            room[:count] = data[:count]
            del room
            frames.received(count)
            data = data[count:]
        self.begin()

    def begin(self) -> None:
        while not self.core.is_full() and (frame := self.core.frames.next_frame()) is not None:
            self.core.begin(frame)

    def finish(self) -> None:
        """Completes the first pending response."""
        pending = self.core.first()
        held, response = pending.held, HeartbeatResponse(throttle_time_ms=99)
        pending.response, pending.is_known, pending.blocks = _outgoing(response), True, False
        self.core.proceeded(pending, held)
        self.core.first()

    def received(self) -> list[int]:
        """Returns the throttle times of the sent responses."""
        data, found = bytearray(), []
        queue = self.core.unsent
        while queue:
            piece = bytes(queue.pieces[0])
            data += piece
            queue.sent_bytes(len(piece))
        while data:
            size = int.from_bytes(data[:4], "big")
            frame, data = bytes(data[4 : 4 + size]), data[4 + size :]
            _, start = decode_response_header(frame, HeartbeatRequest.KEY, HEARTBEAT_VERSION)
            response = RESPONSES[HeartbeatRequest.KEY].decode(frame[start:], HEARTBEAT_VERSION)
            found.append(response.throttle_time_ms)
        return found


def _outgoing(response):
    from trimaran.wire.messages.header import encode_response

    return encode_response(response, HEARTBEAT_VERSION, 0)


def test_trickling_requests_are_answered_in_order():
    peer = Peer()
    for byte in heartbeat_frame("1") + heartbeat_frame("2") + heartbeat_frame("3")[:-1]:
        peer.send(bytes([byte]))
    assert peer.received() == [1, 2]
    assert peer.began == ["1", "2"]
    assert peer.core.frames.unread == len(heartbeat_frame("3")) - 1


def test_response_behind_a_pending_one_waits_for_it():
    peer = Peer()
    peer.send(heartbeat_frame("1") + heartbeat_frame("2 waits") + heartbeat_frame("3"))
    assert peer.began == ["1", "2", "3"]
    assert peer.received() == [1]
    assert (len(peer.core.owed), peer.core.owed_bytes > 0) == (2, True)
    peer.finish()
    assert peer.received() == [99, 3]
    assert (len(peer.core.owed), peer.core.owed_bytes) == (0, 0)


def test_blocking_request_delays_the_next_one():
    peer = Peer()
    peer.send(heartbeat_frame("1 blocks") + heartbeat_frame("2"))
    assert (peer.began, peer.core.is_blocked(), peer.core.is_full()) == (["1"], True, True)
    peer.finish()
    assert (peer.core.is_blocked(), peer.core.is_full()) == (False, False)
    peer.begin()
    assert (peer.began, peer.received()) == (["1", "2"], [99, 2])


def test_request_still_blocks_after_earlier_one_ends():
    peer = Peer()
    peer.send(heartbeat_frame("1 waits") + heartbeat_frame("2 blocks") + heartbeat_frame("3"))
    peer.finish()
    assert (peer.core.is_blocked(), peer.core.is_full()) == (True, True)
    peer.begin()
    assert peer.began == ["1", "2"]


def test_requests_in_flight_are_bounded():
    peer = Peer()
    peer.send(b"".join(heartbeat_frame(f"{number} waits") for number in range(5)))
    assert peer.began == ["0", "1", "2"]
    peer.finish()
    peer.begin()
    assert peer.began == ["0", "1", "2", "3"]


def test_large_requests_delay_others():
    peer = Peer()
    peer.send(heartbeat_frame("0 waits " + "x" * 5000) + heartbeat_frame("1"))
    assert (peer.began, peer.core.share.requests > 5000) == (["0"], True)
    peer.finish()
    assert peer.core.share.requests == 0


def test_peer_that_reads_nothing_gets_no_responses():
    peer = Peer()
    peer.send(b"".join(heartbeat_frame(str(number)) for number in range(100)))
    begun = len(peer.began)
    assert begun < 100
    assert 200 <= peer.core.unsent.size < 250
    peer.core.count_responses()
    assert peer.core.share.responses == peer.core.unsent.size == peer.info.memory.responses.used
    assert peer.received() == list(range(begun))
    peer.core.count_responses()
    assert peer.info.memory.responses.used == 0


def test_memory_of_others_delays_only_large_requests():
    peer = Peer()
    memory = peer.info.memory
    assert not peer.core.lacks_memory(1 << 20)
    memory.requests.take(memory.requests.bytes_max)
    assert [peer.core.lacks_memory(size) for size in (4096, 4097)] == [False, True]
    memory.responses.take(memory.responses.bytes_max)
    assert peer.core.lacks_memory(1)


def test_mute_ends_with_its_time():
    peer = Peer()
    assert peer.core.muted_until() is None
    peer.info.muted_until = NOW + 1
    assert peer.core.muted_until() == NOW + 1
    assert peer.core.progress() is None
    peer.now = NOW + 1
    assert peer.core.muted_until() is None
    assert peer.info.muted_until is None


class Plain(SaslAuthenticator):
    """Logs in one peer."""


def sasl_peer(**options):
    return Peer(SaslSettings({}, 5000, 0.5, **options))


def test_peer_must_log_in_before_its_deadline():
    peer = sasl_peer()
    peer.core.connected()
    assert peer.core.deadline == NOW + LIMITS.handshake_seconds
    peer.core.shook_hands()
    assert peer.core.deadline == NOW + LIMITS.handshake_seconds
    assert (peer.core.is_open, peer.core.frames.frame_bytes_max) == (False, 5000)
    plain = Peer()
    plain.core.connected()
    plain.core.shook_hands()
    assert (plain.core.deadline, plain.core.is_open) == (math.inf, True)


def test_request_before_the_login_closes():
    peer = sasl_peer()
    with pytest.raises(CloseConnection):
        peer.send(heartbeat_frame("1"))
    assert peer.began == []
    assert peer.service.counters.failed_authentications == 1


def test_unknown_mechanism_is_refused():
    peer = sasl_peer()
    frame = request_frame(SaslHandshakeRequest(mechanism="NONE"), 1)
    with pytest.raises(CloseConnection):
        peer.send(frame)
    assert peer.core.unsent.size > 0
    assert peer.info.principal == ANONYMOUS


@pytest.mark.parametrize("session_ms", [None, 1500])
def test_login_opens_the_connection(session_ms):
    peer = sasl_peer()
    core, login = peer.core, Login(Principal("alice"), "PLAIN", session_ms)
    before = Session(core._sasl, login, ends_at=1.0, login_began=0.5)
    for earlier in (None, before):
        core._session, core._authenticator, core.deadline = earlier, "one", 7.0
        core._open(login)
        assert (core._authenticator, peer.info.principal) == (None, Principal("alice"))
        assert (core.deadline, core.frames.frame_bytes_max) == (math.inf, 1 << 16)
        began = None if earlier is None else 0.5
        expected = None if session_ms is None else Session(core._sasl, login, NOW + 1.5, began)
        assert core._session == expected
        assert core.is_open is (session_ms is None)


def frame_of(request, version):
    return memoryview(request_frame(request, version)[4:])


HANDSHAKE = frame_of(SaslHandshakeRequest(mechanism="PLAIN"), 1)
OTHER = frame_of(SaslAuthenticateRequest(auth_bytes=b""), 1)


def expiring():
    peer = sasl_peer()
    login = Login(Principal("alice"), "PLAIN", 5000)
    peer.core._open(login)
    return peer, login


def test_handshake_of_an_open_connection_begins_another_login():
    peer, login = expiring()
    core = peer.core
    assert not core.is_at_login(OTHER)
    assert core.is_at_login(HANDSHAKE)
    assert core.authenticator == SaslAuthenticator(core._sasl, login)
    assert core.deadline == NOW + LIMITS.handshake_seconds
    assert core.is_at_login(OTHER)


def test_request_after_the_end_of_a_session_closes():
    peer, _ = expiring()
    peer.now = NOW + 4.999
    assert not peer.core.is_at_login(OTHER)
    peer.now = NOW + 5
    for count in (1, 2):
        with pytest.raises(CloseConnection, match="its login has expired"):
            peer.core.is_at_login(OTHER)
        assert peer.service.counters.expired_sessions == count
    assert peer.core.is_at_login(HANDSHAKE)


@pytest.mark.parametrize(("blocks", "apart"), [(False, False), (True, True)])
def test_blocking_login_runs_in_a_thread(blocks, apart):
    assert sasl_peer(blocks=blocks).core.blocks_at_login is apart
    assert not Peer().core.blocks_at_login


def test_connection_closes_after_earlier_responses():
    peer = Peer()
    with pytest.raises(CloseConnection, match="enough"):
        peer.send(heartbeat_frame("1") + heartbeat_frame("2 closes"))
    assert peer.received() == [1]


@pytest.mark.parametrize(
    ("error", "counted"),
    [
        (BadFrame(-1, 5, None), (1, 0)),
        (RemoteProtocolError("no"), (0, 1)),
        (CloseConnection("so"), (0, 0)),
    ],
)
def test_each_end_is_counted_by_its_kind(error, counted):
    peer = Peer()
    peer.core.count_error(error)
    counters = peer.service.counters
    assert (counters.bad_frames, counters.bad_requests) == counted
    peer.core.half_closed()
    assert peer.core.deadline == NOW + LIMITS.half_closed_seconds


def test_progress_of_a_response_gives_its_memory_back():
    peer = Peer()
    peer.send(heartbeat_frame("1 waits"))
    pending = peer.core.first()
    held = pending.held
    assert held == peer.core.share.requests > 10
    pending.held = 10
    peer.core.proceeded(pending, held)
    assert (peer.core.share.requests, len(peer.core.owed)) == (10, 1)
    pending.is_known, pending.response = True, None
    peer.core.proceeded(pending, 10)
    assert (peer.core.share.requests, len(peer.core.owed), peer.core.activity()[1]) == (0, 0, 1)


def test_each_bound_of_back_pressure_is_exact():
    peer = Peer()
    core = peer.core
    core.owed_bytes = 199
    core.share = SimpleNamespace(requests=4999)
    assert (core.is_full(), core.sends_enough()) == (False, False)
    core.owed_bytes = 200
    assert (core.is_full(), core.sends_enough()) == (True, False)
    core.owed_bytes = 100
    core.unsent = SimpleNamespace(size=100)
    assert core.is_full()
    core.unsent.size = 99
    assert not core.is_full()
    core.share.requests = 5000
    assert core.is_full()
    core.owed_bytes, core.unsent.size = 0, 199
    assert not core.sends_enough()
    core.unsent.size = 200
    assert core.sends_enough()


@pytest.mark.parametrize(
    ("size", "trickled", "stalled"),
    [(0, 0, 0), (16383, 0, 0), (16384, 1, 0), (65535, 3, 0), (65536, 4, 1), (131072, 8, 2)],
)
def test_bytes_count_as_progress_only_in_pieces(size, trickled, stalled):
    core = Peer().core
    core.frames = SimpleNamespace(unread=size)
    assert (core.progress(), core.activity()) == ((0, 0, trickled), (0, 0, 0, stalled))
    core.frames, core.unsent = SimpleNamespace(unread=0), SimpleNamespace(sent=size, size=1)
    assert (core.progress(), core.activity()) == ((0, size, 0), (0, 0, stalled, 0))


@pytest.mark.parametrize(
    ("has_frame", "blocks", "coming", "is_shrunk"),
    [
        (False, False, BUFFER_BYTES_KEPT, True),
        (False, False, BUFFER_BYTES_KEPT + 1, False),
        (True, False, 0, False),
        (False, True, 0, False),
    ],
)
def test_buffer_in_use_is_not_shrunk(has_frame, blocks, coming, is_shrunk):
    core, done = Peer().core, []
    assert not core.has_frame
    core.frames = SimpleNamespace(coming=coming, shrink=lambda: done.append("shrunk"))
    core.share = SimpleNamespace(give_back_frame=lambda: done.append("given back"))
    core.has_frame, core._newest = has_frame, SimpleNamespace(blocks=blocks)
    core.shrink()
    assert done == (["shrunk", "given back"] if is_shrunk else [])


def test_failed_login_is_answered_late_and_closes():
    """The half-closed connection lasts as long as the response is delayed."""
    peer = sasl_peer()
    answer = _outgoing(HeartbeatResponse(throttle_time_ms=1))
    for count, seconds in ((1, 0.5), (2, 1.0)):
        failed = LoginAction(answer, delayed=True, closes="wrong password")
        with pytest.raises(CloseConnection, match="wrong password"):
            peer.core.respond_to_login(failed, memoryview(b""))
        assert peer.service.counters.failed_authentications == count
        pending = peer.core.owed.pop()
        assert (pending.response, pending.seconds, pending.is_known) == (answer, seconds, False)
        peer.core.half_closed()
        assert peer.core.deadline == NOW + LIMITS.half_closed_seconds + seconds


def test_failed_login_counts_for_the_peers_address():
    peer = sasl_peer()
    with pytest.raises(CloseConnection, match="wrong"):
        peer.core.respond_to_login(LoginAction(delayed=True, closes="wrong"), memoryview(b""))
    failed = peer.service.counters.failed_logins
    assert failed.delay(peer.info.local[0], 0.5, NOW) == 0.5
    assert failed.delay(peer.info.peer[0], 0.5, NOW) == 1.0


def test_connection_closed_during_delayed_failure_is_empty():
    peer = sasl_peer()
    with pytest.raises(CloseConnection, match="wrong"):
        peer.core.respond_to_login(LoginAction(delayed=True, closes="wrong"), memoryview(b""))
    assert len(peer.core.owed) == 1
    peer.core.close()
    assert len(peer.core.owed) == 0


def test_steps_of_a_login_are_answered_at_once():
    peer = sasl_peer()
    core = peer.core
    core.respond_to_login(LoginAction(), memoryview(b""))
    assert core.unsent.size == 0
    core.respond_to_login(LoginAction(_outgoing(HeartbeatResponse(throttle_time_ms=7))), b"")
    assert peer.received() == [7]
    core.respond_to_login(LoginAction(passes=True), memoryview(heartbeat_frame("3")[4:]))
    assert (peer.received(), peer.service.counters.failed_authentications) == ([3], 0)
    login = Login(Principal("alice"), "PLAIN", None)
    core.respond_to_login(LoginAction(login=login), b"")
    assert (core.is_open, peer.info.principal) == (True, Principal("alice"))


def test_closing_gives_all_memory_back():
    peer = Peer()
    peer.send(heartbeat_frame("1 waits") + heartbeat_frame("2") + heartbeat_frame("3")[:9])
    peer.core.count_responses()
    (pending, known) = peer.core.owed
    assert isinstance(known, Outgoing)
    peer.core.close()
    assert (pending.blocks, pending.is_known) == (False, False)
    assert [pool.used for pool in peer.info.memory.pools()] == [0, 0, 0]
    assert (len(peer.core.owed), peer.core.unsent.size, peer.core.frames.unread) == (0, 0, 0)


def test_progress_and_activity_follow_requests_and_bytes():
    peer = Peer()
    assert (peer.core.progress(), peer.core.activity()) == ((0, 0, 0), (0, 0, 0, 0))
    assert peer.core.owed is NOTHING
    peer.send(heartbeat_frame("1 waits"))
    assert (peer.core.progress(), peer.core.activity()) == (None, (1, 0, 0, 0))
    peer.finish()
    assert peer.core.activity() == (1, 1, 0, 0)
    size = peer.core.unsent.size
    peer.received()
    assert peer.core.progress() == (1, size, 0)


def test_core_is_imported_without_trio():
    code = "import sys; sys.modules['trio'] = None; import " + ConnectionCore.__module__
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True)
    assert not done.returncode, done.stderr
