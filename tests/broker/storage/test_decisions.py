"""The directory of a replica and the reports to the controller: all decisions in every state of three directories, as
in `testdata/decisions.txt` (`REWRITE_TRANSCRIPTS=1` writes it).
"""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tests.broker.storage.directories import T0, TOPIC_ID, Disks, id_of
from tests.datadriven import REWRITE
from tests.log.helpers import fill
from trimaran.broker.storage.directories import LogDirectories
from trimaran.broker.storage.new_replicas import Standing
from trimaran.log.config import LogConfig
from trimaran.log.disk.checkpoints import RECOVERY_POINTS, read_offsets
from trimaran.quorum.metadata.image import LOST_DIRECTORY, MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicPartition

DECISIONS = Path(__file__).parent / "testdata" / "decisions.txt"
NAMES = {id_of(name): name for name in "abc"} | {
    UNASSIGNED_DIRECTORY: "unassigned",
    MIGRATING_DIRECTORY: "migrating",
    LOST_DIRECTORY: "lost",
}


class Case:
    """One state: which directories hold the replica, are offline, were unreadable at the start, or are cordoned."""

    def __init__(self, disks: Disks, started: LogDirectories, offline: str) -> None:
        self.disks, self.started, self.offline = disks, started, offline
        self.placed: list[str] = []

    def fresh(self, cordoned: str = "") -> LogDirectories:
        """Returns a new process with the same directories."""
        for item in self.started.all:
            item.health.offline = "the disk is gone" if item.path.name in self.offline else None
        made = LogDirectories(self.started.all, failed_at_start=self.started.failed_at_start)
        made.on_placed = lambda _replica, directory: self.placed.append(NAMES[directory])
        made.cordoned = lambda: {self.disks.path / name for name in cordoned}
        return made

    def told(self) -> str:
        placed, self.placed = self.placed, []
        return f" tells {', '.join(placed)}" if placed else ""

    def claimed(self, assigned: bytes, standing: Standing) -> str:
        said = {}
        for may_begin_anew in (True, False):
            self.fresh().claim(T0, TOPIC_ID, assigned, standing, may_begin_anew=may_begin_anew)
            said[self.told() or " tells nothing"] = may_begin_anew
        return " and, not anew,".join(said)

    def refused(self, assigned: bytes, standing: Standing) -> str:
        """Refuses a replica twice; afterwards it is claimed, but lost by then."""
        directories = self.fresh()
        error = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "damaged")
        directories.refused(T0, TOPIC_ID, error, assigned, standing)
        first = self.told()
        directories.refused(T0, TOPIC_ID, error, assigned, standing)
        again = self.told()
        directories.claim(T0, TOPIC_ID, LOST_DIRECTORY, Standing.LAST, may_begin_anew=True)
        return f"{first or ' tells nothing'}, again{again or ' nothing'}, as last{self.told() or ' nothing'}"

    def opened(self, assigned: bytes, standing: Standing, cordoned: str) -> str:
        directories = self.fresh(cordoned)
        is_untouched = directories.is_untouched(T0, TOPIC_ID, assigned, standing)
        where = directories.where(T0, assigned)
        expected = "nowhere" if where is None else where.path.name
        made = not any(T0 in directory for directory in directories.online)
        try:
            directories.open_log(T0, TOPIC_ID, LogConfig(), assigned, standing).close(clean=False)
            found = directories.holding(T0)
            assert found is not None
            outcome = f"{'made' if made else 'opened'} in {found.path.name}"
            if made:
                directories.delete_log(T0, TOPIC_ID)
                assert directories.holding(T0) is not found
        except KafkaError as error:
            outcome = f"refused ({error.message.partition(' ')[2]})".replace(
                str(self.disks.path), ""
            )
        looked = "untouched" if is_untouched else "touched"
        return f"looked for in {expected}, {looked}: {outcome}{self.told()}"

    def lines(self) -> list[str]:
        found: dict[str, list[str]] = {}
        for assigned, standing in itertools.product(NAMES, Standing):
            who = f"{NAMES[assigned]}/{standing.value}"
            outcome = "\n".join(
                [
                    f"  open: {self.opened(assigned, standing, '')}",
                    f"  claim:{self.claimed(assigned, standing)}",
                    f"  refuse:{self.refused(assigned, standing)}",
                ]
            )
            found.setdefault(outcome, []).append(who)
        return [f"{' '.join(who)}\n{outcome}" for outcome, who in found.items()]


def decisions(path: Path) -> str:
    told = []
    for held in ("", "a", "b", "ab"):
        disks = Disks(path / f"held-{held}")
        for name in held:
            disks.write(name, 2)
        for readable, offline in itertools.product(("abc", "ab", "a"), ("", "a", "b", "abc")):
            if offline == "b" and offline not in readable:
                continue
            case = Case(disks, disks.start(readable), offline)
            title = f"== held by {held or 'none'}, of {readable}"
            told += [title + (f" {offline} offline" if offline else ""), *case.lines(), ""]
            for directory in case.started.all:
                directory.health.offline = None
        disks.stop(clean=False)
    return "\n".join(told)


def test_decisions_match_the_table_in_every_state(tmp_path):
    actual = decisions(tmp_path)
    if REWRITE:
        DECISIONS.write_text(actual)
    assert actual == DECISIONS.read_text()


@pytest.mark.parametrize(
    ("cordoned", "assigned", "expected"),
    [
        ("", UNASSIGNED_DIRECTORY, "a"),
        ("a", UNASSIGNED_DIRECTORY, "b"),
        ("ab", UNASSIGNED_DIRECTORY, "c"),
        ("abc", UNASSIGNED_DIRECTORY, "a"),
        ("ab", id_of("b"), "b"),
    ],
)
def test_new_replica_avoids_unassigned_cordoned_directories(tmp_path, cordoned, assigned, expected):
    disks = Disks(tmp_path)
    case = Case(disks, disks.start(), "")
    assert f"made in {expected}" in case.opened(assigned, Standing.NEW, cordoned)
    disks.stop(clean=False)


async def test_recovery_points_are_lowered_per_directory(tmp_path):
    disks = Disks(tmp_path)
    directories = disks.start("ab")
    for name, topic in (("a", "t"), ("b", "u")):
        log = directories.at(str(tmp_path / name)).create_log(
            TopicPartition(topic, 0), TOPIC_ID, LogConfig()
        )
        fill(log, 2).flush()
    await directories.save_checkpoints({})
    before = [read_offsets(tmp_path / name / RECOVERY_POINTS) for name in "ab"]
    await directories.lower_recovery_points({("t", 0): 3, ("u", 0): 4, ("none", 0): 1})
    after = [read_offsets(tmp_path / name / RECOVERY_POINTS) for name in "ab"]
    disks.stop(clean=False)
    assert before == [{("t", 0): 6}, {("u", 0): 6}]
    assert after == [{("t", 0): 3}, {("u", 0): 4}]


def test_only_unclean_logs_are_checked_before_opening(tmp_path):
    disks = Disks(tmp_path)
    disks.write("b", 2)
    crashed = disks.start()
    assert [
        crashed.must_check(TopicPartition("t", 0)),
        crashed.must_check(TopicPartition("none", 0)),
    ] == [True, False]
    crashed.open_log(T0, TOPIC_ID, LogConfig())
    disks.stop(clean=True)
    assert not disks.start().must_check(TopicPartition("t", 0))
    disks.stop(clean=False)
