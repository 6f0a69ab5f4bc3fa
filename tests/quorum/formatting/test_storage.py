"""Formatting directories, and the content of a formatted directory."""

import pytest

from tests.quorum.config_of import config_of
from trimaran.log.directories.meta_properties import MetaProperties
from trimaran.quorum.formatting.initial_voters import parse_initial_voters, standalone_voter
from trimaran.quorum.formatting.storage import (
    FormatError,
    check_quorum_kind,
    format_directories,
    inspect_directories,
    random_uuid,
    read_bootstrap,
)
from trimaran.quorum.metadata.features import bootstrap_records
from trimaran.quorum.raft.types import OffsetAndEpoch, ReplicaKey
from trimaran.quorum.raft.voters import QuorumHistory
from trimaran.quorum.raft_log.partition import DIRECTORY_NAME
from trimaran.quorum.raft_log.snapshot_files import snapshot_name
from trimaran.quorum.raft_log.voter_records import note_snapshot
from trimaran.wire.buffers.primitives import uuid_from_text
from trimaran.wire.errors import RemoteProtocolError
from trimaran.wire.records.features import FeatureLevelRecord

ID = "5L6g3nShT-eMCtK--X86sw"


def test_all_directories_of_a_node_are_formatted(tmp_path):
    config = config_of(
        log_dirs=f"{tmp_path / 'a'},{tmp_path / 'b'}", metadata_log_dir=tmp_path / "m"
    )
    paths = format_directories(config, ID)
    assert paths == [tmp_path / name for name in "abm"]
    found = [MetaProperties.load(path) for path in paths]
    assert {(node.cluster_id, node.node_id, node.version) for node in found} == {(ID, 1, 1)}
    assert len({properties.directory_id for properties in found}) == 3
    assert [read_bootstrap(path) for path in paths] == [bootstrap_records()] * 3
    assert sorted(path.name for path in paths[0].iterdir()) == [
        "bootstrap.checkpoint",
        "meta.properties",
    ]


def test_cluster_may_begin_at_an_older_level(tmp_path):
    """For nodes of Apache Kafka that know no newer level: 21 is the newest of 3.9."""
    format_directories(config_of(log_dirs=tmp_path / "old"), ID, features={"metadata.version": 21})
    level = FeatureLevelRecord(name="metadata.version", feature_level=21)
    assert read_bootstrap(tmp_path / "old") == [level]
    with pytest.raises(FormatError, match="between 7 and 33"):
        format_directories(
            config_of(log_dirs=tmp_path / "new"), ID, features={"metadata.version": 34}
        )
    assert not (tmp_path / "new").exists()


NEWEST = {
    "metadata.version": 33,
    "eligible.leader.replicas.version": 1,
    "group.version": 1,
    "share.version": 2,
    "streams.version": 1,
    "transaction.version": 2,
}


def without(feature):
    return {name: level for name, level in NEWEST.items() if name != feature}


@pytest.mark.parametrize(
    ("chosen", "others"),
    [
        ({}, NEWEST),
        (
            {"metadata.version": 25},
            {"metadata.version": 25, "group.version": 1, "transaction.version": 2},
        ),
        ({"metadata.version": 21}, {"metadata.version": 21}),
        ({"group.version": 0}, without("group.version")),
        ({"transaction.version": 0}, without("transaction.version")),
        ({"transaction.version": 1}, NEWEST | {"transaction.version": 1}),
        (
            {"eligible.leader.replicas.version": 0},
            without("eligible.leader.replicas.version"),
        ),
        (
            {"metadata.version": 23, "eligible.leader.replicas.version": 1},
            {"metadata.version": 23, "eligible.leader.replicas.version": 1, "group.version": 1},
        ),
    ],
)
def test_new_cluster_has_features_of_its_release(tmp_path, chosen, others):
    """Apache Kafka's tool writes the same, except for features that we do not support."""
    format_directories(config_of(log_dirs=tmp_path / "one"), ID, features=chosen)
    found = {entry.name: entry.feature_level for entry in read_bootstrap(tmp_path / "one")}
    assert found == others


@pytest.mark.parametrize(
    ("chosen", "why"),
    [
        ({"nova.version": 1}, "nova.version is not a feature that can be chosen"),
        ({"share.version": 3}, "share.version 3 is out of range: it must be between 0 and 2"),
        ({"eligible.leader.replicas.version": 2}, "between 0 and 1"),
        (
            {"metadata.version": 22, "eligible.leader.replicas.version": 1},
            "eligible.leader.replicas.version 1 needs metadata.version 23, not 22",
        ),
    ],
)
def test_impossible_levels_are_refused(tmp_path, chosen, why):
    with pytest.raises(FormatError, match=why):
        format_directories(config_of(log_dirs=tmp_path / "new"), ID, features=chosen)
    assert not (tmp_path / "new").exists()


def test_formatted_directory_is_left_alone(tmp_path):
    config = config_of(log_dirs=f"{tmp_path / 'a'},{tmp_path / 'b'}")
    format_directories(config_of(log_dirs=tmp_path / "a"), ID)
    before = MetaProperties.load(tmp_path / "a")
    with pytest.raises(FormatError, match="already formatted"):
        format_directories(config, ID)
    assert not (tmp_path / "b").exists()
    assert format_directories(config, ID, ignore_formatted=True) == [tmp_path / "b"]
    assert MetaProperties.load(tmp_path / "a") == before


@pytest.mark.parametrize(("cluster_id", "node_id"), [("another", 1), (ID, 2)])
def test_directory_of_another_cluster_or_node_is_refused(tmp_path, cluster_id, node_id):
    MetaProperties(cluster_id, node_id, bytes(15) + b"\xff").save(tmp_path)
    with pytest.raises(FormatError, match="belongs to"):
        format_directories(config_of(log_dirs=tmp_path), ID, ignore_formatted=True)


def test_a_damaged_identity_is_refused(tmp_path):
    (tmp_path / "meta.properties").write_text("version=7\n")
    with pytest.raises(FormatError):
        format_directories(config_of(log_dirs=tmp_path), ID, ignore_formatted=True)


def test_cluster_needs_an_id(tmp_path):
    with pytest.raises(FormatError):
        format_directories(config_of(log_dirs=tmp_path), "")


def test_a_directory_without_bootstrap_gets_the_newest_levels(tmp_path):
    assert read_bootstrap(tmp_path) == bootstrap_records()


def test_bootstrap_of_kafka_4_4_is_first_snapshot(tmp_path):
    """`storage format` of Kafka 4.4 writes the records there, and no bootstrap.checkpoint."""
    format_directories(config_of(log_dirs=tmp_path), ID, features={"metadata.version": 21})
    written = read_bootstrap(tmp_path)
    first = tmp_path / DIRECTORY_NAME / snapshot_name(OffsetAndEpoch(0, 0))
    first.parent.mkdir(exist_ok=True)
    (tmp_path / "bootstrap.checkpoint").rename(first)
    assert read_bootstrap(tmp_path) == written != bootstrap_records()


def test_damaged_bootstrap_file_is_ignored(tmp_path):
    format_directories(config_of(log_dirs=tmp_path), ID)
    path = tmp_path / "bootstrap.checkpoint"
    data = path.read_bytes()
    for damaged in (data[:-1], data[:100], data[:120] + b"\xff" + data[121:]):
        path.write_bytes(damaged)
        with pytest.raises(RemoteProtocolError):
            read_bootstrap(tmp_path)


def test_random_ids_are_unique_without_leading_dash():
    ids = {random_uuid() for _ in range(200)}
    assert len(ids) == 200
    assert all(len(uuid_from_text(id_)) == 16 and not id_.startswith("-") for id_ in ids)


# --- dynamic quorums

DYNAMIC = {"controller_quorum_voters": "", "controller_quorum_bootstrap_servers": "h:9093"}
DIRECTORY = "JEXY6aqzQY-32P5TStzaFg"


def voters_of(path):
    history = QuorumHistory()
    data = (path / DIRECTORY_NAME / snapshot_name(OffsetAndEpoch(0, 0))).read_bytes()
    note_snapshot(history, 0, data)
    return history


def test_directory_begins_with_its_first_voters(tmp_path):
    config = config_of(log_dirs=f"{tmp_path / 'a'},{tmp_path / 'b'}", **DYNAMIC)
    voters = parse_initial_voters(
        f"1@h:9093:{DIRECTORY},2@[::1]:9094:{random_uuid()}", "CONTROLLER"
    )
    format_directories(config, ID, voters=voters)
    history = voters_of(tmp_path / "a")
    assert (history.kraft_version, history.voters, history.voters_offset) == (1, voters, -1)
    assert not (tmp_path / "b" / DIRECTORY_NAME).exists()
    assert MetaProperties.load(tmp_path / "a").directory_id == uuid_from_text(DIRECTORY)
    assert MetaProperties.load(tmp_path / "b").directory_id != uuid_from_text(DIRECTORY)
    found = inspect_directories(config)
    assert (found.problems, found.kraft_version, found.voters) == ([], 1, voters)
    assert [voter.endpoints[0].host for voter in voters] == ["h", "::1"]


def test_non_voter_keeps_own_directory_id(tmp_path):
    voters = parse_initial_voters(f"2@h:9093:{DIRECTORY}", "CONTROLLER")
    format_directories(config_of(log_dirs=tmp_path / "a", **DYNAMIC), ID, voters=voters)
    assert voters_of(tmp_path / "a").voters.ids == (2,)
    assert MetaProperties.load(tmp_path / "a").directory_id != uuid_from_text(DIRECTORY)


def test_standalone_controller_is_voter_at_its_listener():
    voters = standalone_voter(config_of(**DYNAMIC), bytes([7]) * 16)
    (voter,) = voters
    assert (voter.key, voter.kraft_version_max) == (ReplicaKey(1, bytes([7]) * 16), 1)
    assert voter.peer.port == config_of().controller_listeners[0].port


@pytest.mark.parametrize(
    "text",
    ["", "1", "1@h:9093", f"h:9093:{DIRECTORY}", f"-1@h:1:{DIRECTORY}", f"1@h:70000:{DIRECTORY}",
     f"1@::1:9093:{DIRECTORY}", f"1@h:1:{DIRECTORY},1@h:2:{DIRECTORY}",
     "1@h:1:short", f"x@h:1:{DIRECTORY}", f"1@:1:{DIRECTORY}"],
)  # fmt: skip
def test_invalid_voters_are_refused(text):
    with pytest.raises(ValueError, match=r"voter|than once"):
        parse_initial_voters(text, "CONTROLLER")


@pytest.mark.parametrize(
    ("changes", "is_dynamic", "version", "why"),
    [
        ({}, True, None, "not both"),
        (DYNAMIC, False, None, "no initial voters given"),
        ({}, False, 1, "kraft.version"),
        (DYNAMIC, True, 0, "kraft.version"),
        ({}, False, 0, None),
        (DYNAMIC, True, 1, None),
    ],
)
def test_quorum_is_static_or_dynamic(changes, is_dynamic, version, why):
    config = config_of(**changes)
    if why is None:
        check_quorum_kind(config, is_dynamic=is_dynamic, kraft_version=version)
        return
    with pytest.raises(FormatError, match=why):
        check_quorum_kind(config, is_dynamic=is_dynamic, kraft_version=version)


def test_problems_of_directories_are_listed(tmp_path):
    config = config_of(log_dirs=f"{tmp_path / 'a'},{tmp_path / 'b'},{tmp_path / 'c'}")
    for name in "ab":
        (tmp_path / name).mkdir()
    MetaProperties("one", 1, bytes(15) + b"\xff").save(tmp_path / "a")
    problems = inspect_directories(config).problems
    assert len(problems) == 2
