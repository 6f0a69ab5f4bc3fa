"""Each step of a connection's reader and writer, and what it holds after it, as the transcript says."""

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.wire.transport.in_order import check_steps
from tests.wire.transport.scripted_connection import LIMITS, Script, World, run_script
from trimaran.wire.security.listener import ListenerSecurity
from trimaran.wire.security.principal import ANONYMOUS, Principal
from trimaran.wire.security.sasl import Login, SaslAuthenticator, SaslSettings
from trimaran.wire.transport.connection.connection import Connection
from trimaran.wire.transport.connection.session import Session
from trimaran.wire.transport.requests.calls import CloseConnection
from trimaran.wire.transport.scheduling.loop_turns import loop_turns
from trimaran.wire.transport.scheduling.turn import TurnQueue

FILES = sorted((Path(__file__).parent / "testdata" / "connection").glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_connection_reads_begins_answers_and_ends_as_each_transcript_says(path):

    async def check(script: Script):
        await check_steps(path, script.step)

    run_script(check)


async def test_connections_that_share_turns_are_of_one_queue():
    queue = TurnQueue(loop_turns())
    world = World()
    security = ListenerSecurity(None, None)
    given = (world.endpoint, world.info, world.registry, "context", LIMITS, world.memory)
    more = (world.counters, None, security)
    assert Connection(*given, *more, queue)._turn._queue is queue
    assert Connection(*given, *more)._turn._queue is not queue
    few = replace(LIMITS, frame_bytes_max=50)
    sasl = ListenerSecurity(None, SaslSettings({}))
    given = (*given[:4], few, world.memory, world.counters, None)
    assert Connection(*given, sasl)._frames.frame_bytes_max == 50
    assert Connection(*given, security)._frames.frame_bytes_max == 50
    assert world.info.principal == ANONYMOUS
    assert await world.connection._shake_hands()
    assert world.info.principal == Principal("peer")


HANDSHAKE, OTHER = (memoryview(key.to_bytes(2, "big") + b"rest") for key in (17, 12))


async def test_a_handshake_of_an_open_connection_begins_another_login_in_its_own_time(mock_clock):
    world = World(sasl=True)
    one, settings = world.connection, SaslSettings({})
    login = Login(Principal("alice"), "PLAIN", 5000)
    assert one._is_at_login(OTHER)
    one._authenticator = None
    assert not one._is_at_login(HANDSHAKE)
    one._serving.deadline = math.inf
    one._session = Session(settings, login, ends_at=5.0)
    mock_clock.jump(3.0)
    assert not one._is_at_login(OTHER)
    assert (one._authenticator, one._serving.deadline) == (None, math.inf)
    assert one._is_at_login(HANDSHAKE)
    assert one._authenticator == SaslAuthenticator(settings, login)
    assert one._serving.deadline == 3.0 + LIMITS.handshake_seconds
    assert one._is_at_login(OTHER)


async def test_a_request_after_the_end_of_a_session_closes_unless_it_begins_a_login(mock_clock):
    world = World(sasl=True)
    one, login = world.connection, Login(Principal("alice"), "PLAIN", 5000)
    one._authenticator = None
    one._session = Session(SaslSettings({}), login, ends_at=5.0)
    mock_clock.jump(4.999)
    assert not one._is_at_login(OTHER)
    assert world.counters.expired_sessions == 0
    mock_clock.jump(0.001)
    for count in (1, 2):
        with pytest.raises(CloseConnection, match="its login has expired"):
            one._is_at_login(OTHER)
        assert world.counters.expired_sessions == count
    assert one._is_at_login(HANDSHAKE)
    assert world.counters.expired_sessions == 2


@pytest.mark.parametrize("session_ms", [None, 1500])
async def test_a_login_opens_a_connection_for_as_long_as_it_says(mock_clock, session_ms):
    world = World(sasl=True)
    one, login = world.connection, Login(Principal("alice"), "PLAIN", session_ms)
    mock_clock.jump(2.0)
    before = Session(one._sasl, login, ends_at=1.0, login_began=0.5)
    for earlier in (None, before):
        one._session = earlier
        one._serving.deadline = 7.0
        one._authenticator = "one"
        one._open(login)
        assert (one._authenticator, world.info.principal) == (None, Principal("alice"))
        assert one._serving.deadline == math.inf
        assert one._frames.frame_bytes_max == LIMITS.frame_bytes_max
        began = None if earlier is None else 0.5
        expected = None if session_ms is None else Session(one._sasl, login, 3.5, began)
        assert one._session == expected


def test_answers_behind_one_that_took_a_whole_turn_leave_together_with_it():
    async def check(script: Script):
        await script.step(SimpleNamespace(source="open\nsteps 1\nframe later a 10|answer 20"))
        told = await script.step(SimpleNamespace(source="known a"))
        assert told.splitlines()[:2] == ["w finishes a", "w sends 38"]

    run_script(check)
