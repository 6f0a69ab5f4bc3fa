"""Each step of a connection's reader and writer, and its state afterwards, as in the transcript."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.wire.transport.in_order import check_steps
from tests.wire.transport.scripted_connection import Script, World, run_script
from trimaran.wire.security.listener import ListenerSecurity
from trimaran.wire.security.principal import ANONYMOUS, Principal
from trimaran.wire.transport.connection.connection import Connection
from trimaran.wire.transport.scheduling.loop_turns import loop_turns
from trimaran.wire.transport.scheduling.turn import TurnQueue

FILES = sorted((Path(__file__).parent / "testdata" / "connection").glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_connection_behaves_as_each_transcript_says(path):

    async def check(script: Script):
        await check_steps(path, script.step)

    run_script(check)


async def test_connections_share_one_queue_of_turns():
    queue = TurnQueue(loop_turns())
    world = World()
    given = (world.endpoint, world.info, world.service, ListenerSecurity(None, None))
    assert Connection(*given, queue)._turn._queue is queue
    assert Connection(*given)._turn._queue is not queue
    assert world.info.principal == ANONYMOUS
    assert await world.connection._shake_hands()
    assert world.info.principal == Principal("peer")


def test_responses_after_a_whole_turn_leave_together():
    async def check(script: Script):
        await script.step(SimpleNamespace(source="open\nsteps 1\nframe later a 10|answer 20"))
        told = await script.step(SimpleNamespace(source="known a"))
        assert told.splitlines()[:2] == ["w finishes a", "w sends 38"]

    run_script(check)
