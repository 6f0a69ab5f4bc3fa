"""A quorum that is upgraded to a later Kafka version while our nodes follow it: a participant ends with an explanation,
an observer continues.

Only the leader here knows the later level, while it writes the record.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from tests.cluster.nodes import CLUSTER_ID, until
from tests.cluster.quorum_nodes import Member, QuorumNodes, quorum_nodes
from trimaran.log.batches.records import NewRecord, build_batch
from trimaran.quorum.metadata import features
from trimaran.quorum.metadata.loader import MetadataLoader
from trimaran.quorum.raft.types import Identity, Timeouts
from trimaran.quorum.raft_log.memory_log import MemoryLog
from trimaran.quorum.raft_log.partition import DIRECTORY_NAME
from trimaran.quorum.raft_log.supported_levels import MetadataTooNew, check_directory
from trimaran.quorum.replica.node import NodeSettings, QuorumNode
from trimaran.wire.buffers.primitives import write_uvarint
from trimaran.wire.records.features import FeatureLevelRecord
from trimaran.wire.records.metadata import UnknownRecord, encode_metadata_record
from trimaran.wire.records.topics import TopicRecord

PATIENT = Timeouts(fetch=60.0)
LATER = 34
UPGRADE = encode_metadata_record(
    FeatureLevelRecord(name="metadata.version", feature_level=LATER), 0
)
TOPIC = encode_metadata_record(TopicRecord(name="t", topic_id=bytes(15) + b"\1"), 0)


def frame(kind: int, version: int, body: bytes) -> bytes:
    out = bytearray()
    for number in (1, kind, version):
        write_uvarint(out, number)
    return bytes(out) + body


# A record of type 30, which no Kafka has, and a TopicRecord of a version that does not exist yet.
OF_LATER_TYPE = frame(30, 0, b"\0\0\0\x67\0")
TOPIC_OF_LATER = frame(2, 9, b"whatever")


async def write(member: Member, *values: bytes) -> int:
    """Lets the leader write them as one batch; returns the offset after it once it is committed."""
    records = [NewRecord(None, value, 5) for value in values]
    node = member.node
    last = node.propose([None] * len(values), node.leader.value.epoch, build_batch(records))
    await node.high_watermark.wait_reached(last + 1)
    return last + 1


async def upgraded(cluster: QuorumNodes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the leader commit a record of a later level, which only it knew at that time."""
    leader = await cluster.leader()
    with monkeypatch.context() as patch:
        patch.setattr(features, "METADATA_VERSION_LEVEL", LATER)
        await write(leader, UPGRADE)
        await until(
            lambda: all(member.node.log_end_offset == 2 for member in cluster.members.values())
        )


@pytest.mark.parametrize("node_id", [3, 11], ids=["voter", "broker"])
async def test_later_level_ends_node_and_refuses_requests(
    tmp_path: Path, monkeypatch, node_id: int
) -> None:
    with (
        trio.fail_after(60),
        pytest.RaisesGroup(
            pytest.RaisesExc(MetadataTooNew, match="metadata.version is 34 at offset 1"),
            flatten_subgroups=True,
        ),
    ):
        async with quorum_nodes(tmp_path, timeouts=PATIENT) as cluster:
            await cluster.start(1)
            await cluster.start(2)
            await upgraded(cluster, monkeypatch)
            await cluster.start(node_id)
            await trio.sleep_forever()
    directory = tmp_path / f"node-{node_id}" / DIRECTORY_NAME
    with pytest.raises(MetadataTooNew):
        check_directory(directory, directory / "none")


async def test_unknown_record_without_level_ends_node(tmp_path: Path) -> None:
    with (
        trio.fail_after(60),
        pytest.RaisesGroup(
            pytest.RaisesExc(MetadataTooNew, match="type 30 version 0 at offset 1 .*"),
            flatten_subgroups=True,
        ),
    ):
        async with quorum_nodes(tmp_path, 1) as cluster:
            await cluster.start(1)
            await write(await cluster.leader(), OF_LATER_TYPE)
            await cluster.start(11)
            await trio.sleep_forever()


async def test_observer_without_log_counts_unknown_records(tmp_path: Path, monkeypatch) -> None:
    with trio.fail_after(60):
        async with quorum_nodes(tmp_path, 1) as cluster:
            leader = await cluster.start(1)
            await upgraded(cluster, monkeypatch)
            end = await write(leader, OF_LATER_TYPE, TOPIC_OF_LATER, OF_LATER_TYPE, TOPIC)
            loader = MetadataLoader()
            identity = Identity(
                -1, cluster_id=CLUSTER_ID, bootstrap=(cluster.voters[1]._replace(id=-2),)
            )
            node = QuorumNode(NodeSettings(identity), MemoryLog(), loader)
            await cluster.nursery.start(node.run)
            await until(lambda: node.applied_offset >= end)
    image = loader.image
    assert image.features.metadata_version == LATER
    assert list(image.topics.by_name) == ["t"]
    assert image.unknown.count == 3
    assert image.unknown.kinds == (UnknownRecord(30, 0, 2), UnknownRecord(2, 9, 3))
