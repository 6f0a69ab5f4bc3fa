"""Each step of a connection's reader and writer, and what it holds after it, as the transcript says."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.wire.transport.in_order import check_steps
from tests.wire.transport.scripted_connection import LIMITS, Script, World, run_script
from wire.security.listener import ListenerSecurity
from wire.security.principal import ANONYMOUS, Principal
from wire.security.sasl import SaslSettings
from wire.transport.connection import Connection
from wire.transport.loop_turns import loop_turns
from wire.transport.turn import TurnQueue

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
