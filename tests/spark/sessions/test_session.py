"""Imports cost nothing; settings; and the process that forks workers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import trimaran
import trimaran.spark.sessions.worker_daemon
from trimaran.spark.sessions.session import worker_python
from trimaran.spark.sessions.worker_daemon import search_path
from trimaran.spark.sources import register


def test_import_of_package_loads_nothing_else():
    code = "import sys, spark; print([m for m in ('pyspark', 'pyarrow', 'numpy', 'log') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_unknown_names_are_refused():
    with pytest.raises(AttributeError, match="nonsense"):
        _ = trimaran.spark.nonsense


def test_modules_found_by_spark_load_nothing_of_ours():
    code = (
        "import sys, pyspark_kafka_log, pyspark_kafka_metadata;"
        "print([m for m in ('spark', 'log', 'wire') if m in sys.modules]);"
        "print(pyspark_kafka_log.DefaultSource({'path': '/x'}).name());"
        "print(pyspark_kafka_metadata.DefaultSource({'path': '/x'}).name())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]", "kafka_log", "kafka_metadata"]


def test_settings_of_a_cluster_and_the_users():
    from trimaran.spark.sessions.session import JAVA_OPTIONS, settings

    local = settings(True, {}, ["-XX:SharedArchiveFile=/a b/c"])
    assert "TieredStopAtLevel=1" in local[JAVA_OPTIONS]
    assert local[JAVA_OPTIONS].endswith(" '-XX:SharedArchiveFile=/a b/c'")
    cluster = settings(False, {"spark.sql.session.timeZone": "CET", "spark.x": "1"})
    assert "spark.driver.host" not in cluster
    assert "TieredStopAtLevel" not in cluster[JAVA_OPTIONS]
    assert (cluster["spark.sql.session.timeZone"], cluster["spark.x"]) == ("CET", "1")
    own = settings(True, {JAVA_OPTIONS: "-Xmx1g"})
    assert own[JAVA_OPTIONS].endswith("-Xmx1g")
    assert "Tiered" not in own[JAVA_OPTIONS]


def test_workers_are_forked_from_our_process(tmp_path, monkeypatch):
    """Our process has preloaded what workers need; other Python processes are not affected."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    wrapper = worker_python()
    assert worker_python() == wrapper
    text = wrapper.read_text().replace(f"exec {sys.executable}", "exec echo")
    (tmp_path / "echo").write_text(text)

    def started(*words):
        command = ["/bin/sh", tmp_path / "echo", *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()

    daemon = str(Path(trimaran.spark.sessions.worker_daemon.__file__))
    assert started("-m", "pyspark.daemon", "pyspark.worker") == [daemon, "pyspark.worker"]
    assert started("-m", "pyspark.other", "x") == ["-m", "pyspark.other", "x"]
    assert started("-c", "pass") == ["-c", "pass"]


def test_preloaded_modules_are_not_collected_by_workers():
    """A worker collects garbage after each task; examining all modules would take longer than a small task."""
    code = (
        "import gc, sys; from trimaran.spark.sessions.worker_daemon import preload; preload('pyspark.worker'); "
        "print('pandas' in sys.modules, gc.get_freeze_count() > 20 * len(gc.get_objects()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True"]


def test_workers_import_pyspark_where_it_is_installed(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    path = ["/lib/spark", "/opt/pyspark/python/lib/pyspark.zip", "/users/own.zip", "/lib"]
    assert search_path(path, "/opt/pyspark") == [str(tmp_path), "/users/own.zip", "/lib"]
    assert search_path(path, None) == [str(tmp_path), *path[1:]]


@pytest.mark.parametrize(
    ("conf", "environ", "python"),
    [
        ({}, None, sys.executable),
        ({}, "/opt/python", "/opt/python"),
        (
            {"spark.pyspark.python": "./environment/bin/python"},
            "/opt/python",
            "./environment/bin/python",
        ),
    ],
)
def test_workers_of_a_cluster_have_a_python(conf, environ, python, monkeypatch):
    pytest.importorskip("pyspark")
    from trimaran.spark.sessions import session as sessions

    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    if environ is not None:
        monkeypatch.setenv("PYSPARK_PYTHON", environ)
    sessions.choose_python("spark://h:7077", conf)
    assert os.environ["PYSPARK_PYTHON"] == python


class Context:
    """The part of a session that `register` needs."""

    def __init__(self):
        self.environment = {"PYTHONPATH": "/own"}
        self.sparkContext = self
        self.dataSource = self
        self.names = []

    def register(self, source):
        self.names.append(source.name())


@pytest.mark.parametrize(
    ("archive", "path"), [(None, "/own"), ("/sent/trimaran.zip", "/sent/trimaran.zip:/own")]
)
def test_streams_find_our_code_in_an_archive(archive, path, monkeypatch):
    pytest.importorskip("pyspark")
    loader = type("Loader", (), {} if archive is None else {"archive": archive})
    monkeypatch.setattr(trimaran, "__loader__", loader)
    context = Context()
    register(context)
    register(context)
    assert context.environment == {"PYTHONPATH": path}
    assert set(context.names) == {"kafka_log", "kafka_metadata"}


class FailingBuilder:
    """Spark's builder with a JVM that does not start with the archive."""

    def __init__(self):
        self.conf = {}
        self.tried = []

    def config(self, key, value):
        self.conf[key] = value
        return self

    def getOrCreate(self):  # noqa: N802 - Spark's name
        from pyspark.errors import PySparkRuntimeError

        from trimaran.spark.sessions.session import JAVA_OPTIONS

        self.tried.append(self.conf[JAVA_OPTIONS])
        if "SharedArchiveFile" in self.tried[-1]:
            raise PySparkRuntimeError("JAVA_GATEWAY_EXITED")
        return "a session"


def test_unusable_archive_is_abandoned(monkeypatch):
    pyspark = pytest.importorskip("pyspark")
    from trimaran.spark.sessions import class_archive
    from trimaran.spark.sessions import session as sessions

    forgotten = []
    monkeypatch.setattr(pyspark.SparkContext, "_gateway", None)
    monkeypatch.setattr(class_archive, "options", lambda _conf: ["-XX:SharedArchiveFile=/damaged"])
    monkeypatch.setattr(class_archive, "forget", lambda: forgotten.append(True))
    builder = FailingBuilder()
    assert sessions._started(builder, is_local=True, conf={}) == "a session"
    assert ["Archive" in options for options in builder.tried] == [True, False]
    assert forgotten


def test_package_attributes_are_functions_each_time():
    """A module of the same name would replace the function once it is imported, after the first use."""
    import trimaran.spark

    for name in trimaran.spark.__all__:
        assert [callable(getattr(trimaran.spark, name)) for _ in range(2)] == [True, True], name
