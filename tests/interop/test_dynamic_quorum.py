"""Dynamic quorums (KIP-853) with Apache Kafka 4.4: its tools change our voters, each side opens the other's
directories, and both vote together.
"""

import re
import signal

import pytest

from tests.cluster.processes import LocalCluster, until
from tests.interop import apache_kafka
from tests.interop.controllers import Controllers, controllers
from trimaran.quorum.formatting.storage import read_bootstrap


def test_kafkas_tool_adds_and_removes_our_controllers(tmp_path):
    with controllers(tmp_path, {1: "ours", 2: "ours"}) as quorum:
        quorum.format(1, "--standalone")
        quorum.format(2, "--no-initial-controllers", by="kafka")
        for i in (1, 2):
            quorum.start(i)
        quorum.until(lambda s: s is not None and len(s["replicas"]) == 2)
        assert quorum.voters() == {1}
        quorum.tool("--command-config", str(quorum.file(2)), "add-controller")
        assert quorum.voters() == {1, 2}
        directory = re.search(
            r"directory.id=(\S+)", (quorum.directory(1) / "meta.properties").read_text()
        ).group(1)
        quorum.tool(
            "remove-controller", "--controller-id", "1", "--controller-directory-id", directory
        )
        quorum.until(lambda s: s is not None and s["leader_id"] == 2)
        assert quorum.voters() == {2}


@pytest.mark.parametrize(("first", "then"), [("kafka", "ours"), ("ours", "kafka")])
def test_each_continues_on_the_others_directory(tmp_path, first, then):
    with controllers(tmp_path, {1: first}) as quorum:
        quorum.format(1, "--standalone")
        quorum.start(1)
        before = quorum.until(lambda s: s is not None and s["high_watermark"] > 5)
        quorum.kill(1, signal.SIGTERM)
        kept = quorum.log(1)
        quorum.kinds[1] = then
        quorum.start(1)
        after = quorum.until(
            lambda s: s is not None and s["high_watermark"] > before["high_watermark"]
        )
        assert after["leader_epoch"] > before["leader_epoch"]
        assert quorum.voters() == {1}
        quorum.kill(1, signal.SIGTERM)
        assert quorum.log(1).startswith(kept)


def test_formats_of_both_differ_only_in_places(tmp_path):
    """Kafka 4.4 has the first levels in the snapshot of the voters. Ours are in `bootstrap.checkpoint`, where Kafka 3.9
    to 4.4 find them.
    """
    voters, levels = {}, {}
    for kind in ("ours", "kafka"):
        (tmp_path / kind).mkdir()
        quorum = Controllers(tmp_path / kind, {1: kind})
        quorum.ports = {1: 29093}
        quorum.directory_ids = {1: "JEXY6aqzQY-32P5TStzaFg"}
        quorum.format(1, "--initial-controllers", quorum.initial)
        (path,) = quorum.directory(1).glob("__cluster_metadata-0/*.checkpoint")
        text = apache_kafka.tool(
            "dump-log", "--cluster-metadata-decoder", "--files", str(path)
        ).stdout
        voters[kind] = re.findall(r"(?:KRaftVersion|KRaftVoters) (\{.*\})", text)
        found = read_bootstrap(quorum.directory(1))
        levels[kind] = {record.name: record.feature_level for record in found}
    assert voters["ours"] == voters["kafka"]
    assert len(voters["ours"]) == 2
    assert levels["ours"] == levels["kafka"]


@pytest.mark.parametrize("kinds", [("ours", "ours", "kafka"), ("ours", "kafka", "kafka")])
def test_both_kinds_vote_in_one_quorum(tmp_path, kinds):
    """Each leader is killed in turn. Committed records must be in every log, byte by byte, whichever node succeeds."""
    with controllers(tmp_path, dict(enumerate(kinds, 1))) as quorum:
        for i in quorum.kinds:
            quorum.format(i, "--initial-controllers", quorum.initial, by="ours")
            quorum.start(i)
        led = set()
        status = quorum.until(lambda s: s is not None and s["high_watermark"] > 5)
        for _ in range(3):
            leader, reached = status["leader_id"], status["high_watermark"]
            led.add(leader)
            quorum.kill(leader)
            quorum.until(
                lambda s, gone=leader, end=reached: (
                    s is not None and s["leader_id"] != gone and s["high_watermark"] > end
                )
            )
            quorum.start(leader)
            status = quorum.until(_all_caught_up)
        assert quorum.voters() == {1, 2, 3}
        quorum.stop()
        logs = [quorum.log(i) for i in quorum.kinds]
        shortest = min(map(len, logs))
        assert all(log[:shortest] == logs[0][:shortest] for log in logs)
        assert shortest > 1000


def _all_caught_up(status):
    return status is not None and all(
        0 <= replica["lag"] < 5 and replica["log_end_offset"] >= 0 for replica in status["replicas"]
    )


def test_kafkas_tool_changes_voters_through_our_brokers(tmp_path):
    with LocalCluster(tmp_path, "--controllers", 2, "--brokers", 1) as cluster:

        def tool(*arguments):
            return apache_kafka.tool(
                "metadata-quorum", "--bootstrap-server", cluster.bootstrap, *arguments
            ).stdout

        def voters():
            replicas = cluster.json("quorum", "status")["replicas"]
            return sorted(replica["id"] for replica in replicas if replica["role"] != "observer")

        properties = (tmp_path / "controller-2" / "meta.properties").read_text()
        directory = re.search(r"directory.id=(\S+)", properties).group(1)
        tool("remove-controller", "--controller-id", "2", "--controller-directory-id", directory)
        until(lambda: voters() == [1], "one voter")
        tool("--command-config", str(tmp_path / "controller-2.properties"), "add-controller")
        until(lambda: voters() == [1, 2], "two voters")
        described = apache_kafka.tool(
            "features", "--bootstrap-server", cluster.bootstrap, "describe"
        )
        assert re.search(r"kraft.version.*FinalizedVersionLevel: 1", described.stdout)
