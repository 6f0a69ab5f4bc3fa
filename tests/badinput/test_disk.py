"""mD7: a full disk under running nodes: they exit and log the reason, and acknowledged records remain."""

import contextlib
import json
import os
import resource
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.badinput.made import made
from tests.badinput.nodes import PEERS, cli, create_topic, running_cluster
from tests.badinput.peer import ask, codes
from tests.badinput.test_records import batch, request
from tests.cluster.processes import until
from trimaran.log.batches.batch import iter_batches
from trimaran.log.batches.records import NewRecord
from trimaran.node.runtime.clock import now_ms
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.api_versions import ApiVersionsRequest
from trimaran.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from trimaran.wire.messages.metadata import MetadataRequest

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.skipif(PEERS is not None, reason="about our own processes"),
]

TOPIC = "kept"


@pytest.fixture
def own(tmp_path):
    """Yields a cluster whose processes a test may kill."""
    with running_cluster(tmp_path / "c") as cluster:
        cluster.create(TOPIC)
        yield cluster


def produce_until_refused(broker, size=3000) -> tuple[dict[int, bytes], set[str]]:
    """Returns acknowledged values by offset, and the codes of the first refusal (`closed` if the connection ended
    instead).
    """
    acknowledged: dict[int, bytes] = {}
    for number in range(5000):
        value = str(number).encode().ljust(size, b".")
        data = batch(NewRecord(b"k", value, now_ms()))
        try:
            response = ask(broker.address, request(data, topic=TOPIC), 9)
        except OSError:
            return acknowledged, {"closed"}
        found = codes(response)
        if found != {"NONE"}:
            return acknowledged, found
        (partition,) = response.responses[0].partition_responses
        acknowledged[partition.base_offset] = value
    raise AssertionError("the disk took everything")


def read(address, count: int) -> list[int]:
    """Returns the offsets of the batches (one record each) from the start on; repeats the request until `count` are
    served or the time is up.
    """
    found: list[int] = []
    deadline = time.monotonic() + 20
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} are served"
        partition = made(FetchPartition, 12, fetch_offset=len(found), partition_max_bytes=1 << 20)
        topics = [FetchTopic(topic=TOPIC, partitions=[partition])]
        asked = made(FetchRequest, 12, topics=topics, max_bytes=1 << 20, min_bytes=1)
        asked.max_wait_ms = 100
        (answer,) = ask(address, asked, 12).responses[0].partitions
        if answer.error_code == 0 and answer.records:
            found += [
                each_batch.base_offset
                for each_batch in iter_batches(memoryview(bytes(answer.records)))
            ]
    return found


def states(cluster) -> dict[str, str]:
    told = json.loads(cli("ps", "-o", "json", "--data", str(cluster.data)).stdout)
    return {node["name"]: node["state"] for node in told["nodes"]}


def wait_dead(node) -> None:
    """Returns when the process has ended."""
    with contextlib.suppress(ProcessLookupError, ChildProcessError):
        descriptor = os.pidfd_open(node.pid)
        try:
            assert select.select([descriptor], [], [], 30)[0], "it lives on"
        finally:
            os.close(descriptor)


def last_words(node) -> list[str]:
    lines = node.said()
    assert not [line for line in lines if "Traceback" in line], "\n".join(lines)
    return lines[-3:]


def restarted(cluster, node) -> None:
    """Returns when the node listens, which is a moment after its start."""
    told = cli("chaos", "restart", str(node.id), "--data", str(cluster.data))
    assert told.returncode == 0, told.stderr
    until(lambda: _listens(node.address), f"{node.address} listens")


def _listens(address) -> bool:
    try:
        return ask(address, ApiVersionsRequest(), 0) is not None
    except OSError:
        return False


def segment(node) -> bytes:
    (log,) = (node.directory / f"{TOPIC}-0").glob("*.log")
    return log.read_bytes()


def test_broker_exits_at_file_size_limit(own):
    """The kernel refuses bytes beyond a limit, even in the middle of a write; without the limit all acknowledged
    records are readable.
    """
    limit = 200_000
    resource.prlimit(own.broker.pid, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    acknowledged, refusal = produce_until_refused(own.broker)
    assert len(acknowledged) > 30
    assert refusal <= {"KAFKA_STORAGE_ERROR", "NOT_LEADER_OR_FOLLOWER", "closed"}
    wait_dead(own.broker)
    words = last_words(own.broker)
    assert "log directory" in words[0]
    assert "File too large" in words[1]
    assert states(own)["broker-11"] == "dead"
    own.controller.assert_serves()
    before = segment(own.broker)
    restarted(own, own.broker)
    kept = read(own.broker.address, len(acknowledged))
    assert kept[: len(acknowledged)] == sorted(acknowledged)
    after = segment(own.broker)
    assert after == before[: len(after)]
    assert all(value in after for value in acknowledged.values())


def test_broker_survives_repeated_full_disk(own):
    """A broker that is started while the limit remains exits again, and changes no acknowledged record."""
    resource.prlimit(own.broker.pid, resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
    acknowledged, _ = produce_until_refused(own.broker)
    wait_dead(own.broker)
    file = own.data / "broker-11.properties"
    before = segment(own.broker)
    for _ in range(2):
        done = subprocess.run(
            ["prlimit", "--fsize=0", *_command("broker", "start", "-c", str(file))],
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )
        assert done.returncode == 1, done.stderr
        assert "Traceback" not in done.stderr
        assert done.stderr.rstrip().splitlines()[-3].startswith("error: ")
        after = segment(own.broker)
        assert after == before[: len(after)]
        for value in acknowledged.values():
            assert value in after
    restarted(own, own.broker)
    kept = read(own.broker.address, len(acknowledged))
    assert kept[: len(acknowledged)] == sorted(acknowledged)


def _command(*words: str) -> list[str]:
    return [sys.executable, "-m", "trimaran", *words]


def test_controller_exits_at_file_size_limit(own):
    log = own.controller.directory / "__cluster_metadata-0" / f"{0:020}.log"
    limit = log.stat().st_size + 4000
    resource.prlimit(own.controller.pid, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    made_topics = []
    for number in range(200):
        # A broker would wait for the next controller until the request's time is up.
        try:
            code = create_topic(own.controller, f"topic-{number}")
        except OSError:
            break
        if code == ErrorCode.NOT_CONTROLLER:  # resigned before the exit
            break
        assert code == 0
        made_topics.append(f"topic-{number}")
    wait_dead(own.controller)
    words = last_words(own.controller)
    assert "log directory" in words[0]
    assert "File too large" in words[1]
    restarted(own, own.controller)
    restarted(own, own.broker)
    listed = {t.name for t in ask(own.broker.address, MetadataRequest(topics=None), 1).topics}
    assert made_topics
    assert set(made_topics) <= listed


@pytest.fixture
def small_disk(tmp_path):
    place = tmp_path / "disk"
    place.mkdir()
    if shutil.which("mount") is None:
        pytest.skip("there is no mount")
    command = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(place)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("a small file system can be mounted by root only")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_cluster_on_full_disk_keeps_acknowledged_records(small_disk):
    """ENOSPC for all nodes: they exit. Once space is free again, the cluster starts with all acknowledged records."""
    data = small_disk / "c"
    with running_cluster(data) as cluster:
        cluster.create(TOPIC)
        filler = small_disk / "filler"
        _fill(small_disk, filler, leave=200_000)
        acknowledged, _ = produce_until_refused(cluster.broker)
        assert acknowledged
        wait_dead(cluster.broker)
        assert "No space left" in last_words(cluster.broker)[1]
        filler.unlink()
        assert cli("down", "--data", str(data)).returncode == 0
        up = cli("up", "-d", "--data", str(data))
        assert up.returncode == 0, up.stderr
        kept = read(cluster.broker.address, len(acknowledged))
        assert kept[: len(acknowledged)] == sorted(acknowledged)


def _fill(place: Path, filler: Path, *, leave: int) -> None:
    free = os.statvfs(place)
    with filler.open("wb") as file:
        file.write(bytes(free.f_bavail * free.f_frsize - leave))
