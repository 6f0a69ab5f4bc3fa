"""Node directories in a bucket of a real s3 server (moto) and in a small HDFS of Hadoop, read by Spark through fsspec
drivers. Servers and drivers are installed only for the test, because the s3 server needs an older python-dateutil than
we pin.
"""

import json
import os
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cluster.processes import ROOT, until
from tests.interop import maven
from tests.spark.directories import checkpoint, data_batches, make_node, write_partition
from tests.spark.kafka_metadata.test_reading import standard, store

pytestmark = pytest.mark.spark

FSSPEC = "fsspec==2026.9.0"
S3 = ("s3fs==2026.9.0", FSSPEC, "moto[server]==5.2.5")
HDFS = ("hdfs-native==0.14.7", FSSPEC)
HADOOP = "3.4.1"
HADOOP_JARS = tuple(
    f"org.apache.hadoop:hadoop-client-{part}:{HADOOP}" for part in ("api", "runtime", "minicluster")
)
PROGRAM = Path(__file__).with_name("Hdfs.java")
STOP_SECONDS_MAX = 20
UPLOAD = """
import sys
import s3fs
address, directory = sys.argv[1:]
files = s3fs.S3FileSystem(key="k", secret="s", endpoint_url=address)
files.mkdir("kafka")
files.put(directory, "kafka/", recursive=True)
"""
JOB = """
import json, sys
import trimaran.spark as ts
url, directory, options = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
session = ts.session()
told = {}
for name, source, given in (
    ("records", "kafka_log", {"splitBytes": "2000", "includeHeaders": "true"}),
    ("history", "kafka_metadata", {"table": "partition_history"}),
    ("image", "kafka_metadata", {"table": "image"}),
):
    there = session.read.format(source).options(**given, **options).load(url).cache()
    here = session.read.format(source).options(**given).load(directory).cache()
    told[name] = {
        "rows": there.count(),
        "tasks": there.rdd.getNumPartitions(),
        "only_there": there.exceptAll(here).count(),
        "only_here": here.exceptAll(there).count(),
    }
print(json.dumps(told))
"""


def environ_with(installed, target):
    """Returns environment variables with which programs find these packages before those of the checkout."""
    install = (sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check")
    subprocess.run([*install, "--target", str(target), *installed], check=True, timeout=300)
    return {**os.environ, "PYTHONPATH": f"{target}{os.pathsep}{ROOT}"}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    root = tmp_path_factory.mktemp("data") / "data"
    for node_id in (1, 2, 3):
        store(root, node_id, standard().batches)
    broker = make_node(root, 11)
    batches = data_batches(40)
    for number in (0, 1):
        write_partition(broker, "orders", number, batches)
    checkpoint(broker, {("orders", 0): 400, ("orders", 1): 395})
    return root


@contextmanager
def s3(environ, log):
    """Starts an s3 server; yields its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with log.open("w") as out:
        process = subprocess.Popen(command, env=environ, stdout=out, stderr=out)
    try:
        until(lambda: "Running on" in log.read_text(), "a server of s3", 60)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(STOP_SECONDS_MAX)


@contextmanager
def hdfs(data, folder):
    """Starts a cluster of two data nodes with the data in `/kafka`; yields its address."""
    class_path = f"{maven.libraries(f'hadoop-{HADOOP}', HADOOP_JARS)}/*"
    command = ["java", "-Xmx512m", "-cp", class_path, str(PROGRAM), folder / "dfs", data, "/kafka"]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
        )
    with process:
        try:
            address = process.stdout.readline().decode().strip()
            assert address, (folder / "log").read_text()
            yield address
            process.stdin.close()
            process.wait(STOP_SECONDS_MAX)
        finally:
            process.kill()


def python(environ, program, *words):
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, words)],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def assert_read(environ, url, data, options):
    told = json.loads(python(environ, JOB, url, data, json.dumps(options)).splitlines()[-1])
    assert told["records"]["rows"] == 400 + 395
    assert told["records"]["tasks"] > 4
    assert all(case["rows"] > 0 for case in told.values())
    assert {case[side] for case in told.values() for side in ("only_there", "only_here")} == {0}


def test_bucket_is_read_like_its_directories(data, tmp_path):
    environ = environ_with(S3, tmp_path / "site")
    with s3(environ, tmp_path / "log") as address:
        python(environ, UPLOAD, address, data)
        options = {"endpoint_url": address, "key": "k", "secret": "s"}
        named = {f"storage.{name}": value for name, value in options.items()}
        assert_read(environ, "s3://kafka/data", data, named)


def test_hdfs_is_read_like_its_directories(data, tmp_path):
    environ = environ_with(HDFS, tmp_path / "site")
    with hdfs(data, tmp_path) as address:
        assert_read(environ, f"{address}/kafka", data, {})
