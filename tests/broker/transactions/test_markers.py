"""Markers for partitions that this broker leads: a single marker does not wait for a batch."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import trio
import trio.testing

from trimaran.broker.coordination.shard_epoch import ShardState
from trimaran.broker.transactions.markers import MarkerWriter
from trimaran.broker.transactions.marking import the_same_for_all
from trimaran.broker.transactions.transaction import Transaction, TransactionState
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import TopicPartition
from trimaran.wire.transport.scheduling.effects import Wait

HERE = 1


class Marking:
    """Writes when the test permits it, and keeps the producers of markers that were written together."""

    def __init__(self):
        self.asked = []
        self.goes_on = trio.Event()

    def writing(self, request):
        return (yield Wait(partial(self.write, request)))

    async def write(self, request):
        self.asked.append([marker.producer_id for marker in request.markers])
        await self.goes_on.wait()
        return the_same_for_all(request, ErrorCode.NONE)


class Epoch:
    """A shard that only lists decided transactions, until they are complete."""

    state = ShardState.ACTIVE
    leader_epoch = 0

    def __init__(self, producer_ids):
        self._decided = {
            str(producer_id_): Transaction(
                producer_id=producer_id_,
                epoch=0,
                timeout_ms=1000,
                state=TransactionState.PREPARE_COMMIT,
                partitions=frozenset({TopicPartition("t", 0)}),
            )
            for producer_id_ in producer_ids
        }

    def active(self):
        return self

    def decided(self, transactional_id):
        return self._decided.get(transactional_id)

    def decide(self, act):
        act(self, None)

    def complete(self, transactional_id, _decided, _at):
        del self._decided[transactional_id]


def led_here():
    topic = SimpleNamespace(partitions={0: SimpleNamespace(leader=HERE)})
    brokers = {HERE: SimpleNamespace(fenced=False)}
    return SimpleNamespace(
        image=SimpleNamespace(
            topics=SimpleNamespace(by_name={"t": topic}), cluster=SimpleNamespace(brokers=brokers)
        )
    )


async def test_concurrent_markers_are_written_together(nursery):
    marking, epoch = Marking(), Epoch([1, 2, 3, 4, 5, 6, 7])
    writer = MarkerWriter(HERE, marking, None, led_here(), seconds=1.0)
    await nursery.start(writer.run)
    for producer_id in range(1, 8):
        nursery.start_soon(writer.finish, epoch, str(producer_id))
        await trio.testing.wait_all_tasks_blocked()
        if producer_id == 1:
            assert marking.asked == [[1]]
    assert marking.asked[:5] == [[1], [2], [3], [4], [5]], "as many requests as may be under way"
    marking.goes_on.set()
    await trio.testing.wait_all_tasks_blocked()
    assert marking.asked[5:] == [[6, 7]]
    assert not any(epoch.decided(str(producer_id)) for producer_id in range(1, 8))
    marking.asked.clear()
    epoch = Epoch([8])
    await writer.finish(epoch, "8")
    assert (marking.asked, epoch.decided("8")) == ([[8]], None)


async def test_cancelled_writer_lets_next_marker_proceed():
    marking = Marking()
    writer = MarkerWriter(HERE, marking, None, led_here(), seconds=1.0)
    with trio.move_on_after(0):
        await writer.finish(Epoch([1]), "1")
    marking.goes_on.set()
    await writer.finish(Epoch([2]), "2")
    assert marking.asked == [[1], [2]], "nobody runs what gathers"


async def test_markers_of_one_turn_are_gathered(nursery):
    """Otherwise brokers would serve no other requests while they write thousands of markers one by one."""
    marking, epoch = Marking(), Epoch(range(1, 21))
    marking.write = at_once(marking)
    writer = MarkerWriter(HERE, marking, None, led_here(), seconds=1.0)
    await nursery.start(writer.run)
    for producer_id in range(1, 21):
        nursery.start_soon(writer.finish, epoch, str(producer_id))
    await trio.testing.wait_all_tasks_blocked()
    assert [len(markers) for markers in marking.asked] == [1, 19]
    assert not any(epoch.decided(str(producer_id)) for producer_id in range(1, 21))


def at_once(marking):
    """Writes without a checkpoint, as when nothing is flushed."""

    async def write(request):
        marking.asked.append([marker.producer_id for marker in request.markers])
        return the_same_for_all(request, ErrorCode.NONE)

    return write
