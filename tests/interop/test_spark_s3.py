"""Node directories in a bucket of a real server of s3 (moto's), read by Spark through fsspec's driver.

Server and driver are installed for the test alone: the driver asks for an older python-dateutil than we pin.
"""

import json
import os
import socket
import subprocess
import sys

import pytest

from tests.cluster.processes import ROOT, until
from tests.spark.directories import checkpoint, data_batches, make_node, write_partition
from tests.spark.kafka_metadata.test_reading import standard, store

pytestmark = pytest.mark.spark

INSTALLED = ("s3fs==2026.9.0", "fsspec==2026.9.0", "moto[server]==5.2.5")
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
import spark as ts
address, url, directory = sys.argv[1:]
session = ts.session()
options = {"storage.endpoint_url": address, "storage.key": "k", "storage.secret": "s"}
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


@pytest.fixture(scope="module")
def environ(tmp_path_factory):
    """Of programs that find the driver and the server, before what the checkout's environment has."""
    target = tmp_path_factory.mktemp("s3") / "site"
    install = (sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check")
    subprocess.run([*install, "--target", str(target), *INSTALLED], check=True, timeout=300)
    return {**os.environ, "PYTHONPATH": f"{target}{os.pathsep}{ROOT}"}


@pytest.fixture(scope="module")
def address(environ, tmp_path_factory):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = tmp_path_factory.mktemp("moto") / "log"
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with log.open("w") as out:
        process = subprocess.Popen(command, env=environ, stdout=out, stderr=out)
    try:
        until(lambda: "Running on" in log.read_text(), "a server of s3", 60)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(STOP_SECONDS_MAX)


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


def test_a_bucket_is_read_as_the_directories_that_it_holds(environ, address, tmp_path):
    root = tmp_path / "data"
    for node_id in (1, 2, 3):
        store(root, node_id, standard().batches)
    broker = make_node(root, 11)
    batches = data_batches(40)
    for number in (0, 1):
        write_partition(broker, "orders", number, batches)
    checkpoint(broker, {("orders", 0): 400, ("orders", 1): 395})
    python(environ, UPLOAD, address, root)
    told = json.loads(python(environ, JOB, address, "s3://kafka/data", root).splitlines()[-1])
    assert told["records"]["rows"] == 400 + 395
    assert told["records"]["tasks"] > 4
    assert all(one["rows"] > 0 for one in told.values())
    assert {one[side] for one in told.values() for side in ("only_there", "only_here")} == {0}
