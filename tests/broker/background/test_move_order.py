"""The order of a move's steps, copies that were begun by an earlier process, and what a failed move leaves behind."""

from __future__ import annotations

import pytest

from tests.broker.background.test_directory_moves import Moves, futures_of, other_directory
from tests.broker.background.test_move_requests import ask, at_once
from tests.cluster.data_side import partition as partition_image
from tests.cluster.data_side import topic
from tests.log.helpers import batch_bytes, view_of
from trimaran.broker.background import directory_moves
from trimaran.log.config import LogConfig
from trimaran.log.directories.directory import LogDirectory
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicPartition

E = ErrorCode
FAILS = KafkaError(E.KAFKA_STORAGE_ERROR, "the disk is gone")


@pytest.fixture
def in_loop(monkeypatch):
    monkeypatch.setattr(directory_moves, "run_blocking", at_once)


async def test_swap_closes_and_renames_copy_before_reporting(tmp_path, monkeypatch):
    setup = Moves(tmp_path)
    partition = setup.harness.partitions.find(TopicPartition("t", 0))
    steps, source = [], partition.log
    promote, hand_over = LogDirectory.promote_future, LogDirectory.hand_over

    def promoting(directory, key, **offsets):
        copy = directory.futures._opened[key]
        steps.append(("named", directory.path.name, copy.is_closed, offsets))
        assert setup.moves.of(partition) is None
        promote(directory, key, **offsets)

    def handing_over(directory, key):
        steps.append(("handed over", directory.path.name, key in setup.b))
        hand_over(directory, key)

    def placed(*replica):
        open_log = partition.open_log
        steps.append(("told", replica, setup.holding()[0], open_log is not source))

    monkeypatch.setattr(LogDirectory, "promote_future", promoting)
    monkeypatch.setattr(LogDirectory, "hand_over", handing_over)
    setup.harness.directories.on_placed = placed
    ask(setup)
    await setup.run()
    offsets = {"end_offset": 3, "start_offset": 0}
    told = ((partition.topic_id, 0), setup.b.directory_id)
    assert steps == [
        ("named", "b", True, offsets),
        ("handed over", "a", True),
        ("told", told, "b", True),
    ]


async def test_unappended_piece_is_not_counted_by_throttle(tmp_path, monkeypatch, in_loop):
    setup = Moves(tmp_path)
    counted = []
    throttle = setup.harness.contexts.data.throttles.moves
    monkeypatch.setattr(throttle, "record", lambda *sizes: counted.append(sizes))

    def fails(_copy, _data):
        raise FAILS

    monkeypatch.setattr(directory_moves, "_append", fails)
    ask(setup)
    await setup.run()
    assert (counted, setup.holding()[0]) == ([], "a")


@pytest.mark.parametrize(
    ("delay", "is_copied"), [(-1.0, True), (0, True), (0.001, False), (1.0, False)]
)
async def test_step_waits_while_rate_exceeds_bound(
    tmp_path, monkeypatch, in_loop, delay, is_copied
):
    setup = Moves(tmp_path)
    ask(setup)
    monkeypatch.setattr(setup.harness.contexts.data.throttles.moves, "delay", lambda _now: delay)
    move = setup.moves.of(setup.harness.partitions.find(TopicPartition("t", 0)))
    assert await setup.moves._step_or_give_up(move) is is_copied
    assert move.copy.log_end_offset == (3 if is_copied else 0)
    assert setup.moves.of(move.partition) is move


@pytest.mark.parametrize("meanwhile", ["given up", "deleted", "replaced", "nothing"])
async def test_piece_read_for_ended_move_is_dropped(tmp_path, monkeypatch, meanwhile):
    setup = Moves(tmp_path)
    partition = setup.harness.partitions.find(TopicPartition("t", 0))
    ask(setup)
    move = setup.moves.of(partition)
    appended, counted = [], []

    async def late(step):
        data = step()
        match meanwhile:
            case "given up":
                assert ask(setup, path=setup.a.path) is E.NONE
            case "deleted":
                setup.harness.set_image()
            case "replaced":
                setup.harness.partitions.reopen([partition])
        return data

    monkeypatch.setattr(directory_moves, "run_blocking", late)
    monkeypatch.setattr(directory_moves, "_append", lambda copy, _data: appended.append(copy))
    throttle = setup.harness.contexts.data.throttles.moves
    monkeypatch.setattr(throttle, "record", lambda *sizes: counted.append(sizes))
    assert await setup.moves._step_or_give_up(move)
    assert appended == ([move.copy] if meanwhile == "nothing" else [])
    assert len(counted) == len(appended)


async def test_each_step_does_one_thing_until_swap(tmp_path, in_loop):
    """Each call reads, flushes or swaps; after the swap the move no longer exists."""
    setup = Moves(tmp_path)
    ask(setup)
    partition = setup.harness.partitions.find(TopicPartition("t", 0))
    move = setup.moves.of(partition)
    seen = []
    for _ in range(3):
        is_more = await setup.moves._step_or_give_up(move)
        at = (move.copy.log_end_offset, move.copy.flushed_offset, setup.holding()[0])
        seen.append((is_more, *at, setup.moves.of(partition) is move))
    assert seen == [(True, 3, 0, "a", True), (True, 3, 3, "a", True), (True, 3, 3, "b", False)]


async def test_abandoned_copy_is_closed_without_flush(tmp_path, in_loop):
    """The copy is checked from its beginning when it is opened again, and a flush would block the loop."""
    for close in ("moves", "given up alone", "given up"):
        setup = Moves(_made(tmp_path / close.replace(" ", "-")))
        ask(setup)
        move = setup.moves.of(setup.harness.partitions.find(TopicPartition("t", 0)))
        assert await setup.moves._step(move, move.copy)
        assert move.copy.log_end_offset == 3
        if close == "moves":
            setup.moves.close()
        else:
            if close == "given up alone":
                setup.a.health.fail("the disk is gone")
            setup.moves._give_up(move)
        assert (move.copy.is_closed, move.copy.flushed_offset) == (True, 0), close


def _made(path):
    path.mkdir()
    return path


# -- copies of an earlier process


def with_c(setup, tmp_path):
    c = other_directory(tmp_path / "c")
    setup.harness.directories.all.append(c)
    return c


def leave_copy(directory, partition):
    key = partition.topic_partition
    directory.futures.open(key, partition.topic_id, LogConfig()).close(clean=False)


async def test_second_copy_of_replica_is_removed(tmp_path):
    setup = Moves(tmp_path)
    c = with_c(setup, tmp_path)
    partition = setup.harness.partitions.find(TopicPartition("t", 0))
    for directory in (setup.b, c):
        leave_copy(directory, partition)
    await setup.run(and_until=lambda: setup.holding()[0] == "b")
    assert not futures_of(setup.b)
    assert not futures_of(c)


async def test_copy_in_directory_of_replica_is_removed(tmp_path):
    setup = Moves(tmp_path)
    leave_copy(setup.a, setup.harness.partitions.find(TopicPartition("t", 0)))
    await setup.run(and_until=lambda: not list(setup.a.futures))
    assert setup.holding()[0] == "a"
    assert not futures_of(setup.a)


@pytest.mark.parametrize("requested", ["b", "c"])
async def test_request_before_start_overrides_begun_move(tmp_path, requested):
    setup = Moves(tmp_path)
    c = with_c(setup, tmp_path)
    partition = setup.harness.partitions.find(TopicPartition("t", 0))
    for directory in (setup.b, c):
        leave_copy(directory, partition)
    ask(setup, path=tmp_path / requested)
    move = setup.moves.of(partition)
    assert move.copy is not None
    begun = setup.moves._begun_before()
    assert [(directory.path.name, partitions) for directory, partitions in begun.items()] == [
        ("a", []),
        ("b", []),
        ("c", []),
    ]
    assert setup.moves.of(partition) is move
    assert [bool(futures_of(directory)) for directory in (setup.b, c)] == [
        requested == "b",
        requested == "c",
    ]


async def test_earlier_moves_are_found_in_order_of_targets(tmp_path):
    setup = Moves(tmp_path, partitions=3)
    c = with_c(setup, tmp_path)
    zero, one, two = (
        setup.harness.partitions.find(TopicPartition("t", index)) for index in range(3)
    )
    for directory, partition in ((setup.b, two), (setup.b, zero), (c, one)):
        leave_copy(directory, partition)
    assert setup.moves._begun_before() == {setup.a: [], setup.b: [zero, two], c: [one]}
    for partition, target in ((zero, setup.b), (one, c), (two, setup.b)):
        move = setup.moves.of(partition)
        assert (move.partition, move.target, move.copy) == (partition, target, None)


@pytest.mark.parametrize("is_of_topic", [True, False])
async def test_copy_without_source_stays_if_of_topic(tmp_path, is_of_topic):
    """No move is resumed from it: it may be the only replica left, and incomplete."""
    setup = Moves(tmp_path)
    setup.harness.set_image(topic("t", *[partition_image()] * 2))
    partition = setup.harness.partitions.find(TopicPartition("t", 1))
    topic_id = partition.topic_id if is_of_topic else b"else" * 4
    setup.b.futures.open(TopicPartition("t", 1), topic_id, LogConfig()).close(clean=False)
    assert setup.moves._begun_before() == {setup.a: [], setup.b: []}
    assert bool(futures_of(setup.b)) == is_of_topic
    assert setup.moves.of(partition) is None


@pytest.mark.parametrize("is_offline", [True, False])
async def test_failed_disk_is_not_searched_for_further_copies(tmp_path, monkeypatch, is_offline):
    setup = Moves(tmp_path, partitions=3)
    for partition in setup.harness.partitions:
        leave_copy(setup.b, partition)
    asked = []

    def is_of(key, _topic_id):
        asked.append(key)
        if is_offline:
            setup.b.health.fail("the disk is gone")
        raise FAILS

    monkeypatch.setattr(setup.b.futures, "is_of", is_of)
    assert setup.moves._begun_before() == {setup.a: [], setup.b: []}
    assert asked == ([("t", 0)] if is_offline else [("t", 0), ("t", 1), ("t", 2)])
    assert len(futures_of(setup.b)) == 3


@pytest.mark.parametrize("is_damaged", [False, True])
async def test_directory_takes_next_move_after_check(tmp_path, monkeypatch, is_damaged):
    setup = Moves(tmp_path)
    partition = setup.harness.partitions.find(TopicPartition("t", 0))
    leave_copy(setup.b, partition)
    checks = []

    async def checked(step, *arguments):
        if step is directory_moves._open:
            checks.append(arguments)
            if is_damaged:
                raise FAILS
        return step(*arguments)

    monkeypatch.setattr(directory_moves, "run_blocking", checked)
    await setup.run(and_until=lambda: checks and not setup.moves._unchecked)
    assert setup.holding()[0] == ("a" if is_damaged else "b")
    for directory, name in ((setup.a, "a"), (setup.b, "b")):
        if setup.holding()[0] != name:
            ask(setup, path=directory.path)
            assert setup.moves.of(partition).copy is not None
            await setup.run()
        assert setup.holding()[0] == name
    assert checks == [(partition, setup.b)]


async def test_each_copy_is_checked_for_its_own_move(tmp_path, monkeypatch):
    """A copy that cannot be checked ends only its own move."""
    setup = Moves(tmp_path, partitions=3)
    partitions = list(setup.harness.partitions)
    for partition in partitions:
        leave_copy(setup.b, partition)
    order = []

    async def run_blocking(step, *arguments):
        if step is directory_moves._open:
            order.append(arguments[0].index)
            if arguments[0].index == 1:
                raise FAILS
        return step(*arguments)

    monkeypatch.setattr(directory_moves, "run_blocking", run_blocking)
    begun = setup.moves._begun_before()
    await setup.moves._check_copies(setup.b, begun[setup.b])
    assert (order, setup.moves._unchecked) == ([0, 1, 2], set())
    moves = [setup.moves.of(partition) for partition in partitions]
    assert moves[1] is None
    assert [(move.partition, move.target) for move in (moves[0], moves[2])] == [
        (partitions[0], setup.b),
        (partitions[2], setup.b),
    ]
    assert [move.copy.directory for move in (moves[0], moves[2])] == [
        setup.b.futures.directory(TopicPartition("t", 0)),
        setup.b.futures.directory(TopicPartition("t", 2)),
    ]
    setup.moves.close()


async def test_checked_copy_of_staying_replica_is_removed(tmp_path, monkeypatch):
    setup = Moves(tmp_path, partitions=2)
    partitions = list(setup.harness.partitions)
    for partition in partitions:
        leave_copy(setup.b, partition)
    copies = []

    async def run_blocking(step, partition, target):
        copies.append(step(partition, target))
        if partition.index == 0:
            assert ask(setup, 0, setup.a.path) is E.NONE
        return copies[-1]

    monkeypatch.setattr(directory_moves, "run_blocking", run_blocking)
    await setup.moves._check_copies(setup.b, setup.moves._begun_before()[setup.b])
    assert [copy.is_closed for copy in copies] == [True, False]
    assert list(setup.b.futures) == [("t", 1)]
    assert setup.moves.of(partitions[0]) is None
    assert setup.moves.of(partitions[1]).copy is copies[1]
    setup.moves.close()


async def test_records_during_flush_are_copied_before_swap(tmp_path, monkeypatch):
    setup = Moves(tmp_path)
    leader = setup.harness.leader("t", 0)
    appended = []

    async def run_blocking(step, *arguments):
        if step.__name__ == "run" and len(appended) < 2:
            data = batch_bytes(1)
            leader.append(memoryview(data), [view_of(data)])
            appended.append(data)
        return step(*arguments)

    monkeypatch.setattr(directory_moves, "run_blocking", run_blocking)
    ask(setup)
    await setup.run()
    assert setup.holding()[0] == "b"
    moved = setup.harness.partitions.find(TopicPartition("t", 0)).log
    assert (len(appended), moved.log_end_offset, moved.flushed_offset) == (2, 5, 5)
