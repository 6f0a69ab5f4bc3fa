"""Formatting directories, and what a formatted one says."""

import pytest

from log.meta_properties import MetaProperties
from quorum.storage import FormatError, format_directories, random_uuid, read_bootstrap
from tests.quorum.config_of import config_of
from wire.errors import RemoteProtocolError
from wire.primitives import uuid_from_text
from wire.records.features import FeatureLevelRecord

ID = "5L6g3nShT-eMCtK--X86sw"


def test_all_directories_of_a_node_are_formatted(tmp_path):
    config = config_of(
        log_dirs=f"{tmp_path / 'a'},{tmp_path / 'b'}", metadata_log_dir=tmp_path / "m"
    )
    paths = format_directories(config, ID)
    assert paths == [tmp_path / name for name in "abm"]
    found = [MetaProperties.load(path) for path in paths]
    assert {(one.cluster_id, one.node_id, one.version) for one in found} == {(ID, 1, 1)}
    assert len({one.directory_id for one in found}) == 3
    level = [FeatureLevelRecord(name="metadata.version", feature_level=30)]
    assert [read_bootstrap(path) for path in paths] == [level] * 3
    assert sorted(one.name for one in paths[0].iterdir()) == [
        "bootstrap.checkpoint",
        "meta.properties",
    ]


def test_a_formatted_directory_is_left_alone(tmp_path):
    config = config_of(log_dirs=f"{tmp_path / 'a'},{tmp_path / 'b'}")
    format_directories(config_of(log_dirs=tmp_path / "a"), ID)
    before = MetaProperties.load(tmp_path / "a")
    with pytest.raises(FormatError, match="already formatted"):
        format_directories(config, ID)
    assert not (tmp_path / "b").exists()
    assert format_directories(config, ID, ignore_formatted=True) == [tmp_path / "b"]
    assert MetaProperties.load(tmp_path / "a") == before


@pytest.mark.parametrize(("cluster_id", "node_id"), [("another", 1), (ID, 2)])
def test_a_directory_of_another_cluster_or_node_is_refused(tmp_path, cluster_id, node_id):
    MetaProperties(cluster_id, node_id, bytes(15) + b"\xff").save(tmp_path)
    with pytest.raises(FormatError, match="belongs to"):
        format_directories(config_of(log_dirs=tmp_path), ID, ignore_formatted=True)


def test_a_damaged_identity_is_refused(tmp_path):
    (tmp_path / "meta.properties").write_text("version=7\n")
    with pytest.raises(FormatError):
        format_directories(config_of(log_dirs=tmp_path), ID, ignore_formatted=True)


def test_a_cluster_needs_an_id(tmp_path):
    with pytest.raises(FormatError):
        format_directories(config_of(log_dirs=tmp_path), "")


def test_a_directory_without_bootstrap_gets_the_newest_level(tmp_path):
    assert [record.feature_level for record in read_bootstrap(tmp_path)] == [30]


def test_a_damaged_bootstrap_is_no_bootstrap(tmp_path):
    format_directories(config_of(log_dirs=tmp_path), ID)
    path = tmp_path / "bootstrap.checkpoint"
    data = path.read_bytes()
    for damaged in (data[:-1], data[:100], data[:120] + b"\xff" + data[121:]):
        path.write_bytes(damaged)
        with pytest.raises(RemoteProtocolError):
            read_bootstrap(tmp_path)


def test_ids_are_new_and_no_options():
    ids = {random_uuid() for _ in range(200)}
    assert len(ids) == 200
    assert all(len(uuid_from_text(one)) == 16 and not one.startswith("-") for one in ids)
