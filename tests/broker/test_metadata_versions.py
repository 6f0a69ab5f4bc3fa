"""A cluster with an older metadata.version serves, and is upgraded to the newest one while it runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broker.test_end_to_end import consume, in_thread, produce
from tests.cluster.in_process import Cluster, cluster, connected_to
from tests.cluster.nodes import CLUSTER_ID
from trimaran.quorum.formatting.storage import format_paths
from trimaran.quorum.metadata import versions
from trimaran.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

pytestmark = pytest.mark.slow

SECONDS = 60.0


async def upgrade(running: Cluster, level: int) -> None:
    update = FeatureUpdateKey(feature="metadata.version", max_version_level=level, upgrade_type=1)
    request = UpdateFeaturesRequest(timeout_ms=5000, feature_updates=[update])
    async with connected_to(running.brokers[11]) as connection:
        answer = await connection.call(request, timeout=SECONDS)
    assert not answer.error_code, answer.error_message


@pytest.mark.parametrize("level", [versions.OLDEST, versions.DIRECTORY_ASSIGNMENT - 1])
async def test_directories_are_reported_once_metadata_supports_them(
    tmp_path: Path, level: int
) -> None:
    """KIP-858: below 3.7-IV2 they are not reported, and controllers are not registered before 3.7-IV0."""
    format_paths([tmp_path / "1"], CLUSTER_ID, 1, features={"metadata.version": level})
    two = f"{tmp_path / '11-a'},{tmp_path / '11-b'}"
    async with cluster(tmp_path, brokers=0, num_partitions="3") as running:
        broker = await running.start_broker(11, log_dirs=two)
        written = await in_thread(produce, running.bootstrap, "t")
        image = broker.parts.metadata.image
        assert image.features.metadata_version == level
        assert not image.cluster.brokers[11].directories
        assert bool(image.cluster.controllers) is (level >= versions.CONTROLLER_REGISTRATION)
        await upgrade(running, versions.LATEST)
        ids = {directory.directory_id for directory in broker.parts.storage.directories.all}
        await running.seen(lambda image: set(image.cluster.brokers[11].directories) == ids)
        await running.seen(
            lambda image: all(
                partition.directory_of(11) in ids
                for partition in image.topics.by_name["t"].partitions.values()
            ),
        )
        assert await in_thread(consume, running.bootstrap, "t") == written
