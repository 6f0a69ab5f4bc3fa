"""Moves of replicas between directories that are cancelled while a thread works on them."""

from __future__ import annotations

import errno
import os

import pytest
import trio
from immutables import Map

from tests.cluster.data_side import open_harness, topic, topics_image
from tests.cluster.data_side import partition as partition_image
from tests.cluster.nodes import CLUSTER_ID
from tests.log.helpers import batch_bytes, read_all, view_of
from trimaran.broker.background import directory_moves
from trimaran.broker.background.directory_moves import DirectoryMoves
from trimaran.broker.partitions.partition import Partition
from trimaran.broker.storage.directories import LogDirectories
from trimaran.broker.storage.unfinished_moves import finish_moves
from trimaran.log.config import LogConfig
from trimaran.log.directories.directory import LogDirectory
from trimaran.log.directories.future_replicas import FutureReplicas
from trimaran.log.directories.meta_properties import MetaProperties
from trimaran.log.disk.files import Files
from trimaran.log.durability.group_commit import GroupCommit
from trimaran.log.partitions.names import DELETE_SUFFIX, FUTURE_SUFFIX
from trimaran.log.partitions.partition_log import PartitionLog
from trimaran.quorum.metadata.image import TopicImage
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicPartition


class Moves:
    """Moves partitions of `t` in directory `a`; there is also a directory `b`."""

    def __init__(self, tmp_path, partitions=1):
        self._path, self._partitions = tmp_path / "a", partitions
        self.b = other_directory(tmp_path / "b")
        self.start_again()
        for index in range(partitions):
            data = batch_bytes(3)
            self.harness.leader("t", index).append(memoryview(data), [view_of(data)])

    def start_again(self):
        """Returns a process that has opened both directories after its predecessor closed `a`."""
        self.harness = open_harness(self._path)
        self.a = self.harness.directory
        self.harness.directories.all.append(self.b)
        self.harness.partitions._services.commit._commits[self.b.health] = GroupCommit(
            self.b.health
        )
        self.harness.set_image(topic("t", *[partition_image()] * self._partitions))
        self.moves = self.harness.contexts.directories.moves

    def request(self, index, directory):
        assert self.moves.request(TopicPartition("t", index), str(directory.path)) is ErrorCode.NONE

    async def run(self, and_until=lambda: True):
        """Runs steps until nothing is left to do or to cancel."""
        with trio.fail_after(5):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.moves.run)
                while any(map(self.moves.of, self.harness.partitions)) or not and_until():
                    await trio.lowlevel.checkpoint()
                nursery.cancel_scope.cancel()

    def restart(self):
        """Starts the next process, which finds the copies that this one began."""
        self.moves.close()
        self.moves = DirectoryMoves(
            self.harness.directories,
            self.harness.partitions,
            self.harness.contexts.data.throttles.moves,
        )

    def holding(self):
        found = [self.harness.directories.holding(TopicPartition("t", index)) for index in (0, 1)]
        return [None if directory is None else directory.path.name for directory in found]

    def settle(self, directories, *topics):
        """Settles copies as the next start does, with these topics in the image."""
        topics = topics or (topic("t", partition_image()),)
        return finish_moves(directories, topics_image(*topics), 11)


def other_directory(path):
    path.mkdir()
    MetaProperties(CLUSTER_ID, 11, bytes(15) + b"\x08").save(path)
    return LogDirectory(path)


@pytest.mark.parametrize("call", [1, 2], ids=["read", "flush"])
async def test_cancelled_move_ends_while_its_thread_runs(tmp_path, monkeypatch, call):
    setup = Moves(tmp_path)
    calls = []

    async def given_up(step):
        calls.append(step)
        if len(calls) == call:
            setup.request(0, setup.a)
        return await trio.to_thread.run_sync(step)

    monkeypatch.setattr(directory_moves, "run_blocking", given_up)
    setup.request(0, setup.b)
    await setup.run()
    assert len(calls) == call
    assert (setup.b.offline, setup.holding()[0]) == (None, "a")
    assert not list(setup.b.futures)
    monkeypatch.setattr(directory_moves, "run_blocking", trio.to_thread.run_sync)
    setup.request(0, setup.b)
    await setup.run()
    assert setup.holding()[0] == "b"
    assert not [p for p in setup.b.path.iterdir() if p.name.endswith(FUTURE_SUFFIX)]


async def test_move_is_cancelled_while_another_runs(tmp_path, monkeypatch):
    setup = Moves(tmp_path, partitions=2)
    calls = []

    async def other_given_up(step):
        calls.append(step)
        if len(calls) == 3:  # both pieces were read, the first was flushed
            setup.request(1, setup.a)
        return await trio.to_thread.run_sync(step)

    monkeypatch.setattr(directory_moves, "run_blocking", other_given_up)
    setup.request(0, setup.b)
    setup.request(1, setup.b)
    await setup.run()
    assert (setup.b.offline, setup.holding()) == (None, ["b", "a"])


@pytest.mark.parametrize("last", ["b", "a", "a, then b"])
async def test_copy_of_earlier_process_is_checked_in_thread(tmp_path, monkeypatch, last):
    """Requests that arrive during the check take effect after it: the copy continues, is dropped, or is dropped and
    requested again.
    """
    setup = Moves(tmp_path)
    setup.request(0, setup.b)
    partition = setup.harness.partitions.find(TopicPartition("t", 0))
    data = partition.log.read_bytes(0, 1, upto_offset=partition.log.log_end_offset)
    setup.moves.of(partition).copy.append_as_follower(memoryview(data))
    setup.restart()
    opened, ends = [], []

    async def run_blocking(step, *arguments):
        if not opened:
            opened.append(step)
            assert setup.moves.of(partition).copy is None
            for name in last.split(", then "):
                setup.request(0, getattr(setup, name))
        result = await trio.to_thread.run_sync(step, *arguments)
        if isinstance(result, PartitionLog):
            ends.append(result.log_end_offset)
        return result

    monkeypatch.setattr(directory_moves, "run_blocking", run_blocking)
    await setup.run(and_until=lambda: ends)
    assert ends == [3], "once, and what was copied is still there"
    assert setup.holding()[0] == last[-1]
    assert not list(setup.b.futures)


async def test_uncheckable_copy_disturbs_no_other_move(tmp_path, monkeypatch):
    setup = Moves(tmp_path)
    c = other_directory(tmp_path / "c")
    setup.harness.directories.all.append(c)
    setup.request(0, setup.b)
    setup.restart()
    open_copy = directory_moves._open

    def broken(partition, target):
        if target is setup.b:
            setup.request(0, c)  # while the thread checks the copy
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is gone")
        return open_copy(partition, target)

    async def run_blocking(step, *arguments):
        return step(*arguments)

    monkeypatch.setattr(directory_moves, "_open", broken)
    monkeypatch.setattr(directory_moves, "run_blocking", run_blocking)
    await setup.run(and_until=lambda: setup.holding()[0] == "c")


@pytest.mark.parametrize("given_up", [True, False])
async def test_copy_of_recreated_topic_is_discarded(tmp_path, monkeypatch, given_up):
    setup = Moves(tmp_path)
    setup.request(0, setup.b)
    old = setup.harness.partitions.find(TopicPartition("t", 0))
    setup.moves.of(old).copy.append_as_follower(
        memoryview(old.log.read_bytes(0, 1, upto_offset=old.log.log_end_offset))
    )
    setup.restart()
    made_anew = []

    async def run_blocking(step, *arguments):
        result = await trio.to_thread.run_sync(step, *arguments)
        if not made_anew:
            made_anew.append(result)
            if given_up:
                setup.request(0, setup.a)
            setup.harness.set_image()
            setup.harness.set_image(TopicImage("t", b"anew" * 4, Map({0: partition_image()})))
            data = batch_bytes(1)
            setup.harness.leader("t", 0).append(memoryview(data), [view_of(data)])
            setup.request(0, setup.b)
        return result

    monkeypatch.setattr(directory_moves, "run_blocking", run_blocking)
    await setup.run(and_until=lambda: setup.holding()[0] == "b")
    log = setup.harness.partitions.find(TopicPartition("t", 0)).log
    assert log.log_end_offset == 1
    assert setup.b.topic_id(TopicPartition("t", 0)) == b"anew" * 4


async def test_unwanted_copies_of_earlier_process_are_removed(tmp_path):
    """A copy is removed if its topic was recreated or its replica is no longer assigned here."""
    setup = Moves(tmp_path)
    for index, topic_id in (
        (0, b"else" * 4),
        (7, setup.harness.partitions.find(TopicPartition("t", 0)).topic_id),
    ):
        setup.b.futures.open(TopicPartition("t", index), topic_id, LogConfig()).close(clean=False)
    await setup.run(and_until=lambda: not list(setup.b.futures))
    assert setup.holding()[0] == "a"


def futures_of(directory):
    return [path.name for path in directory.path.iterdir() if path.name.endswith(FUTURE_SUFFIX)]


@pytest.mark.parametrize("damage", [b"\x07", b"\x02\x00"], ids=["no batch", "wrong checksum"])
async def test_replica_that_cannot_be_copied_leaves_nothing(tmp_path, caplog, damage):
    setup = Moves(tmp_path)
    [segment] = (setup.a.path / "t-0").glob("*.log")
    content = bytearray(segment.read_bytes())
    content[16 : 16 + len(damage)] = damage  # the damage begins at the magic byte
    segment.write_bytes(content)
    setup.request(0, setup.b)
    await setup.run()
    assert "t-0 does not move" in caplog.text
    assert (setup.a.offline, setup.b.offline, setup.holding()[0]) == (None, None, "a")
    assert not futures_of(setup.b)
    assert not list(setup.b.futures)


async def test_copy_stays_when_its_source_disk_fails(tmp_path):
    setup = Moves(tmp_path)
    setup.request(0, setup.b)
    setup.a.health.fail("the disk is gone")
    await setup.run()
    assert len(futures_of(setup.b)) == 1


async def test_copy_of_failed_move_is_deleted_with_topic(tmp_path):
    setup = Moves(tmp_path, partitions=2)
    for index in (0, 1):
        setup.request(index, setup.b)
    setup.a.health.fail("the disk is gone")
    await setup.run()
    assert len(futures_of(setup.b)) == 2
    setup.harness.set_image(topic("t", partition_image()))
    assert list(setup.b.futures) == [("t", 0)]
    assert len(futures_of(setup.b)) == 1
    setup.b.purge()
    assert not [path for path in setup.b.path.iterdir() if path.name.startswith("t-1")]


async def test_namesakes_copy_survives_deletion_of_topic(tmp_path):
    """The copy belongs to the current topic of that name; the predecessor's copy is discovered late."""
    setup = Moves(tmp_path)
    setup.request(0, setup.b)
    setup.a.health.fail("the disk is gone")
    await setup.run()
    setup.harness.directories.delete_log(TopicPartition("t", 0), b"another topic's ")
    assert list(setup.b.futures) == [("t", 0)]
    assert len(futures_of(setup.b)) == 1


async def test_open_copy_is_left_to_its_move(tmp_path, monkeypatch):
    """A thread may be renaming its files."""
    setup = Moves(tmp_path)
    dropped = []
    drop = FutureReplicas.drop
    monkeypatch.setattr(
        FutureReplicas, "drop", lambda *args: (dropped.append(args[1]), drop(*args))
    )
    setup.request(0, setup.b)
    setup.harness.set_image()
    assert dropped == []
    assert len(futures_of(setup.b)) == 1
    await setup.run(lambda: bool(dropped))
    assert dropped == [("t", 0)]
    assert not futures_of(setup.b)


class FailingDisk(Files):
    """A disk whose `call` fails from the `nth` call on that satisfies `is_it`."""

    def __init__(self, call, is_it=lambda *_: True):
        super().__init__()
        original = getattr(self, call)

        def failing(*arguments):
            if is_it(*arguments):
                raise OSError(errno.EIO, "the disk is gone")
            return original(*arguments)

        setattr(self, call, failing)


def gives_name(source, target):
    return source.name.endswith(FUTURE_SUFFIX)


def takes_name(source, target):
    return target.name.endswith(DELETE_SUFFIX)


@pytest.mark.parametrize(
    ("of", "files"),
    [
        ("target", FailingDisk("rename", gives_name)),
        ("target", FailingDisk("fsync_directory")),
        ("source", FailingDisk("rename", takes_name)),
        ("source", FailingDisk("fsync_directory")),
    ],
    ids=["name of the copy", "its fsync", "name of the source", "its fsync too"],
)
@pytest.mark.parametrize("crashes", [False, True])
async def test_disk_failure_during_renames_leaves_log_on_other(tmp_path, of, files, crashes):
    """The leader epoch stays the same; the log is also found at the next start, when both disks are back."""
    setup = Moves(tmp_path)
    partition = setup.harness.partitions.find(TopicPartition("t", 0))
    setup.harness.flush()
    failed, kept = (setup.b, setup.a) if of == "target" else (setup.a, setup.b)
    setup.request(0, setup.b)
    failed._files = failed.futures._files = files
    await setup.run()
    assert (failed.offline is None, kept.offline) == (False, None)
    assert setup.harness.directories.holding(TopicPartition("t", 0)) is kept
    assert partition.open_leader().log.log_end_offset == 3
    data = batch_bytes(1)
    partition.open_leader().append(memoryview(data), [view_of(data)])
    if crashes:
        partition.log.flush()
        for directory in (setup.a, setup.b):
            directory.close(broker_epoch=None)
        directories = LogDirectories(
            [LogDirectory(directory.path) for directory in (setup.a, setup.b)]
        )
        await setup.settle(directories)
        [found] = [directory for directory in directories.all if ("t", 0) in directory]
        assert found.path == kept.path
        assert found.open_log(TopicPartition("t", 0), LogConfig()).log_end_offset == 4


async def test_deleted_topics_move_is_not_shown_for_namesake(
    tmp_path,
):
    setup = Moves(tmp_path)
    setup.request(0, setup.b)
    setup.harness.set_image()
    setup.harness.set_image(TopicImage("t", b"anew" * 4, Map({0: partition_image()})))
    assert setup.moves.of(setup.harness.partitions.find(TopicPartition("t", 0))) is None
    await setup.run(and_until=lambda: not list(setup.b.futures))
    assert not futures_of(setup.b)


def twins_of(setup):
    """Creates `t-0` in `a` with three records, and in `b` with one more batch, as Kafka briefly leaves it during a
    swap.
    """
    partition = setup.harness.partitions.find(TopicPartition("t", 0))
    twin = setup.b.create_log(TopicPartition("t", 0), partition.topic_id, LogConfig())
    twin.append_as_follower(memoryview(partition.log.read_bytes(0, 1 << 20, upto_offset=3)))
    data = batch_bytes(1, base_offset=3)
    twin.append_as_follower(memoryview(data))
    for directory in (setup.a, setup.b):
        directory.close(broker_epoch=None)
    return LogDirectories([LogDirectory(directory.path) for directory in (setup.a, setup.b)])


async def test_twins_are_compared_in_thread(tmp_path, monkeypatch):
    setup = Moves(tmp_path)
    directories = twins_of(setup)
    opened = []
    open_log = PartitionLog.open

    def noting(*arguments, **options):
        opened.append(trio.lowlevel.in_trio_task())
        return open_log(*arguments, **options)

    monkeypatch.setattr(PartitionLog, "open", noting)
    await setup.settle(directories)
    kept = directories.holding(TopicPartition("t", 0))
    assert kept.path.name == "b"
    assert kept.open_log(TopicPartition("t", 0), LogConfig()).log_end_offset == 4
    assert opened == [False, False]


async def test_sound_twin_is_kept(tmp_path):
    setup = Moves(tmp_path)
    setup.harness.partitions.find(TopicPartition("t", 0)).log.flush()
    setup.a.save_checkpoints()
    directories = twins_of(setup)
    for segment in (setup.a.path / "t-0").glob("*.log"):
        segment.write_bytes(b"")
    await setup.settle(directories)
    assert [directory.path.name for directory in directories.all if ("t", 0) in directory] == ["b"]


async def test_replica_without_log_moves_at_once(tmp_path):
    """After the move, and after a restart, the controller's assignment is what `kafka-reassign-partitions --verify`
    reads.
    """
    setup = Moves(tmp_path)
    setup.harness.set_image(topic("t", partition_image(), partition_image()))
    placed = []
    directories = setup.harness.directories
    directories.on_placed = lambda *replica: placed.append(replica)
    setup.request(1, setup.b)
    untouched = setup.harness.partitions.find(TopicPartition("t", 1))
    assert placed == [((untouched.topic_id, 1), setup.b.directory_id)]
    assert directories.where(TopicPartition("t", 1), setup.a.directory_id) is setup.b
    assert untouched.open_log is None
    setup.harness.leader("t", 1)
    assert setup.holding()[1] == "b"


async def test_replica_possibly_in_failed_directory_does_not_move(tmp_path):
    setup = Moves(tmp_path)
    topics = topic("t", partition_image(), partition_image())
    setup.harness.partitions.begin_with(topics_image(topics))
    setup.harness.set_image(topics)
    setup.a.health.fail("the disk is gone")
    code = setup.moves.request(TopicPartition("t", 1), str(setup.b.path))
    assert code is ErrorCode.KAFKA_STORAGE_ERROR
    assert setup.harness.directories.preferred == {}


async def test_move_is_refused_when_disk_cannot_be_read(tmp_path, monkeypatch):
    """The response has the disk's error, not UNKNOWN_SERVER_ERROR."""
    setup = Moves(tmp_path)

    def fail(*_args, **_options):
        raise setup.b.health.fail("reading what was put aside: Input/output error")

    monkeypatch.setattr(Partition, "prefer", fail)
    partition = setup.harness.partitions.find(TopicPartition("t", 0))
    partition.release_log()
    setup.a.delete_log(TopicPartition("t", 0))
    code = setup.moves.request(TopicPartition("t", 0), str(setup.b.path))
    assert code is ErrorCode.KAFKA_STORAGE_ERROR
    assert setup.b.offline


async def test_throttled_copy_waits_for_its_rate(tmp_path, monkeypatch, autojump_clock):
    """A piece is copied; the next one follows when the rate is back at the limit."""

    async def at_once(step):  # a clock that jumps ahead does not wait for threads
        return step()

    monkeypatch.setattr(directory_moves, "run_blocking", at_once)
    setup = Moves(tmp_path, partitions=2)
    throttle = setup.harness.contexts.data.throttles.moves
    throttle.bound = len(batch_bytes(3)) / 4
    setup.request(0, setup.b)
    setup.request(1, setup.b)
    for seconds, expected in ((3.9, ["b", "a"]), (0.3, ["b", "b"])):
        with trio.move_on_after(seconds):
            await setup.moves.run()
        assert setup.holding() == expected


def batch_of(epoch, number):
    return batch_bytes(3, base_offset=3 * number, leader_epoch=epoch)


async def test_data_read_during_source_truncation_is_not_copied(tmp_path, monkeypatch):
    """A read that overlaps a truncation returns truncated records, followed by records that replaced them."""
    setup = Moves(tmp_path)
    source = setup.harness.partitions.find(TopicPartition("t", 0)).log
    for number in (1, 2):
        source.append_as_follower(memoryview(batch_of(0, number)))
    reads = []

    async def torn(step):
        result = step()
        if not reads and isinstance(result, bytes):
            source.truncate_to(3)
            for number in (1, 2):
                source.append_as_follower(memoryview(batch_of(1, number)))
            half = 2 * len(batch_of(0, 0))
            result = result[:half] + step()[half:]
            reads.append(result)
        return result

    monkeypatch.setattr(directory_moves, "run_blocking", torn)
    expected = batch_of(0, 0) + batch_of(1, 1) + batch_of(1, 2)
    setup.request(0, setup.b)
    await setup.run()
    assert reads
    assert setup.holding()[0] == "b"
    moved = setup.harness.partitions.find(TopicPartition("t", 0)).log
    assert moved.read_bytes(0, 1 << 20, upto_offset=9) == expected


@pytest.mark.parametrize("meanwhile", ["deleted", "made anew", "replaced"])
async def test_data_read_from_removed_log_is_not_copied(tmp_path, monkeypatch, meanwhile):
    setup = Moves(tmp_path)
    held = setup.harness.partitions.find(TopicPartition("t", 0))
    reads = []

    async def late(step):
        result = step()
        if not reads:
            reads.append(result)
            if meanwhile == "replaced":
                setup.harness.partitions.reopen([held])
            else:
                setup.harness.set_image()
            if meanwhile == "made anew":
                setup.harness.set_image(TopicImage("t", b"anew" * 4, Map({0: partition_image()})))
                data = batch_bytes(1)
                setup.harness.leader("t", 0).append(memoryview(data), [view_of(data)])
                setup.request(0, setup.b)
        return result

    monkeypatch.setattr(directory_moves, "run_blocking", late)
    setup.request(0, setup.b)
    is_done = {"deleted": lambda: not futures_of(setup.b)}
    await setup.run(and_until=is_done.get(meanwhile, lambda: setup.holding()[0] == "b"))
    if meanwhile != "deleted":
        end = 3 if meanwhile == "replaced" else 1
        assert setup.harness.partitions.find(TopicPartition("t", 0)).log.log_end_offset == end
    assert setup.holding()[0] == (None if meanwhile == "deleted" else "b")


def bases(log):
    return [int.from_bytes(batch[:8]) for batch in read_all(log)]


async def test_moved_log_keeps_end_behind_gap(tmp_path):
    """Apache Kafka's cleaner leaves no records of a segment that ends in tombstones."""
    setup = Moves(tmp_path)
    log = setup.harness.leader("t", 0).log
    data = batch_bytes(3)
    for _ in range(2):
        setup.harness.leader("t", 0).append(memoryview(data), [view_of(data)])
    log.roll(0)
    setup.harness.partitions.close()
    setup.a.close(broker_epoch=1)
    os.truncate(setup.a.path / "t-0" / f"{0:020}.log", len(data))
    for suffix in ("index", "timeindex"):
        (setup.a.path / "t-0" / f"{0:020}.{suffix}").unlink()
    for file in (setup.a.path / "t-0").glob("*.snapshot"):
        file.unlink()
    setup.start_again()
    assert setup.harness.leader().log.log_end_offset == 9
    setup.request(0, setup.b)
    await setup.run()
    assert setup.holding()[0] == "b"
    setup.harness.leader().append(memoryview(data), [view_of(data)])
    assert bases(setup.harness.leader().log) == [0, 9]
    for directory in (setup.a, setup.b):
        directory.close(broker_epoch=2)
    moved = LogDirectory(setup.b.path)
    assert bases(moved.open_log(TopicPartition("t", 0), LogConfig())) == [0, 9]
    moved.close(broker_epoch=None)
