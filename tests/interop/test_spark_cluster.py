"""Our sources on a standalone Spark: a master and two workers, each worker with a separate environment. The
environments have our wheel and its dependencies, and no access to the checkout.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.cluster.processes import ROOT, until
from tests.spark.directories import checkpoint, data_batches, make_node, write_partition
from tests.spark.kafka_metadata.test_reading import standard, store

pytestmark = pytest.mark.spark

JOB = Path(__file__).with_name("spark_job.py")
DEPLOY = "org.apache.spark.deploy"
STOP_SECONDS_MAX = 20


def run(*command, **options):
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, check=False, timeout=300, **options
    )
    assert done.returncode == 0, f"{command}: {done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Builds the wheel from a copy, because setuptools writes next to the sources."""
    folder = tmp_path_factory.mktemp("wheel")
    left_out = shutil.ignore_patterns(".venv", ".git", "build", "*.so", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT, folder / "source", ignore=left_out)
    pinned = {f"PIP{kind}_CONSTRAINT": str(ROOT / "constraints.txt") for kind in ("", "_BUILD")}
    command = (sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder)
    run(*command, folder / "source", env={**os.environ, **pinned})
    [made] = folder.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def environments(tmp_path_factory, wheel):
    """Creates two environments, as on two machines."""
    made = []
    for name in ("one", "two"):
        environment = tmp_path_factory.mktemp("environments") / name
        run(sys.executable, "-m", "venv", environment)
        install = (environment / "bin" / "python", "-m", "pip", "install", "-q")
        constraint = ("--disable-pip-version-check", "-c", ROOT / "constraints.txt")
        run(*install, *constraint, f"trimaran[spark] @ file://{wheel}")
        made.append(environment)
    return made


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    root = tmp_path_factory.mktemp("data")
    for node_id in (1, 2, 3):
        store(root, node_id, standard().batches)
    broker = make_node(root, 11)
    batches = data_batches(40)
    for number in (0, 1):
        write_partition(broker, "orders", number, batches)
    checkpoint(broker, {("orders", 0): 400, ("orders", 1): 400})
    return root


def home_of(environment):
    [home] = environment.glob("lib/python*/site-packages/pyspark")
    return home


def environ_of(environment):
    """Returns the environment variables of a machine with only this Python environment; executors start `python3`."""
    path = f"{environment}/bin{os.pathsep}{os.environ['PATH']}"
    kept = {key: os.environ[key] for key in ("HOME", "JAVA_HOME", "LANG") if key in os.environ}
    return {
        **kept,
        "PATH": path,
        "SPARK_HOME": str(home_of(environment)),
        "PYSPARK_PYTHON": "python3",
    }


@contextmanager
def daemon(environment, folder, main, *words):
    """Runs the master or a worker, in a separate folder."""
    folder.mkdir()
    command = [home_of(environment) / "bin" / "spark-class", f"{DEPLOY}.{main}", *words]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            list(map(str, command)), cwd=folder, env=environ_of(environment), stdout=log, stderr=log
        )
    try:
        yield folder / "log"
    finally:
        process.terminate()
        process.wait(STOP_SECONDS_MAX)


@contextmanager
def cluster(environments, root):
    """Starts a cluster; yields its address once both workers are registered."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"spark://127.0.0.1:{port}"
    place = ("--host", "127.0.0.1", "--webui-port", "0")
    with ExitStack() as stack:
        master = ("master.Master", *place, "--port", port)
        log = stack.enter_context(daemon(environments[0], root / "master", *master))
        until(lambda: "New state: ALIVE" in log.read_text(), "a master", 60)
        for number, environment in enumerate(environments):
            folder = root / f"worker-{number}"
            size = ("--cores", "1", "--memory", "1g")
            worker = ("worker.Worker", *place, *size, "-d", folder / "work", address)
            stack.enter_context(daemon(environment, folder, *worker))
        until(lambda: log.read_text().count("Registering worker") == 2, "two workers", 60)
        yield address


def check(told, environments, from_zip):
    assert (told["rows"], told["distinct"]) == (800, 800)
    assert told["tasks"] > 4
    assert told["states"] > 0
    prefixes = {prefix for prefix, _ in told["executors"]}
    assert prefixes == {str(environment) for environment in environments}
    for _, file in told["executors"]:
        assert ("trimaran.zip/" in file) is from_zip
        assert not Path(file).is_relative_to(ROOT)


def test_session_on_cluster_finds_our_code(environments, data, tmp_path):
    with cluster(environments, tmp_path) as address:
        python = environments[0] / "bin" / "python"
        out = run(python, JOB, address, data, cwd=tmp_path, env=environ_of(environments[0]))
    check(json.loads(out.splitlines()[-1]), environments, from_zip=False)


def test_spark_submit_with_our_code_as_a_file(environments, wheel, data, tmp_path):
    """The executors have our dependencies, but not our package."""
    for environment in environments:
        run(environment / "bin" / "python", "-m", "pip", "uninstall", "-q", "-y", "trimaran")
    sent = tmp_path / "trimaran.zip"
    shutil.copy(wheel, sent)
    with cluster(environments, tmp_path) as address:
        submit = home_of(environments[0]) / "bin" / "spark-submit"
        words = ("--master", address, "--conf", "spark.executor.memory=512m", "--py-files", sent)
        environ = {**environ_of(environments[0]), "SPARK_LOCAL_IP": "127.0.0.1"}
        out = run(submit, *words, JOB, "", data, cwd=tmp_path, env=environ)
    check(json.loads(out.splitlines()[-1]), environments, from_zip=True)
