"""The brokers that are compared again, and the times at which their znodes are read, call by call."""

from types import SimpleNamespace

import trio

from tests.zkcompat import build
from trimaran.zkcompat.mirroring.verifier import BrokerWatch
from trimaran.zkcompat.zookeeper.errors import PathRefusedError


class Keeper:
    """Returns one set of children after the other, or a refusal for None; a watch fires after the given seconds."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []
        self.all_asked = trio.Event()

    async def children(self, path, changed):
        await trio.lowlevel.checkpoint()
        self.asked.append((round(trio.current_time() - self.began, 3), path))
        names, seconds = self.answers.pop(0)
        if not self.answers:
            self.all_asked.set()
        if names is None:
            raise PathRefusedError(path, "NoNode")
        trio.lowlevel.spawn_system_task(self.fire, changed, seconds)
        return names

    @staticmethod
    async def fire(changed, seconds):
        await trio.sleep(seconds)
        changed()


async def watched(*answers):
    """Returns the times at which the children were read, and the entities that were compared again, with the times."""
    keeper = Keeper(*answers, ([], 99))
    rechecked = []

    def recheck(path):
        rechecked.append((round(trio.current_time() - keeper.began, 3), path))

    shown = build.image_of(build.broker(1), build.broker(2))
    tenure = SimpleNamespace(keeper=keeper, shown=shown, recheck=recheck)
    keeper.began = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(BrokerWatch(tenure).run)
        await keeper.all_asked.wait()
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert {path for _, path in keeper.asked} == {"/brokers/ids"}
    return [at for at, _ in keeper.asked], sorted(rechecked)[:-2]  # the time of the last response


async def test_appearing_or_vanishing_brokers_are_compared_again(autojump_clock):
    asked, rechecked = await watched((["1", "2"], 3), (["2", "7"], 1))
    assert asked == [0, 3, 4]
    assert rechecked == [(3, "/brokers/ids/1"), (3, "/brokers/ids/7")]


async def test_brokers_are_checked_ten_times_a_second(autojump_clock):
    asked, _ = await watched((["1", "2"], 0), (["1", "2"], 0.05), (["1", "2"], 0.15))
    assert asked == [0, 0.1, 0.2, 0.35]


async def test_brokers_are_checked_without_a_watch_event(autojump_clock):
    asked, _ = await watched((["1", "2"], 99), (["1", "2"], 99))
    assert asked == [0, 5.1, 10.2]


async def test_paths_seen_before_refusal_are_not_rechecked(autojump_clock):
    asked, rechecked = await watched((["1"], 2), (None, 0), (["1", "2"], 1))
    assert asked == [0, 2, 7, 8]
    assert rechecked == [(0, "/brokers/ids/2")]
