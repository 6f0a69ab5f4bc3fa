"""A refused start closes the directories that it opened, and no others."""

from __future__ import annotations

import pytest

from tests.broker.storage.directories import NODE_ID, id_of
from tests.cluster.data_side import config
from tests.cluster.nodes import CLUSTER_ID
from trimaran.broker.storage.broker_storage import open_storage
from trimaran.log.directories.directory import LogDirectory
from trimaran.log.directories.directory_lock import DirectoryLocked
from trimaran.log.directories.meta_properties import MetaProperties, MetaPropertiesError
from trimaran.wire.errors import ErrorCode, KafkaError


@pytest.fixture
def refused(tmp_path):
    """Returns the settings of a broker whose directory b belongs to another node."""
    for name, node_id in (("a", NODE_ID), ("b", NODE_ID + 1)):
        (tmp_path / name).mkdir()
        MetaProperties(CLUSTER_ID, node_id, id_of(name)).save(tmp_path / name)
    return config(node_id=str(NODE_ID), log_dirs=f"{tmp_path}/a,{tmp_path}/b")


def test_refused_start_closes_all_directories(tmp_path, refused):
    with pytest.raises(MetaPropertiesError):
        open_storage(refused, None)
    for name in "ab":
        LogDirectory(tmp_path / name).close(broker_epoch=None)


def test_controllers_open_directory_stays_open(tmp_path, refused):
    shared = LogDirectory(tmp_path / "a")
    with pytest.raises(MetaPropertiesError):
        open_storage(refused, shared)
    with pytest.raises(DirectoryLocked):
        LogDirectory(tmp_path / "a")
    shared.close(broker_epoch=None)
    LogDirectory(tmp_path / "b").close(broker_epoch=None)


@pytest.mark.parametrize("has_controller", [False, True])
def test_start_without_readable_log_directory_is_refused(tmp_path, has_controller):
    """The directory of the metadata log is intact. The controller would register no broker without a directory."""
    (tmp_path / "metadata").mkdir()
    MetaProperties(CLUSTER_ID, NODE_ID, id_of("m")).save(tmp_path / "metadata")
    for name in "ab":
        (tmp_path / name / ".lock").mkdir(parents=True)
    settings = config(
        node_id=str(NODE_ID),
        log_dirs=f"{tmp_path}/a,{tmp_path}/b",
        metadata_log_dir=f"{tmp_path}/metadata",
    )
    shared = LogDirectory(tmp_path / "metadata") if has_controller else None
    with pytest.raises(KafkaError) as error:
        open_storage(settings, shared)
    assert error.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert error.value.message.startswith("none of the log directories can be read: ")
    assert f"{tmp_path}/a" in error.value.message
    assert f"{tmp_path}/b" in error.value.message
    if shared is not None:
        shared.close(broker_epoch=None)
    LogDirectory(tmp_path / "metadata").close(broker_epoch=None)


@pytest.mark.parametrize(
    ("cluster_id", "directory_id", "why"),
    [("another", id_of("b"), "another"), (CLUSTER_ID, id_of("a"), "one is a copy of the other")],
)
def test_foreign_or_duplicate_directories_are_refused(
    tmp_path, refused, cluster_id, directory_id, why
):
    MetaProperties(cluster_id, NODE_ID, directory_id).save(tmp_path / "b")
    with pytest.raises(MetaPropertiesError, match=why):
        open_storage(refused, None)
    for name in "ab":
        LogDirectory(tmp_path / name).close(broker_epoch=None)
