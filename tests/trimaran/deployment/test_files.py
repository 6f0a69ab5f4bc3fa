"""The output of `generate systemd|compose|k8s`; tests/interop/test_deployment.py runs it."""

import re
from pathlib import Path, PurePath

from tests.cluster.processes import trimaran
from trimaran.deployment.compose import compose_file
from trimaran.deployment.kubernetes import manifest
from trimaran.deployment.systemd import hidden, unit


def test_unit_waits_for_readiness_with_limited_directories(tmp_path):
    file = tmp_path / "a file.properties"
    file.write_text(
        "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=C\n"
        "listeners=PLAINTEXT://h:1,C://h:2\ncontroller.quorum.bootstrap.servers=h:2\n"
        "listener.security.protocol.map=C:PLAINTEXT,PLAINTEXT:PLAINTEXT\n"
        "log.dirs=/d/1,/d/2\nmetadata.log.dir=/m\n"
    )
    text = trimaran("generate", "systemd", "-c", file, "--program", "/opt/100%/trimaran").stdout
    assert f'ExecStart=/opt/100%%/trimaran server start -c "{file}"\n' in text
    assert "\nReadWritePaths=/d/1 /d/2 /m\n" in text
    assert "\nType=notify\n" in text


def test_unit_arguments_stay_separate_words():
    text = unit(PurePath("/$b"), PurePath('/a "b'), "u", [PurePath("/c d")])
    assert 'ExecStart=/$$b server start -c "/a \\"b"\n' in text
    assert 'ReadWritePaths="/c d"\n' in text


def test_single_broker_can_create_internal_topics():
    for text in (compose_file("i", "id", 1, 1), manifest("n", "i", "id", 1, 1, "1Gi")):
        assert 'OFFSETS_TOPIC_REPLICATION_FACTOR: "1"' in text
        assert 'STATE_LOG_MIN_ISR: "1"' in text


def test_compose_nodes_have_own_id_and_volume():
    text = compose_file("i", "id", 3, 2)
    assert re.findall(r'NODE_ID: "(\d+)"', text) == ["1", "2", "3", "11", "12"]
    names = re.findall(r'volumes: \["(.*):/', text)
    assert names == ["controller-1", "controller-2", "controller-3", "broker-11", "broker-12"]
    assert text.endswith("".join(f"  {name}:\n" for name in names))


def test_paths_hidden_by_unit_are_named(tmp_path):
    """A virtual environment elsewhere may run an interpreter of a home directory."""
    program = Path("/home", "a", "trimaran")
    interpreter = Path("/run/user/1/python3")
    link = tmp_path / "python"
    link.symlink_to(interpreter)
    found = hidden([program, Path("/opt/trimaran"), link])
    assert found[0] == f"{program} is in /home, which ProtectHome of the unit hides from the node"
    assert any(f"{link}, a link to {interpreter}, is in /run/user" in each for each in found)
    assert not [each for each in found if each.startswith("/opt")]
    assert "PrivateTmp" in hidden([Path("/var/tmp/x")])[0]
