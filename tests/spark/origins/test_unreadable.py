"""Directories and files without permissions, and object stores without credentials: one line names the file, the reason
and the user; failOnDataLoss=false reads the rest.
"""

import os
import pwd
import tempfile
from contextlib import contextmanager
from pathlib import Path

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from tests.checks import check_each
from tests.spark.directories import (
    checkpoint,
    data_batches,
    make_node,
    next_offset,
    write_partition,
)
from tests.spark.kafka_log.test_reading import read
from trimaran.spark.data_source.tracebacks import without_frames
from trimaran.spark.kafka_log.options import LogOptions
from trimaran.spark.kafka_log.source import LogReader
from trimaran.spark.origins.origin import DataUnreadable

BATCHES = data_batches(12)
END = next_offset(BATCHES)
NOBODY = pwd.getpwnam("nobody")
EACH = list(range(END))


@contextmanager
def as_nobody():
    """Runs as a user without privileges, since root may read everything."""
    if os.geteuid():
        yield
        return
    os.seteuid(NOBODY.pw_uid)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def root():
    """Two nodes in a folder that every user may enter."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        path.chmod(0o755)
        for node_id, topics in ((1, "tu"), (2, "v")):
            node = make_node(path, node_id)
            for topic in topics:
                write_partition(node, topic, 0, BATCHES, segment_bytes=1000)
            checkpoint(node, {(topic, 0): END for topic in topics})
        yield path


def topics(root, **options):
    found = read(root, columns=("topic", "offset"), **options)
    return {t: [r["offset"] for r in found if r["topic"] == t] for t in {r["topic"] for r in found}}


def segment(directory):
    return sorted(directory.glob("*.log"))[1]


WHOLE = dict.fromkeys("tuv", EACH)
# the path without permissions, its mode, and what can still be read
CASES = {
    "a node's directory": (lambda root: root / "node-1", 0, {"v": EACH}),
    "a node's directory that shows its names": (lambda root: root / "node-1", 0o444, {"v": EACH}),
    "a partition's directory": (lambda root: root / "node-1/t-0", 0, {"u": EACH, "v": EACH}),
    "a partition's that shows its names": (lambda root: root / "node-1/t-0", 0o444, {"u": EACH, "v": EACH}),
    "a segment": (lambda root: segment(root / "node-1/t-0"), 0, None),
    "the last segment": (lambda root: max((root / "node-1/t-0").glob("*.log")), 0, {"u": EACH, "v": EACH}),
    "meta.properties": (lambda root: root / "node-1/meta.properties", 0, {"v": EACH}),
    "the high watermarks": (lambda root: root / "node-1/replication-offset-checkpoint", 0, {"v": EACH}),
    "the epochs": (lambda root: root / "node-1/t-0/leader-epoch-checkpoint", 0, {"u": EACH, "v": EACH}),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_unreadable_path_is_named_or_omitted(root, caplog, case):
    place, mode, left = CASES[case]
    path = place(root)
    told = rf"{path}.* cannot be read: Permission denied"
    path.chmod(mode)
    try:
        with as_nobody():
            with pytest.raises(DataUnreadable, match=told) as raised:
                topics(root)
            found = topics(root, failOnDataLoss="false")
    finally:
        path.chmod(0o755)
    assert "\n" not in str(raised.value)
    assert "failOnDataLoss=false gives what there is" in str(raised.value)
    assert "left out" in caplog.text
    if left is None:  # without the records of one segment
        assert 0 < len(found.pop("t")) < END
        left = {"u": EACH, "v": EACH}
    assert found == left


def test_user_without_rights_is_named(root):
    (root / "node-1/t-0").chmod(0)
    user = NOBODY if not os.geteuid() else pwd.getpwuid(os.geteuid())
    with as_nobody(), pytest.raises(DataUnreadable, match=rf"{user.pw_name} \(uid {user.pw_uid}\)"):
        topics(root)
    (root / "node-1/t-0").chmod(0o755)


def test_directory_without_rights_alone_is_refused(root):
    places = (root / "node-1", root / "node-1/t-0", segment(root / "node-1/t-0"))
    (root / "node-1").chmod(0)
    try:
        with as_nobody():
            for place in places:
                for fail in ("true", "false"):
                    with pytest.raises(DataUnreadable):
                        topics(place, failOnDataLoss=fail)
    finally:
        (root / "node-1").chmod(0o755)


def topics_of_level(root, level, **options):
    parsed = LogOptions.parse({"path": str(root), "level": level, **options})
    reader = LogReader(parsed, ("topic",))
    batches = [batch for task in reader.partitions() for batch in reader.read(task)]
    return {row["topic"] for batch in batches for row in batch.to_pylist()}


@pytest.mark.parametrize("level", ["records", "batches", "segments"])
def test_levels_name_an_unreadable_segment(root, caplog, level):
    path = segment(root / "node-1/t-0")
    path.chmod(0)
    with as_nobody():
        with pytest.raises(DataUnreadable, match=f"{path} cannot be read: Permission denied"):
            topics_of_level(root, level)
        found = topics_of_level(root, level, failOnDataLoss="false")
    assert found == {"t", "u", "v"}
    assert f"left out: {path} cannot be read" in caplog.text


class WithoutCredentials(MemoryFileSystem):
    """An object store whose driver finds no credentials, and raises an error of its own."""

    protocol = "locked"
    cachable = False

    def ls(self, path, detail=True, **kwargs):
        raise RuntimeError("Unable to locate credentials")

    info = ls


def test_store_without_credentials_is_named(caplog):
    fsspec.register_implementation("locked", WithoutCredentials, clobber=True)
    told = "locked://.*bucket/kafka cannot be read: RuntimeError: Unable to locate credentials"
    with pytest.raises(DataUnreadable, match=told):
        read("locked://bucket/kafka", columns=("topic",))
    with pytest.raises(DataUnreadable, match="no log directory"):
        read("locked://bucket/kafka", columns=("topic",), failOnDataLoss="false")
    assert "Unable to locate credentials" in caplog.text


def test_errors_of_files_have_no_traceback():
    """Spark shows the traceback of every other exception of a worker."""
    errors = [
        (
            PermissionError(13, "Permission denied", "/x"),
            "/x cannot be read: Permission denied for",
        ),
        (OSError(5, "Input/output error", "/x"), "/x cannot be read: Input/output error"),
        (PermissionError("Access Denied"), "a file cannot be read: Access Denied for"),
    ]

    def is_unreadable(row):
        error, told = row
        with pytest.raises(DataUnreadable, match=told) as raised, without_frames():
            raise error
        assert raised.value.__suppress_context__

    check_each(errors, is_unreadable)
