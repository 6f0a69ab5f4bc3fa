"""The directories that a broker opens by its configuration, those that may be missing, and those of a controller in the
same process.
"""

from __future__ import annotations

import pytest
import trio

from tests.broker.storage.directories import NODE_ID, T0, TOPIC_ID, id_of
from tests.cluster.data_side import config
from tests.cluster.nodes import CLUSTER_ID
from tests.log.helpers import fill
from tests.quorum.metadata.build import config as altered
from tests.quorum.metadata.build import image_of
from trimaran.broker.metadata.metadata_cache import BrokerMetadata
from trimaran.broker.storage.broker_storage import Cordons, open_storage
from trimaran.log.config import LogConfig
from trimaran.log.directories.directory import CLUSTER_METADATA, LogDirectory
from trimaran.log.directories.directory_lock import DirectoryLocked
from trimaran.log.directories.meta_properties import MetaProperties, MetaPropertiesError
from trimaran.log.durability.group_commit import UNFLUSHED_BYTES_MAX
from trimaran.log.durability.health import StorageFailure
from trimaran.quorum.metadata.image import FeaturesImage, MetadataImage
from trimaran.quorum.serving.node_configs import NodeConfigs
from trimaran.wire.errors import KafkaError


@pytest.fixture
def formatted(tmp_path):
    for name in "abm":
        (tmp_path / name).mkdir()
        MetaProperties(CLUSTER_ID, NODE_ID, id_of(name)).save(tmp_path / name)
    return tmp_path


def settings(path, **more):
    return config(node_id=str(NODE_ID), log_dirs=f"{path}/a,{path}/b", **more)


def names(directories):
    return [directory.path.name for directory in directories]


async def closed(storage, epoch=None):
    await storage.close(epoch, {})


async def test_metadata_log_uses_first_or_own_directory(formatted):
    storage = open_storage(settings(formatted), None)
    assert names(storage.directories.all) == ["a", "b"]
    assert storage.metadata.path.name == "a"
    assert list(map(str, storage.commits)) == list(map(str, storage.directories.all))
    await closed(storage)
    of_its_own = settings(formatted, metadata_log_dir=f"{formatted}/m")
    storage = open_storage(of_its_own, None)
    assert (names(storage.directories.all), storage.metadata.path.name) == (["a", "b"], "m")
    assert storage.metadata not in storage.commits
    await closed(storage)
    for name in "abm":
        LogDirectory(formatted / name).close(broker_epoch=None)


async def test_unreadable_directory_is_skipped_unless_metadata(formatted):
    (formatted / "b" / ".lock").mkdir()
    storage = open_storage(settings(formatted), None)
    assert names(storage.directories.all) == ["a"]
    assert list(storage.directories.failed_at_start) == [formatted / "b"]
    assert storage.directories.failed_at_start[formatted / "b"]
    assert storage.directories.previous_broker_epoch == -1
    await closed(storage)
    with pytest.raises(KafkaError):
        open_storage(settings(formatted, metadata_log_dir=f"{formatted}/b"), None)
    LogDirectory(formatted / "a").close(broker_epoch=None)


def test_only_configured_directory_holds_metadata_log(formatted):
    (formatted / "a" / f"{CLUSTER_METADATA[0]}-{CLUSTER_METADATA[1]}").mkdir()
    storage = open_storage(settings(formatted), None)
    assert storage.metadata.path.name == "a"
    storage.directories.close(broker_epoch=None, high_watermarks={})
    with pytest.raises(MetaPropertiesError, match="holds a metadata log"):
        open_storage(settings(formatted, metadata_log_dir=f"{formatted}/b"), None)


@pytest.mark.parametrize("fsync", ["commit", "none"])
async def test_records_are_as_durable_as_the_configuration_asks(formatted, fsync):
    storage = open_storage(settings(formatted, trimaran_log_fsync=fsync), None)
    log = storage.directories.all[1].create_log(T0, TOPIC_ID, LogConfig())
    fill(log, 1)
    expected = 0 if fsync == "commit" else 3
    assert storage.durability.durable_end(log) == expected
    assert not storage.durability.is_behind(log)
    storage.durability.mark_dirty(log, lambda _offset: None, UNFLUSHED_BYTES_MAX)
    assert not storage.durability.is_behind(log)
    storage.durability.mark_dirty(log, lambda _offset: None, 1)
    assert storage.durability.is_behind(log) == (fsync == "commit"), "else nobody waits for it"
    await closed(storage)


async def test_failing_group_commit_ends_alone(formatted, monkeypatch):
    storage = open_storage(settings(formatted), None)
    failing = storage.directories.all[1]

    async def run():
        await trio.lowlevel.checkpoint()
        raise StorageFailure("the disk is gone")

    monkeypatch.setattr(storage.commits[failing], "run", run)
    await storage.commit(failing)
    await closed(storage)


@pytest.mark.parametrize("epoch", [7, None])
async def test_controllers_directory_learns_epoch_and_stays_open(formatted, epoch):
    """The broker closes it last; a crash leaves no clean shutdown file."""
    shared = LogDirectory(formatted / "a")
    storage = open_storage(settings(formatted), shared)
    assert (storage.shared, storage.metadata) == (shared, shared)
    log = shared.create_log(T0, TOPIC_ID, LogConfig())
    fill(log, 1).flush()
    await storage.close(epoch, {T0: 3})
    with pytest.raises(DirectoryLocked):
        LogDirectory(formatted / "a")
    shared.close(broker_epoch=-1)
    again = [LogDirectory(formatted / name) for name in "ab"]
    assert [storage.previous_broker_epoch for storage in again] == ([7, 7] if epoch else [-1, None])
    assert again[0].high_watermark(T0) == (3 if epoch else 0)
    for item in again:
        item.close(broker_epoch=None)


async def test_epoch_is_written_where_broker_ends(formatted):
    storage = open_storage(settings(formatted), None)
    await storage.close(8, {})
    again = [LogDirectory(formatted / name) for name in "ab"]
    assert [storage.previous_broker_epoch for storage in again] == [8, 8]
    for item in again:
        item.close(broker_epoch=None)


@pytest.mark.parametrize(("level", "are_reported"), [(29, False), (30, True), (31, True)])
def test_cordons_are_current_and_reported_if_supported(formatted, level, are_reported):
    own = settings(formatted, cordoned_log_dirs=f"{formatted}/b")
    image = image_of()
    configs = NodeConfigs(own, lambda: image.configs)
    metadata = BrokerMetadata(
        MetadataImage(features=FeaturesImage(metadata_version=level)), lambda: 0.0
    )
    cordons = Cordons(own, configs, metadata)
    assert list(cordons.paths()) == [formatted / "b"]
    image = image_of(altered("cordoned.log.dirs", f"{formatted}/a", (4, str(NODE_ID))))
    assert list(cordons.paths()) == [formatted / "a"]
    assert cordons.are_reported is are_reported
