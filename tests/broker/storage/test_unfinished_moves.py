"""P21: leftovers of moves between log directories after a crash, whichever of them can be read at the next start."""

from __future__ import annotations

import shutil
import uuid

import pytest
from immutables import Map

from tests.broker.storage.directories import (
    NODE_ID,
    OTHER_ID,
    T0,
    TOPIC_ID,
    Disks,
    id_of,
    image,
)
from tests.log.helpers import batch_bytes
from trimaran.broker.storage.unfinished_moves import finish_moves
from trimaran.log.config import LogConfig
from trimaran.log.directories.directory import LogDirectory
from trimaran.log.partitions.names import DELETE_SUFFIX, FUTURE_SUFFIX, STRAY_SUFFIX
from trimaran.quorum.metadata.image import LOST_DIRECTORY, UNASSIGNED_DIRECTORY, TopicsImage
from trimaran.wire.errors import KafkaError
from trimaran.wire.identity import TopicPartition

RECORDS = 30
LED_ELSEWHERE = {
    "replicas": (NODE_ID, 12),
    "directories": (id_of("c"), id_of("x")),
    "isr": (12,),
    "leader": 12,
}


@pytest.fixture
def disks(tmp_path):
    disks = Disks(tmp_path)
    yield disks
    disks.stop(clean=False)


async def start(disks, topics, names="abc"):
    directories = disks.start(names)
    await finish_moves(directories, topics, NODE_ID)
    return directories


def end_in(directories):
    """Returns the replica's directory and its end offset."""
    log = directories.open_log(T0, TOPIC_ID, LogConfig(), id_of("a"))
    return directories.holding(T0).path.name, log.log_end_offset


def leave_copy_alone(disks):
    """Leaves the state of an older release that crashed inside the swap: the source has been renamed, the copy
    has not.
    """
    disks.write("a", 10)
    shutil.copytree(disks.path / "a" / "t-0", disks.path / "b" / "t-0")
    return disks.rename("a", DELETE_SUFFIX), disks.rename("b", FUTURE_SUFFIX)


@pytest.mark.parametrize("names", ["abc", "ab"])
async def test_complete_copy_takes_the_name(disks, names):
    deleted, _ = leave_copy_alone(disks)
    directories = await start(disks, image(id_of("a")), names)
    assert end_in(directories) == ("b", RECORDS)
    await directories.purge()
    assert not deleted.exists(), "the source, of which the copy has everything"


async def test_remaining_source_stays_while_copy_is_away(disks):
    """The copy comes back with its disk; until then no replica is created in its place, nor is the source removed."""
    deleted, _ = leave_copy_alone(disks)
    directories = await start(disks, image(id_of("a")), "ac")
    with pytest.raises(KafkaError, match=DELETE_SUFFIX):
        end_in(directories)
    await directories.purge()
    assert (deleted / "partition.metadata").exists()
    directories = await start(disks, image(id_of("a")))
    assert end_in(directories) == ("b", RECORDS)


@pytest.mark.parametrize("assigned", [id_of("c"), LOST_DIRECTORY, UNASSIGNED_DIRECTORY])
async def test_possibly_partial_copy_waits_for_its_source(disks, assigned):
    disks.write("b", 10)
    copy = disks.rename("b", FUTURE_SUFFIX)
    directories = await start(disks, image(assigned), "ab")
    with pytest.raises(KafkaError, match=FUTURE_SUFFIX):
        end_in(directories)
    assert copy.exists()


@pytest.mark.parametrize("assigned", [id_of("z"), LOST_DIRECTORY])
async def test_copy_without_source_may_be_partial(disks, assigned):
    disks.write("b", 10)
    copy = disks.rename("b", FUTURE_SUFFIX)
    await start(disks, image(assigned))
    assert copy.exists()


async def test_partial_copy_is_used_with_other_replicas(disks):
    disks.write("b", 10)
    disks.rename("b", FUTURE_SUFFIX)
    directories = await start(disks, image(**LED_ELSEWHERE), "ab")
    assert end_in(directories) == ("b", RECORDS)


@pytest.mark.parametrize(
    "topics", [image(topic_id=OTHER_ID), TopicsImage(), image(isr=(12,), replicas=(12,))]
)
async def test_unwanted_copy_takes_no_name(disks, topics):
    disks.write("b", 10)
    disks.rename("b", FUTURE_SUFFIX)
    directories = await start(disks, topics)
    assert directories.holding(T0) is None


@pytest.mark.parametrize("ours", ["a", "b"])
@pytest.mark.parametrize("batches", [1, 20])
async def test_twin_of_right_topic_id_wins(disks, ours, batches):
    """A3: the other copy is put aside, whole."""
    other = "b" if ours == "a" else "a"
    disks.write(ours, 10)
    disks.write(other, batches, OTHER_ID)
    directories = await start(disks, image(id_of("c")))
    assert end_in(directories) == (ours, RECORDS)
    [stray] = (disks.path / other).glob(f"*{STRAY_SUFFIX}")
    assert (stray / f"{0:020d}.log").stat().st_size


async def test_twins_of_unknown_topic_both_stay(disks):
    """Both twins are strays, like everything that is not assigned: neither is preferred."""
    disks.write("a", 10)
    disks.write("b", 20, OTHER_ID)
    directories = await start(disks, TopicsImage())
    assert [T0 in directory for directory in directories.all] == [True, True, False]


async def test_two_matching_twins_of_three_are_compared(disks):
    disks.write("a", 30, OTHER_ID)
    disks.write("b", 10)
    disks.write("c", 11)
    directories = await start(disks, image())
    assert end_in(directories) == ("c", 33)
    assert [T0 in directory for directory in directories.all] == [False, False, True]


@pytest.mark.parametrize("assigned", ["a", "b"])
async def test_equal_twins_are_settled_by_controller(disks, assigned):
    disks.write("a", 10)
    shutil.copytree(disks.path / "a" / "t-0", disks.path / "b" / "t-0")
    directories = await start(disks, image(id_of(assigned)))
    assert [T0 in directory for directory in directories.all] == [
        assigned == letter for letter in "abc"
    ]


async def test_older_epoch_loses_even_if_longer(disks):
    """The source was offline while the copy was truncated and continued."""
    disks.write("a", 20)
    disks.write("b", 10)
    directory = LogDirectory(disks.path / "b")
    log = directory.open_log(TopicPartition("t", 0), LogConfig())
    log.append_as_follower(memoryview(batch_bytes(1, base_offset=RECORDS, leader_epoch=5)))
    log.flush()
    directory.close(broker_epoch=1)
    directories = await start(disks, image(id_of("a")))
    assert end_in(directories) == ("b", RECORDS + 1)


async def test_deletion_ordered_by_controller_continues(disks):
    disks.write("a", 10)
    disks.start().delete_log(T0, TOPIC_ID)
    directories = await start(disks, image(id_of("a")))
    await directories.purge()
    assert not list((disks.path / "a").glob("t-0*"))


@pytest.mark.parametrize("name", ["t" * 249, "t" * 200])
async def test_truncated_name_is_identified_by_topic_id(disks, name):
    disks.write("a", 10)
    cut = name[: 255 - len(f"-0.{uuid.uuid4().hex}{DELETE_SUFFIX}")]
    deleted = disks.path / "a" / f"{cut}-0.{uuid.uuid4().hex}{DELETE_SUFFIX}"
    (disks.path / "a" / "t-0").rename(deleted)
    topic = image(id_of("a")).by_name["t"]._replace(name=name)
    topics = TopicsImage(by_name=Map({name: topic}), by_id=Map({TOPIC_ID: topic}))
    directories = await start(disks, topics)
    await directories.purge()
    with pytest.raises(KafkaError, match=str(deleted)):
        directories.open_log(TopicPartition(name, 0), TOPIC_ID, LogConfig(), id_of("a"))


@pytest.mark.parametrize(
    ("topics", "is_kept"),
    [
        (image(), True),
        (image(isr=(12,), replicas=(NODE_ID, 12), elr=(NODE_ID,)), True),
        (image(**LED_ELSEWHERE), False),
        (image(isr=(12,), replicas=(12,)), False),
        (image(topic_id=OTHER_ID), False),
        (TopicsImage(), False),
    ],
)
@pytest.mark.parametrize("is_there", [False, True])
async def test_removal_is_postponed_for_possible_last_copy(disks, topics, is_kept, is_there):
    disks.write("b", 10)
    left = disks.rename("b", DELETE_SUFFIX)
    if is_there:
        disks.write("a", 10)
    directories = await start(disks, topics)
    await directories.purge(0)
    assert left.exists() == (is_kept and not is_there)


async def test_copies_of_nonexistent_partition_are_removed(disks):
    disks.write("b", 10)
    for name, suffix in (("b", DELETE_SUFFIX), ("b", FUTURE_SUFFIX)):
        left = disks.path / name / f"t-1.{uuid.uuid4().hex}{suffix}"
        shutil.copytree(disks.path / "b" / "t-0", left)
    directories = await start(disks, image())
    await directories.purge(0)
    assert [directories.holding(TopicPartition("t", index)) is not None for index in (0, 1)] == [
        True,
        False,
    ]
    assert list(directories.all[1].futures) == [("t", 1)]
    assert not list((disks.path / "b").glob(f"t-1*{DELETE_SUFFIX}"))


async def test_longest_of_three_twins_wins(disks, caplog):
    for name, batches in zip("abc", (2, 5, 3), strict=True):
        disks.write(name, batches)
    directories = await start(disks, image(id_of("a")))
    assert end_in(directories) == ("b", 15)
    assert [T0 in directory for directory in directories.all] == [False, True, False]
    told = [record.getMessage() for record in caplog.records]
    assert [str(disks.path / name) in line for name, line in zip("ac", told, strict=True)] == [
        True,
        True,
    ]


async def test_twins_are_settled_in_name_order(disks, monkeypatch):
    names = {("b", 10), ("a", 2), ("b", 9), ("c", 0), ("a", 11)}
    monkeypatch.setattr(LogDirectory, "partitions", lambda _directory: names)
    settled = []

    async def settle(_moves, key):
        settled.append(key)

    monkeypatch.setattr("trimaran.broker.storage.unfinished_moves._Moves._resolve_twins", settle)
    await start(disks, image(), "ab")
    assert settled == [("a", 2), ("a", 11), ("b", 9), ("b", 10), ("c", 0)]
