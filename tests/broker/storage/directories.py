"""Log directories of one broker, and their content."""

from __future__ import annotations

import uuid
from pathlib import Path

from immutables import Map

from tests.cluster.nodes import CLUSTER_ID
from tests.log.helpers import fill
from trimaran.broker.storage.directories import LogDirectories
from trimaran.log.config import LogConfig
from trimaran.log.directories.directory import LogDirectory
from trimaran.log.directories.meta_properties import MetaProperties
from trimaran.log.disk.files import REAL_FILES, Files
from trimaran.quorum.metadata.image import (
    UNASSIGNED_DIRECTORY,
    PartitionImage,
    TopicImage,
    TopicsImage,
)
from trimaran.wire.identity import TopicPartition

NODE_ID = 11
TOPIC_ID, OTHER_ID = b"this" * 4, b"other" * 3 + b"!"
T0 = TopicPartition("t", 0)


class Disks:
    """Directories `a`, `b` and `c`; a process opens those that it is given."""

    def __init__(self, path: Path) -> None:
        self.path = path
        for number, name in enumerate("abc"):
            (path / name).mkdir(parents=True)
            MetaProperties(CLUSTER_ID, NODE_ID, id_of("abc"[number])).save(path / name)
        self._open: LogDirectories | None = None

    def start(self, names: str = "abc", files: Files = REAL_FILES) -> LogDirectories:
        """Starts a process that can read the directories `names`; its predecessor has died."""
        self.stop(clean=False)
        opened = [LogDirectory(self.path / name, files=files) for name in names]
        unread = {self.path / name: "gone" for name in "abc" if name not in names}
        self._open = LogDirectories(opened, failed_at_start=unread)
        return self._open

    def stop(self, *, clean: bool = True, high_watermarks=None) -> None:
        if self._open is not None:
            epoch = 1 if clean else None
            self._open.close(broker_epoch=epoch, high_watermarks=high_watermarks or {})
        self._open = None

    def write(self, name: str, batches: int, topic_id: bytes = TOPIC_ID) -> Path:
        """Creates `t-0` in a directory, with this many batches of three records, flushed."""
        directory = LogDirectory(self.path / name)
        fill(directory.create_log(TopicPartition("t", 0), topic_id, LogConfig()), batches).flush()
        directory.close(broker_epoch=None)
        return self.path / name / "t-0"

    def rename(self, name: str, suffix: str) -> Path:
        """Renames `t-0` in a directory."""
        to = self.path / name / f"t-0.{uuid.uuid4().hex}{suffix}"
        (self.path / name / "t-0").rename(to)
        return to


def id_of(name: str) -> bytes:
    return name.encode() * 16


def image(
    assigned: bytes = UNASSIGNED_DIRECTORY,
    topic_id: bytes = TOPIC_ID,
    **changes,
) -> TopicsImage:
    """Returns topic `t` with one partition; unless `changes` differ, this broker has its only replica."""
    state = PartitionImage(
        **{
            "replicas": (NODE_ID,),
            "directories": (assigned,),
            "isr": (NODE_ID,),
            "leader": NODE_ID,
            **changes,
        }
    )
    topic = TopicImage("t", topic_id, Map({0: state}))
    return TopicsImage(by_name=Map({"t": topic}), by_id=Map({topic_id: topic}))
