"""One session writes an archive of Spark's classes, unless a user's option changes its JVM; later sessions use it."""

import os

import pytest

from trimaran.spark.sessions import class_archive
from trimaran.spark.sessions.java import RECORDING


@pytest.fixture
def java(tmp_path, monkeypatch):
    """Returns a home with an archive of the JVM's own classes, and an empty cache."""
    home = tmp_path / "jdk"
    for folder in ("bin", "lib/server"):
        (home / folder).mkdir(parents=True)
    (home / "lib" / "server" / "classes.jsa").touch()
    java = home / "bin" / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"21.0.1\"'\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in class_archive.ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
    return java


def told(conf=()):
    """Returns the last option, without those of logging."""
    options = class_archive.options(dict(conf))
    return options[-1] if options else None


def test_archive_of_first_session_serves_later_ones(java):
    first = told()
    assert first.startswith("-XX:ArchiveClassesAtExit=")
    assert first.endswith(RECORDING)
    assert told() is None, "one writes, not two"
    lock = first.partition("=")[2]
    os.replace(lock, lock.removesuffix(RECORDING))
    assert told() == f"-XX:SharedArchiveFile={lock.removesuffix(RECORDING)}"
    class_archive.forget()
    assert told() == first


@pytest.mark.parametrize("name", class_archive.ENVIRONMENT)
def test_user_environment_prevents_recording(java, monkeypatch, name):
    monkeypatch.setenv(name, "/etc")
    assert told() is None


def test_nothing_is_written_with_the_users_driver(java):
    assert told({"spark.driver.memory": "40g"}) is None
    assert told({"spark.sql.shuffle.partitions": "2"}) is not None


def test_no_archive_without_the_jvms_own(java):
    (java.parent.parent / "lib" / "server" / "classes.jsa").unlink()
    assert told() is None


def test_other_java_has_another_archive(java):
    first = told()
    java.write_text("#!/bin/sh\necho 'openjdk version \"21.0.2\"'\n")
    class_archive.version_text.cache_clear()
    assert told() not in (first, None)


def test_few_archives_stay_and_killed_recordings_are_retried(java, tmp_path):
    first = told()
    lock = first.partition("=")[2]
    os.utime(lock, (0, 0))
    folder = tmp_path / "cache" / "trimaran" / "classes"
    for age in range(4):
        old = folder / f"spark-{age}.jsa"
        old.touch()
        os.utime(old, (1000 + age, 1000 + age))
    assert told() == first
    assert [path.name for path in folder.glob("*.jsa")] == ["spark-3.jsa"]
