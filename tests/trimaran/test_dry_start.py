"""`up --dry-run` prints the nodes that it would start, refuses what `up` refuses, and leaves nothing behind."""

import os
import socket
from dataclasses import replace

import pytest

from tests.trimaran.test_starting import WANTED, contents, made, names, written
from trimaran.errors.user_error import Exit, UserError
from trimaran.local.dry_start import dry_start
from trimaran.local.lock import FILE_NAME as LOCK
from trimaran.local.lock import ClusterLock


def started(found):
    return [node.name for node in found.started]


def test_new_cluster_is_shown_but_not_created(tmp_path):
    found = dry_start(tmp_path / "new", replace(WANTED, console=True))
    assert started(found) == ["controller-1", "controller-2", "broker-11", "console"]
    assert found.new == found.started
    assert names(tmp_path) == []


def test_stopped_cluster_may_gain_brokers_and_overrides(tmp_path):
    made(tmp_path)
    before = contents(tmp_path)
    found = dry_start(tmp_path, replace(WANTED, brokers=2, overrides=["num.partitions=7"]))
    assert started(found) == ["controller-1", "controller-2", "broker-11", "broker-12"]
    assert [node.name for node in found.new] == ["broker-12"]
    assert contents(tmp_path) == before


def test_running_cluster_gains_nodes(tmp_path):
    written(tmp_path, made(tmp_path), os.getpid())
    before = contents(tmp_path)
    found = dry_start(tmp_path, replace(WANTED, controllers=None, brokers=3))
    assert (started(found), found.is_running) == (["broker-12", "broker-13"], True)
    assert contents(tmp_path) == before
    with pytest.raises(UserError, match="is already up"):
        dry_start(tmp_path, WANTED)


@pytest.mark.parametrize(
    "asked",
    [{"controllers": 0}, {"brokers": 101}, {"overrides": ["num.partitions=many"]}],
    ids=str,
)
def test_impossible_start_is_refused(tmp_path, asked):
    with pytest.raises(UserError) as refused:
        dry_start(tmp_path / "new", replace(WANTED, **asked))
    assert refused.value.exit_code is Exit.USAGE
    assert names(tmp_path) == []


def test_cluster_keeps_its_controllers_and_brokers(tmp_path):
    made(tmp_path)
    for asked in ({"controllers": 3}, {"brokers": 0}, {"static_quorum": True}):
        with pytest.raises(UserError) as refused:
            dry_start(tmp_path, replace(WANTED, **asked))
        assert refused.value.exit_code is Exit.USAGE


def test_obstacle_to_start_is_reported(tmp_path):
    (tmp_path / "broker-11").write_text("somebody's")
    with pytest.raises(NotADirectoryError, match="broker-11"):
        dry_start(tmp_path, WANTED)
    with pytest.raises(UserError, match="cannot use the directory"):
        dry_start(tmp_path / "broker-11", WANTED)


@pytest.mark.parametrize("name", ["a\\b", "Übung 1", "a=b#c!", "𝄞"])
def test_cluster_uses_given_directory_with_any_name(tmp_path, name):
    (tmp_path / name).mkdir()
    plan = made(tmp_path / name)
    assert (plan.nodes[0].directory / "meta.properties").exists()
    assert names(tmp_path) == [name]


def test_comma_in_path_is_refused(tmp_path):
    data = tmp_path / "a,b"
    data.mkdir()
    for start in (made, lambda path: dry_start(path, WANTED)):
        with pytest.raises(UserError, match="comma"):
            start(data)
    assert names(tmp_path) == ["a,b"]
    assert names(data) == []


def test_taken_port_is_reported(tmp_path):
    plan = made(tmp_path)
    with socket.create_server(("127.0.0.1", plan.nodes[0].port)):
        with pytest.raises(UserError, match="cannot listen on"):
            dry_start(tmp_path, WANTED)
    dry_start(tmp_path, WANTED)


def test_cluster_being_started_is_left_alone(tmp_path):
    made(tmp_path)
    with ClusterLock(tmp_path), pytest.raises(UserError, match="being started or stopped"):
        dry_start(tmp_path, WANTED)
    assert (tmp_path / LOCK).exists()
