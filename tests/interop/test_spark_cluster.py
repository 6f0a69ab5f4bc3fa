"""Our sources on a standalone Spark: a master and two workers, each worker with a separate environment. The
environments have our wheel and its dependencies, and no access to the checkout.
"""

import json
import os
import re
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
    """Returns the environment variables of a machine with only this Python environment."""
    path = f"{environment}/bin{os.pathsep}{os.environ['PATH']}"
    kept = {key: os.environ[key] for key in ("HOME", "JAVA_HOME", "LANG") if key in os.environ}
    return {
        **kept,
        "PATH": path,
        "SPARK_HOME": str(home_of(environment)),
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


def registered(log):
    """Returns the addresses of workers; a slow one registers twice."""
    return set(re.findall(r"Registering worker (\S+)", log.read_text()))


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
        until(lambda: len(registered(log)) == 2, "two workers", 60)
        yield address


def check(told, prefixes, *, from_zip=False):
    """Checks the counts of a job, and where executors found Python and our package."""
    assert (told["rows"], told["distinct"], told["streamed"]) == (800, 800, 800)
    assert told["tasks"] > 4
    assert told["states"] > 0
    assert {prefix for prefix, _ in told["executors"]} == set(map(str, prefixes))
    for _, file in told["executors"]:
        assert ("trimaran.zip/" in file) is from_zip
        assert not Path(file).is_relative_to(ROOT)


def test_session_on_cluster_finds_our_code(environments, data, tmp_path):
    """Without any setting executors run the Python of the driver, by its path."""
    with cluster(environments, tmp_path) as address:
        python = environments[0] / "bin" / "python"
        told = ran([python, JOB, address, data], tmp_path, environ_of(environments[0]))
    check(told, [environments[0]])


def test_named_python_is_that_of_each_machine(environments, data, tmp_path):
    with cluster(environments, tmp_path) as address:
        python = environments[0] / "bin" / "python"
        environ = {**environ_of(environments[0]), "PYSPARK_PYTHON": "python3"}
        told = ran([python, JOB, address, data], tmp_path, environ)
    check(told, environments)


def test_session_sends_a_packed_environment(environments, data, tmp_path):
    """The recipe of docs/spark.md for YARN and Kubernetes, on workers without our code."""
    packed = tmp_path / "environment.tar.gz"
    run("tar", "-czf", packed, "-C", environments[0], ".")
    (tmp_path / "environment").mkdir()
    run("tar", "-xzf", packed, "-C", tmp_path / "environment")
    python = "./environment/bin/python"
    with cluster(environments, tmp_path) as address:
        environ = {**environ_of(environments[0]), "PATH": os.environ["PATH"]}
        sent = f"spark.archives={packed}#environment"
        told = ran(
            [python, JOB, address, data, sent, f"spark.pyspark.python={python}"], tmp_path, environ
        )
    prefixes = {Path(prefix) for prefix, _ in told["executors"]}
    assert all(prefix.name == "environment" and "work" in prefix.parts for prefix in prefixes)
    check(told, prefixes)


@pytest.mark.parametrize("how", ["register", "found"])
def test_spark_submit_with_our_code_as_a_file(how, bare_environments, wheel, data, tmp_path):
    """The executors have our dependencies, but not our package."""
    sent = tmp_path / "trimaran.zip"
    shutil.copy(wheel, sent)
    with cluster(bare_environments, tmp_path) as address:
        submit = home_of(bare_environments[0]) / "bin" / "spark-submit"
        words = ("--master", address, "--conf", "spark.executor.memory=512m", "--py-files", sent)
        environ = {
            **environ_of(bare_environments[0]),
            "PYSPARK_PYTHON": "python3",
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        if how == "found":
            environ["PYTHONPATH"] = str(sent)
        told = ran([submit, *words, JOB, how, data], tmp_path, environ)
    check(told, bare_environments, from_zip=True)


def ran(command, folder, environ):
    return json.loads(run(*command, cwd=folder, env=environ).splitlines()[-1])


@pytest.fixture(scope="module")
def bare_environments(environments):
    """Takes our package out of the environments; tests that need it come first."""
    for environment in environments:
        run(environment / "bin" / "python", "-m", "pip", "uninstall", "-q", "-y", "trimaran")
    return environments
