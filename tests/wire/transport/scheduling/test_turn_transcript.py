"""The connections that begin in each turn of the loop, and their accounts, after each step of the transcript."""

import math
from pathlib import Path
from types import SimpleNamespace

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.wire.transport.in_order import check_steps, run_in_order
from trimaran.wire.transport.scheduling.loop_time import LoopTime
from trimaran.wire.transport.scheduling.turn import Turn, TurnQueue

FILES = sorted((Path(__file__).parent / "testdata" / "turn").glob("*.txt"))


class Scene:
    """Connections named by letters; `loop` counts turns, and the clock advances only when the transcript
    advances it.
    """

    def __init__(self, nursery):
        self.nursery = nursery
        self.told = []
        self.restart()

    def restart(self):
        self.now = 50.0
        self.loop = SimpleNamespace(number=7)
        self.queue = TurnQueue(self.loop, lambda: self.now)
        self.turns: dict[str, Turn] = {}
        self.scopes: dict[str, trio.CancelScope] = {}
        self.seen: dict[str, list[object]] = {}

    async def step(self, step):
        for line in (
            line for line in step.source.splitlines() if line and not line.startswith("#")
        ):
            word, *rest = line.split()
            getattr(self, f"_{word}")(*rest)
            await wait_all_tasks_blocked()
        told, self.told = self.told, []
        return "\n".join([*told, *self._state()])

    def _turn(self, name):
        return self.turns.setdefault(name, Turn(self.queue, LoopTime()))

    def _new(self):
        self.restart()

    def _begins(self, name, since=None, spent="0"):
        turn, scope = self._turn(name), trio.CancelScope()
        self.scopes[name] = scope

        async def begin():
            with scope:
                task = trio.lowlevel.current_task()
                before = task._schedule_points
                await turn.begin(None if since is None else self.now - float(since), float(spent))
                waits = "" if task._schedule_points > before else " at once"
                self.told.append(f"{name} begins{waits}")
            if scope.cancelled_caught:
                self.told.append(f"{name} gives up")

        self.nursery.start_soon(begin)

    def _leaves(self, name):
        self.scopes[name].cancel()

    def _works(self, name, milliseconds):
        """Runs a whole slice."""
        self.now += float(milliseconds) / 1000
        self._turn(name).end()

    def _steps(self, name, milliseconds):
        turn = self._turn(name)
        turn.resume()
        self.now += float(milliseconds) / 1000
        self.told.append(f"{name} took {turn.pause() * 1000:.4f} ms")

    def _waits(self, milliseconds):
        self.now += float(milliseconds) / 1000

    def _loop(self, count="1"):
        self.loop.number += int(count)

    def _shares(self, name):
        """Requests shared work at the end of the slice."""
        self.queue.slice_end.then_for_all(lambda: self.told.append("the slice has ended"))
        self.told.append(f"{name} may be joined: {self._turn(name).may_be_joined()}")

    def _asks(self, name):
        turn = self._turn(name)
        self.told.append(f"{name} over {turn.is_over()}, joined {turn.may_be_joined()}")

    def _state(self):
        """Returns the queue, and the changes of the connections."""
        queue = self.queue
        names = {id(turn): name for name, turn in self.turns.items()}
        last = "nobody" if queue.last is None else names[id(queue.last)]
        yield (
            f"turn {queue.number}: taken {ms(queue._taken)}, granted {ms(queue._granted)}, "
            f"reserved {ms(queue._reserved)}"
        )
        yield (
            f"line {queue._in_line} of {queue._orders:.3f}, ahead {queue._ahead:.3f}, last {last}, "
            f"shared {ago(queue.shared_at - self.now)}"
        )
        for name, turn in self.turns.items():
            began = turn.loop_time.began
            present = [getattr(turn, slot) for slot in Turn.__slots__ if slot != "loop_time"]
            present += [turn.loop_time.seconds, began]
            if self.seen.get(name) == present:
                continue
            self.seen[name] = present
            yield (
                f"{name}: {ms(turn._lately)} at {ago(turn._at - self.now)}, "
                f"lately {ms(turn.took_lately(self.now))}, order {turn.order():.3f}, "
                f"ends {ago(turn._ends - self.now)}, entered {ms(turn._entered)}, "
                f"last {ms(turn._last)}, ended in {turn.ended_in}, "
                f"in all {ms(turn.loop_time.seconds)}"
                + ("" if began is None else f", began {ago(began - self.now)}")
            )


def ms(seconds):
    return f"{seconds * 1000 + 0.0:.4f}".replace("-0.0000", "0.0000")


def ago(seconds):
    return "never" if math.isinf(seconds) or seconds < -20 else ms(seconds)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_slices_begin_as_each_transcript_says(path):

    async def main():
        async with trio.open_nursery() as nursery:
            scene = Scene(nursery)
            await check_steps(path, scene.step)
            nursery.cancel_scope.cancel()

    run_in_order(main)
