"""A local cluster that cannot start leaves nothing that hinders the next attempt; an existing one can be extended."""

import os
from dataclasses import replace

import pytest

from trimaran.errors.user_error import Exit, UserError
from trimaran.local import state_file
from trimaran.local.children import Child
from trimaran.local.layout import FreePorts
from trimaran.local.start_failure import StoppedWhileStarting
from trimaran.local.starting import WantedCluster, grows_while_it_runs, starting
from trimaran.local.state_file import ClusterState, start_time
from trimaran.settings.properties import read_file

NOBODY = 2**30  # no process has this number
WANTED = WantedCluster(2, 1, zookeeper=False, fixed_ports=False, overrides=())


def names(path):
    return sorted(each_path.name for each_path in path.iterdir())


def test_failed_format_is_undone(tmp_path):
    hindrance = tmp_path / "broker-11"
    hindrance.write_text("somebody's")
    with (
        FreePorts() as ports,
        pytest.raises(OSError, match="broker-11"),
        starting(tmp_path, WANTED, ports),
    ):
        pytest.fail("it is not made")
    assert names(tmp_path) == ["broker-11"]
    hindrance.unlink()
    with FreePorts() as ports, starting(tmp_path, WANTED, ports) as begun:
        assert (begun.plan.nodes[0].directory / "meta.properties").exists()


def interrupted(path, wanted=WANTED, *, error=KeyboardInterrupt, ready=False):
    """Simulates a start that writes `cluster.json`, as the supervisor does, and then fails."""
    with FreePorts() as ports, starting(path, wanted, ports) as begun:
        written(path, begun.plan)
        if ready:
            begun.ready()
        raise error


def written(path, plan, supervisor=NOBODY):
    nodes = tuple(Child(node).snapshot() for node in plan.nodes)
    state = ClusterState(
        plan.cluster_id,
        "b",
        "c",
        None,
        "socket",
        supervisor,
        start_time(supervisor),
        plan.settings,
        nodes,
        False,
    )
    state_file.write(path, state)


def contents(path):
    return {
        each_path.relative_to(path): each_path.read_bytes()
        for each_path in path.rglob("*")
        if each_path.is_file()
    }


def made(path, wanted=WANTED):
    with FreePorts() as ports, starting(path, wanted, ports) as begun:
        written(path, begun.plan)
        return begun.plan


def test_failed_first_start_keeps_foreign_files_and_logs(tmp_path):
    (tmp_path / "notes").write_text("mine")
    (tmp_path / "broker-11.log").write_text("why")
    with pytest.raises(KeyboardInterrupt):
        interrupted(tmp_path)
    assert names(tmp_path) == ["broker-11.log", "notes"]


def test_failed_later_start_changes_nothing(tmp_path):
    made(tmp_path)
    before = contents(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        interrupted(tmp_path, replace(WANTED, brokers=3, overrides=["num.partitions=7"]))
    assert contents(tmp_path) == before


@pytest.mark.parametrize("how", [{"error": StoppedWhileStarting}, {"ready": True}], ids=str)
def test_nodes_ready_or_stopped_by_down_stay(tmp_path, how):
    with pytest.raises((KeyboardInterrupt, StoppedWhileStarting)):
        interrupted(tmp_path, **how)
    assert {"controller-1", "broker-11", state_file.FILE_NAME} <= set(names(tmp_path))


def test_stopped_cluster_gains_brokers_and_zookeeper(tmp_path):
    old = made(tmp_path, replace(WANTED, metrics=True, fixed_ports=True))
    new = made(
        tmp_path, replace(WANTED, controllers=None, brokers=3, zookeeper=True, fixed_ports=True)
    )
    assert [node.name for node in new.nodes] == [
        "controller-1",
        "controller-2",
        "broker-11",
        "broker-12",
        "broker-13",
        "zookeeper",
        "mirror",
    ]
    assert new.nodes[:3] == old.nodes[:3]
    brokers = new.of_role("broker")
    assert [node.port for node in brokers] == [9092, 10092, 11092]
    assert [node.metrics_port for node in brokers] == [9404, 9405, 9406]
    ids = {read_file(n.directory / "meta.properties")["cluster.id"].value for n in new.nodes[:5]}
    assert len(ids) == 1
    assert "zookeeper.connect" in read_file(brokers[0].properties_file)


@pytest.mark.parametrize("brokers", [0, 101])
def test_cluster_cannot_shrink_or_grow_unboundedly(tmp_path, brokers):
    made(tmp_path)
    with pytest.raises(UserError) as refused:
        made(tmp_path, replace(WANTED, brokers=brokers))
    assert refused.value.exit_code is Exit.USAGE


def running(path, **asked):
    written(path, made(path), os.getpid())
    wanted = replace(WANTED, **{"controllers": None, "brokers": None} | asked)
    return grows_while_it_runs(path, wanted)


@pytest.mark.parametrize(
    ("asked", "grows"),
    [
        ({}, False),
        ({"controllers": 2, "brokers": 1}, False),
        ({"brokers": 2}, True),
        ({"zookeeper": True}, True),
        ({"console": True}, True),
    ],
    ids=str,
)
def test_running_cluster_accepts_growth(tmp_path, asked, grows):
    assert (running(tmp_path, **asked) is not None) == grows


@pytest.mark.parametrize(
    "asked",
    [
        {"brokers": 0},
        {"brokers": 2, "controllers": 3},
        {"brokers": 2, "overrides": ["num.partitions=2"]},
        {"zookeeper": True, "metrics": True},
    ],
    ids=str,
)
def test_running_cluster_refuses_other_changes(tmp_path, asked):
    with pytest.raises(UserError) as refused:
        running(tmp_path, **asked)
    assert refused.value.exit_code is Exit.USAGE


def test_refused_options_of_running_cluster_are_named(tmp_path):
    with pytest.raises(UserError) as refused:
        running(tmp_path, brokers=2, overrides=["num.partitions=2"], metrics=True)
    assert refused.value.fix.startswith("leave --override and --metrics out, or trimaran down")


def test_voters_are_fixed_at_first_start(tmp_path):
    made(tmp_path)
    with pytest.raises(UserError, match="has 2 controllers, not 3"):
        made(tmp_path, replace(WANTED, controllers=3))
