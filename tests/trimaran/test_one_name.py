"""All imports are below `trimaran`: a project may have its own `log.py`, `spark/` and so on, first on the path."""

import json
import os
import re
import signal
import subprocess
import sys
import sysconfig
import urllib.request
from importlib.metadata import distribution
from pathlib import Path

import pytest

from tests.interop.test_editor import ASKED
from tests.spark.directories import data_batches, make_node, write_partition

ROOT = Path(__file__).resolve().parents[2]
FILES = ("log", "node")
FOLDERS = ("broker", "quorum", "spark", "wire", "zkcompat")
OWN = """
import {names}
for module in ({names}):
    assert module.NAME == "the project's", module
"""
TESTS = """
from confluent_kafka import Producer

def test_record_round_trip_preserves_content(embedded_kafka, kafka_bootstrap, kafka_topic):
    producer = Producer({"bootstrap.servers": kafka_bootstrap})
    producer.produce(kafka_topic, b"v")
    assert producer.flush(20) == 0
    embedded_kafka.eventually_consumes(kafka_topic, ["v"])
"""
JOB = """
import json, sys
import trimaran.spark as ts

def found(_):
    import log, trimaran.log
    yield log.NAME, trimaran.log.__name__

session = ts.session(local_cores=1)
rows = session.read.format("kafka_log").option("end", "log_end").load(sys.argv[1]).count()
places = session.sparkContext.parallelize(range(2), 1).mapPartitions(found).collect()
print(json.dumps({"rows": rows, "places": sorted(set(places))}))
session.stop()
"""


def test_installation_has_one_package_and_spark_entries():
    names = distribution("trimaran").read_text("top_level.txt").split()
    assert sorted(names) == ["pyspark_kafka_log", "pyspark_kafka_metadata", "trimaran"]


def test_checkout_links_each_folder_below_trimaran():
    """`./dev setup` and setup.py create the links, and git ignores each of them."""
    rooms = sorted((*FILES, *FOLDERS))
    links = sorted(path.name for path in (ROOT / "trimaran").iterdir() if path.is_symlink())
    assert links == rooms
    for name in rooms:
        assert (ROOT / "trimaran" / name).resolve() == ROOT / name
    ignored = (ROOT / ".gitignore").read_text().splitlines()
    assert {f"/trimaran/{name}" for name in rooms} <= set(ignored)
    for script, form in (("dev", 'ROOMS="(.*)"'), ("setup.py", r"ROOMS = \((.*)\)")):
        (listed,) = re.findall(form, (ROOT / script).read_text())
        assert sorted(re.findall(r"\w+", listed)) == rooms, script


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Returns a folder with files and packages of these names, which is first on the path of every Python that starts
    there.
    """
    folder = tmp_path / "project"
    for place in (*(f"{name}.py" for name in FILES), *(f"{name}/__init__.py" for name in FOLDERS)):
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / place).write_text('NAME = "the project\'s"\n')
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return folder


def run(project, *command):
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def own():
    return OWN.format(names=", ".join((*FILES, *FOLDERS)))


def test_pytest_plugin_works_beside_these_names(project):
    (project / "test_mine.py").write_text(own() + TESTS)
    shown = run(project, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    assert "1 passed" in shown


@pytest.mark.slow
@pytest.mark.spark
def test_spark_reads_beside_these_names(project, tmp_path):
    pytest.importorskip("pyspark")
    node = make_node(tmp_path / "data", 1)
    write_partition(node, "t", 0, data_batches(2))
    (project / "job.py").write_text(own() + JOB)
    told = json.loads(run(project, sys.executable, "job.py", str(node)).splitlines()[-1])
    assert told == {"rows": 20, "places": [["the project's", "trimaran.log"]]}


def test_commands_work_in_a_project_with_these_names(project):
    """Both ways to start a command work. A command that formats a directory imports everything except Spark."""
    script = Path(sysconfig.get_path("scripts"), "trimaran")
    for command in ([str(script)], [sys.executable, "-m", "trimaran"]):
        assert "storage" in run(project, *command, "--help")
    (project / "server.properties").write_text(
        "process.roles=broker,controller\nnode.id=1\nlisteners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0\n"
        f"controller.quorum.voters=1@127.0.0.1:9093\nlog.dirs={project}/data\n"
        "controller.listener.names=CONTROLLER\n"
    )
    formatted = run(project, script, "storage", "format", "-t", "a" * 22, "-c", "server.properties")
    assert (project / "data" / "meta.properties").exists(), formatted


def test_console_serves_beside_these_names(project):
    command = [sys.executable, "-m", "trimaran", "console", "-b", "127.0.0.1:1", "--listen"]
    with subprocess.Popen(
        [*command, "127.0.0.1:0"], cwd=project, stderr=subprocess.PIPE, text=True
    ) as running:
        try:
            url = re.search(r"http://127\.0\.0\.1:\d+/", running.stderr.readline())[0]
            with urllib.request.urlopen(f"{url}static/console.css", timeout=30) as answer:
                assert answer.status == 200
        finally:
            os.kill(running.pid, signal.SIGTERM)
        assert running.wait(30) == 0


def test_words_for_the_language_server_exist():
    """`./dev interop` looks up these words in an editor's language server; a change of a file may remove one."""
    missing = [
        (name, word)
        for name, word, home in ASKED
        if word not in (ROOT / name).read_text() or not (ROOT / home).is_file()
    ]
    assert missing == []
