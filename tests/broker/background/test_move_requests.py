"""Responses to requests to move a replica in each state, and what becomes of the copy."""

from __future__ import annotations

import errno

import trio

from tests.broker.background.test_directory_moves import Moves, futures_of
from tests.checks import check_each
from tests.cluster.data_side import partition as partition_image
from tests.cluster.data_side import topic
from tests.log.helpers import batch_bytes, view_of
from trimaran.broker.background import directory_moves
from trimaran.log.batches.batch import iter_batches
from trimaran.log.config import LogConfig
from trimaran.log.directories.directory import LogDirectory
from trimaran.log.disk.files import Files
from trimaran.log.partitions.partition_log import PartitionLog
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicPartition

E = ErrorCode


def ask(setup, index=0, path=None):
    return setup.moves.request(
        TopicPartition("t", index), str(setup.b.path if path is None else path)
    )


def no_such_directory(setup):
    return ask(setup, path="/nowhere")


def directory_failed_at_the_start(setup):
    path = setup.b.path.with_name("c")
    setup.harness.directories.failed_at_start[path] = "it was not read"
    return ask(setup, path=path)


def target_is_offline(setup):
    setup.b.health.fail("the disk is gone")
    return ask(setup)


def target_of_missing_partition_is_offline(setup):
    setup.b.health.fail("the disk is gone")
    return ask(setup, index=5)


def offline_target_is_cordoned(setup):
    setup.b.health.fail("the disk is gone")
    return target_is_cordoned(setup)


def target_is_cordoned(setup):
    setup.harness.directories.cordoned = lambda: [setup.b.path]
    return ask(setup)


def another_is_cordoned(setup):
    setup.harness.directories.cordoned = lambda: [setup.a.path]
    return ask(setup)


def no_such_partition(setup):
    return ask(setup, index=5)


def source_is_offline(setup):
    setup.a.health.fail("the disk is gone")
    return ask(setup)


def it_is_there_already(setup):
    return ask(setup, path=setup.a.path)


ANSWERS = {
    no_such_directory: (E.LOG_DIR_NOT_FOUND, False),
    directory_failed_at_the_start: (E.KAFKA_STORAGE_ERROR, False),
    target_is_offline: (E.KAFKA_STORAGE_ERROR, False),
    target_of_missing_partition_is_offline: (E.KAFKA_STORAGE_ERROR, False),
    offline_target_is_cordoned: (E.KAFKA_STORAGE_ERROR, False),
    target_is_cordoned: (E.INVALID_REPLICA_ASSIGNMENT, False),
    another_is_cordoned: (E.NONE, True),
    no_such_partition: (E.REPLICA_NOT_AVAILABLE, False),
    source_is_offline: (E.KAFKA_STORAGE_ERROR, False),
    it_is_there_already: (E.NONE, False),
    ask: (E.NONE, True),
}


async def test_request_is_answered_by_state_of_both_directories(tmp_path):
    """Only a replica that can be moved begins to move."""

    def check(row):
        number, (act, (code, begins)) = row
        setup = Moves(_made(tmp_path / str(number)))
        assert act(setup) is code
        assert (
            setup.moves.of(setup.harness.partitions.find(TopicPartition("t", 0))) is not None
        ) == begins
        assert bool(futures_of(setup.b)) == begins
        wanted = {("t", 5): setup.b} if act is no_such_partition else {}
        assert setup.harness.directories.preferred == wanted

    check_each(enumerate(ANSWERS.items()), check)


def _made(path):
    path.mkdir()
    return path


async def test_disk_that_refuses_copy_is_reported_with_code(tmp_path, monkeypatch):
    setup = Moves(tmp_path)

    def refuse(*_arguments):
        raise KafkaError(E.NOT_ENOUGH_REPLICAS, "as no disk does")

    monkeypatch.setattr(directory_moves, "_open", refuse)
    assert ask(setup) is E.NOT_ENOUGH_REPLICAS
    assert setup.moves.of(setup.harness.partitions.find(TopicPartition("t", 0))) is None


async def test_repeated_move_continues_and_another_target_replaces_it(tmp_path):
    setup = Moves(tmp_path, partitions=2)
    first, second = (setup.harness.partitions.find(TopicPartition("t", index)) for index in (0, 1))
    of = setup.moves.of
    assert ask(setup) is E.NONE
    move = of(first)
    assert (move.target, move.partition, of(second)) == (setup.b, first, None)
    assert ask(setup) is E.NONE
    assert of(first) is move
    assert ask(setup, 1) is E.NONE
    assert len(futures_of(setup.b)) == 2
    assert ask(setup, path=setup.a.path) is E.NONE
    assert of(first) is None
    assert of(second) is not None
    assert len(futures_of(setup.b)) == 1
    assert ask(setup) is E.NONE
    assert of(first) not in (None, move)


async def test_replica_without_log_is_created_at_target(
    tmp_path,
):
    setup = Moves(tmp_path)
    setup.harness.set_image(topic("t", *[partition_image()] * 2))
    assert ask(setup, 1) is E.NONE
    assert setup.harness.directories.preferred == {("t", 1): setup.b}
    assert setup.moves.of(setup.harness.partitions.find(TopicPartition("t", 1))) is None


async def test_copy_is_kept_only_as_possible_last_one(tmp_path):
    """`source_fails`: true if the source's disk is offline, None if the source is gone. A deleted partition needs no
    copy.
    """

    def check(row):
        number, (source_fails, is_deleted, is_kept) = row
        setup = Moves(_made(tmp_path / str(number)))
        ask(setup)
        move = setup.moves.of(setup.harness.partitions.find(TopicPartition("t", 0)))
        if source_fails is None:
            setup.a.forget(TopicPartition("t", 0))
        elif source_fails:
            setup.a.health.fail("the disk is gone")
        move.partition.deleted = is_deleted
        setup.moves._give_up(move)
        assert move.copy.is_closed
        assert bool(futures_of(setup.b)) == is_kept
        assert setup.moves.of(move.partition) is None

    rows = [
        (False, False, False),
        (True, False, True),
        (None, False, True),
        (True, True, False),
        (False, True, False),
    ]
    check_each(enumerate(rows), check)


async def test_copy_in_failed_directory_is_closed_and_kept(tmp_path):
    setup = Moves(tmp_path)
    ask(setup)
    setup.b.health.fail("the disk is gone")
    await setup.run()
    assert len(futures_of(setup.b)) == 1
    assert setup.holding()[0] == "a"


async def test_moved_log_keeps_start_end_and_new_directory(tmp_path, monkeypatch):
    """After a restart, the moved replica is neither checked again nor empty."""
    setup = Moves(tmp_path)
    placed = []
    setup.harness.directories.on_placed = lambda *replica: placed.append(replica)
    leader = setup.harness.leader("t", 0)
    for _ in range(2):
        data = batch_bytes(3)
        leader.append(memoryview(data), [view_of(data)])
    setup.harness.flush()
    leader.log.delete_records_before(4)
    partition = setup.harness.partitions.find(TopicPartition("t", 0))
    ask(setup)
    await setup.run()
    assert placed == [((partition.topic_id, 0), setup.b.directory_id)]
    assert not (setup.a.path / "t-0").exists()
    assert ("t", 0) not in setup.a
    assert (partition.log.log_start_offset, partition.log.log_end_offset) == (4, 9)
    setup.b.save_checkpoints()
    opened = []
    open_log = PartitionLog.open

    def noting(*arguments, **options):
        last_run = arguments[2]
        opened.append((last_run.recovery_point, last_run.log_start_offset))
        return open_log(*arguments, **options)

    monkeypatch.setattr(PartitionLog, "open", noting)
    setup.b.close(broker_epoch=None)
    again = LogDirectory(setup.b.path)
    log = again.open_log(TopicPartition("t", 0), LogConfig())
    assert (log.log_start_offset, log.log_end_offset, opened) == (4, 9, [(9, 4)])
    again.close(broker_epoch=None)


async def test_copy_proceeds_by_counted_mebibytes(tmp_path, monkeypatch):
    setup = Moves(tmp_path)
    leader = setup.harness.leader("t", 0)
    sizes = [len(batch_bytes(3))]
    for count in (1, 1, 1, 1, 5, 1, 1, 1, 1):  # one of the logs is larger than that
        data = batch_bytes(count, value=b"v" * 300_000)
        leader.append(memoryview(data), [view_of(data)])
        sizes.append(len(data))
    pieces, counted = [], []

    async def run_blocking(step, *arguments):
        result = await trio.to_thread.run_sync(step, *arguments)
        if isinstance(result, bytes):
            pieces.append(
                [len(view.buffer) for view in iter_batches(memoryview(bytearray(result)))]
            )
        return result

    monkeypatch.setattr(directory_moves, "run_blocking", run_blocking)
    record = setup.moves._throttle.record
    monkeypatch.setattr(
        setup.moves._throttle,
        "record",
        lambda size, now: (counted.append(size), record(size, now)),
    )
    ask(setup)
    await setup.run()
    assert [size for piece in pieces for size in piece] == sizes
    assert counted == list(map(sum, pieces))
    assert [size > 1 << 20 for size in counted] == [False, False, True, False, False]


async def test_requested_moves_begin_at_once_when_idle(
    tmp_path, nursery, autojump_clock, monkeypatch
):
    monkeypatch.setattr(directory_moves, "run_blocking", at_once)
    setup = Moves(tmp_path, partitions=2)
    nursery.start_soon(setup.moves.run)
    await trio.sleep(5)
    for index in (0, 1):
        ask(setup, index)
        await trio.sleep(0.001)
        assert setup.holding()[index] == "b"
        await trio.sleep(5)


async def at_once(step, *arguments):
    """A clock that jumps ahead does not wait for threads."""
    return step(*arguments)


async def test_copy_under_check_delays_no_other_move(
    tmp_path, nursery, autojump_clock, monkeypatch
):
    setup = Moves(tmp_path, partitions=2)
    ask(setup)
    setup.restart()
    goes_on = trio.Event()

    async def held(step, *arguments):
        if step is directory_moves._open:
            await goes_on.wait()
        return step(*arguments)

    monkeypatch.setattr(directory_moves, "run_blocking", held)
    nursery.start_soon(setup.moves.run)
    await trio.sleep(1)
    ask(setup, 1)
    await trio.sleep(1)
    assert setup.holding() == ["a", "b"]
    goes_on.set()
    await trio.sleep(1)
    assert setup.holding() == ["b", "b"]


async def test_uncheckable_copy_is_abandoned(tmp_path, monkeypatch):
    setup = Moves(tmp_path)
    ask(setup)
    setup.restart()
    tried = []

    async def failing(step, *_arguments):
        tried.append(step)
        raise KafkaError(E.KAFKA_STORAGE_ERROR, "it cannot be read")

    monkeypatch.setattr(directory_moves, "run_blocking", failing)
    await setup.run(and_until=lambda: tried)
    assert setup.moves.of(setup.harness.partitions.find(TopicPartition("t", 0))) is None
    assert (setup.holding()[0], len(tried)) == ("a", 1)


async def test_replica_stays_when_its_source_is_unreadable(tmp_path, monkeypatch, caplog):
    setup = Moves(tmp_path)

    async def failing(step, *_arguments):
        if step.__name__ == "read":
            raise OSError(errno.EIO, "the disk is gone")
        return step()

    monkeypatch.setattr(directory_moves, "run_blocking", failing)
    ask(setup)
    await setup.run()
    assert "KAFKA_STORAGE_ERROR: [Errno 5] the disk is gone" in caplog.text
    assert setup.holding()[0] == "a"
    assert not futures_of(setup.b)


async def test_unflushable_copy_is_removed(tmp_path, monkeypatch, caplog):
    setup = Moves(tmp_path)

    async def failing(step, *_arguments):
        if step.__name__ == "run":
            raise OSError(errno.ENOSPC, "the disk is full")
        return step()

    monkeypatch.setattr(directory_moves, "run_blocking", failing)
    ask(setup)
    await setup.run()
    assert "KAFKA_STORAGE_ERROR: [Errno 28] the disk is full" in caplog.text
    assert setup.holding()[0] == "a"


async def test_undeletable_source_name_is_no_longer_the_replica(tmp_path):
    """The source's disk is online, but its directory cannot be removed: the copy is the replica."""
    setup = Moves(tmp_path)

    class Keeping(Files):
        def rename(self, source, target):
            raise OSError(errno.EACCES, "no name goes")

    setup.a._files = Keeping()
    ask(setup)
    await setup.run()
    assert setup.holding()[0] == "b"
    assert ("t", 0) not in setup.a
    assert (setup.a.path / "t-0").exists()


async def test_copy_with_unreadable_topic_stays_without_delaying_others(tmp_path, monkeypatch):
    setup = Moves(tmp_path, partitions=2)
    ask(setup, 0)
    ask(setup, 1)
    setup.restart()
    is_of = setup.b.futures.is_of

    def damaged(key, topic_id):
        if key.partition == 0:
            raise KafkaError(E.KAFKA_STORAGE_ERROR, "its topic id is damaged")
        return is_of(key, topic_id)

    monkeypatch.setattr(setup.b.futures, "is_of", damaged)
    await setup.run(and_until=lambda: setup.holding() == ["a", "b"])
    assert list(setup.b.futures) == [("t", 0)]


async def test_copies_are_closed_with_the_moves(tmp_path):
    setup = Moves(tmp_path)
    ask(setup)
    move = setup.moves.of(setup.harness.partitions.find(TopicPartition("t", 0)))
    setup.moves.close()
    assert move.copy.is_closed
    assert setup.moves.of(move.partition) is None
    assert len(futures_of(setup.b)) == 1


async def test_move_of_deleted_replica_ends_silently(tmp_path, caplog):
    setup = Moves(tmp_path)
    ask(setup)
    setup.harness.set_image()
    await setup.run(and_until=lambda: not futures_of(setup.b))
    assert "does not move" not in caplog.text
