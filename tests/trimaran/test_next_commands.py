"""The commands that `up` names next work with the cluster that it started."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from trimaran.cli import cluster
from trimaran.fault_control.listening import ReadyControl
from trimaran.local import state_file


def state(controllers, brokers):
    roles = ["controller"] * controllers + ["broker"] * brokers
    return SimpleNamespace(bootstrap="h:1", nodes=[SimpleNamespace(role=role) for role in roles])


@pytest.mark.parametrize(
    ("controllers", "brokers", "commands"),
    [
        (3, 3, ["topics create t -p 6 -r 3", "quorum status", "chaos kill leader"]),
        (1, 2, ["topics create t -p 6 -r 2", "quorum status"]),
        (2, 5, ["topics create t -p 6 -r 3", "quorum status"]),
        (3, 0, ["quorum status", "chaos kill leader"]),
    ],
)
def test_commands_fit_the_cluster(monkeypatch, controllers, brokers, commands):
    monkeypatch.setattr(state_file, "nearest", lambda data: data)
    found = cluster._next_commands(state(controllers, brokers), cluster.DEFAULT_DATA)
    assert found == [f"trimaran {command}" for command in commands]


def test_cluster_elsewhere_is_named(monkeypatch):
    monkeypatch.setattr(state_file, "nearest", lambda data: data)
    found = [cluster._next_commands(state(1, brokers), Path("/my data")) for brokers in (1, 0)]
    assert found == [
        ["export TRIMARAN_BOOTSTRAP=h:1"],
        ["trimaran quorum status --data '/my data'"],
    ]


def test_cluster_with_faults_names_its_proxy():
    ready = ReadyControl("proxy:1", "http://127.0.0.1:2", "token")
    found = cluster._next_commands(state(3, 3), cluster.DEFAULT_DATA, ready)
    assert found == ["export TRIMARAN_BOOTSTRAP=proxy:1"]
