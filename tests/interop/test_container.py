"""The image of `Containerfile`: built by buildah from the tracked files alone, with a node that runs as the image
specifies, in its root and as its user. Needs root, or a machine where buildah works without, and the packages `buildah`
and `debootstrap`. `TRIMARAN_BASE_IMAGE` names the base image of both stages, which then has a C compiler; otherwise a
Debian with Python is built for each, because a registry may be out of reach.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.cluster.processes import trimaran
from trimaran.node.runtime.ports import HOST, port_of, reserve

ROOT = Path(__file__).resolve().parents[2]
PYTHON = "python3,python3-venv,ca-certificates"
COMPILER = f"{PYTHON},gcc,libc6-dev,python3-dev"
# Settings to reach the registry of packages during the build; the image does not keep them.
FROM_HERE = ("/etc/pip.conf", "/etc/ssl/certs")


class Buildah:
    """buildah with a separate storage."""

    def __init__(self, path):
        self._words = ["buildah", "--storage-driver", "vfs"]
        self._words += ["--root", str(path / "storage"), "--runroot", str(path / "run")]

    def command(self, *words):
        return [*self._words, *map(str, words)]

    def __call__(self, *words):
        done = subprocess.run(self.command(*words), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        return done.stdout.strip()


@pytest.fixture(scope="module")
def buildah(tmp_path_factory):
    for tool in ("buildah", "debootstrap"):
        if shutil.which(tool) is None:
            pytest.fail(f"there is no {tool} here: apt-get install {tool}")
    path = tmp_path_factory.mktemp("buildah")
    found = Buildah(path)
    yield found
    found("rm", "--all")
    shutil.rmtree(path, ignore_errors=True)


def make_base(buildah, path, name, packages):
    """Builds a Debian with these packages only."""
    command = ["debootstrap", "--variant=minbase", f"--include={packages}", "bookworm", path]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    container = buildah("from", "scratch")
    buildah("add", "--quiet", container, path, "/")
    buildah("commit", "--quiet", container, name)
    return name


@pytest.fixture(scope="module")
def image(buildah, tmp_path_factory):
    base = builder = os.environ.get("TRIMARAN_BASE_IMAGE")
    if base is None:
        roots = tmp_path_factory.mktemp("roots")
        base = make_base(buildah, roots / "base", "localhost/bare", PYTHON)
        builder = make_base(buildah, roots / "builder", "localhost/compiler", COMPILER)
    context = tmp_path_factory.mktemp("context")
    archive = subprocess.check_output(["git", "archive", "HEAD"], cwd=ROOT)
    subprocess.run(["tar", "-x", "-C", context], input=archive, check=True)
    mounts = [f"--volume={path}:{path}:ro" for path in FROM_HERE if Path(path).exists()]
    arguments = ["--isolation=chroot", "--format=docker", f"--build-arg=BASE={base}"]
    arguments += [f"--build-arg=BUILDER={builder}", *mounts]
    buildah("build", *arguments, "-f", context / "Containerfile", "-t", "trimaran", context)
    return json.loads(buildah("inspect", "--type", "image", "trimaran"))["Docker"]["config"]


def test_image_declares_how_it_is_run(image):
    assert image["User"] == "1000:1000"
    assert image["Healthcheck"]["Test"][0] == "CMD"
    assert "/var/lib/kafka/data" in image["Volumes"]
    assert not [text for text in image["Env"] if "PIP" in text or "KAFKA" in text]


@pytest.mark.parametrize("variables", ["none", "many"])
def test_node_of_image_serves_and_stops_cleanly(buildah, image, variables):
    """By default it listens on 9092, which must be free here."""
    environ, bootstrap = {}, "localhost:9092"
    if variables == "many":
        with reserve() as one, reserve() as two, reserve() as three:
            bootstrap, controller, metrics = (f"{HOST}:{port_of(x)}" for x in (one, two, three))
        environ = {
            "CLUSTER_ID": "5L6g3nShT-eMCtK--X86sw",
            "KAFKA_PROCESS_ROLES": "broker,controller",
            "KAFKA_NODE_ID": "7",
            "KAFKA_LISTENERS": f"PLAINTEXT://{bootstrap},CONTROLLER://{controller}",
            "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
            "KAFKA_CONTROLLER_QUORUM_VOTERS": f"7@{controller}",
            "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
            "KAFKA_TRIMARAN_METRICS_LISTENER": metrics,
        }
    container = buildah("from", "trimaran")
    for name, text in environ.items():
        buildah("config", "--env", f"{name}={text}", container)

    def inside(words):
        return buildah.command("run", "--isolation=chroot", container, "--", *words)

    health = inside(image["Healthcheck"]["Test"][1:])
    assert subprocess.run(health, check=False, stderr=subprocess.DEVNULL).returncode == 1
    with node_of(inside(image["Entrypoint"])) as run:
        lines = []
        for line in run.stderr:
            lines.append(line)
            if '"event": "node.started"' in line:
                break
        assert lines, "the node said nothing"
        assert "node.started" in lines[-1], "".join(lines)
        assert subprocess.run(health, check=False).returncode == 0
        trimaran("topics", "create", "t", "-b", bootstrap)
        trimaran("produce", "t", "-b", bootstrap, stdin="hello\n")
        assert trimaran("consume", "t", "-e", "-b", bootstrap).stdout == "hello\n"
        (node,) = nodes_below(run.pid)
        status = Path(f"/proc/{node}/status").read_text()
        assert "\nUid:\t1000\t1000\t1000\t1000\n" in status
        os.kill(node, signal.SIGTERM)
        rest = run.stderr.read()
    assert run.returncode == 0, rest
    assert "node.stopping" in rest


@contextlib.contextmanager
def node_of(command):
    """Runs a node until the end of the block, which ends its whole process group, because processes inside would
    outlive their parent.
    """
    popen = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    with popen as run:
        try:
            yield run
        finally:
            if run.poll() is None:
                os.killpg(run.pid, signal.SIGKILL)


def nodes_below(pid):
    """Returns the descendants of a process that run the image's program; any thread may have started them."""
    found = []
    tasks = Path(f"/proc/{pid}/task").iterdir()
    for child in " ".join((task / "children").read_text() for task in tasks).split():
        words = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
        found += (
            [int(child)] if words[1:3] == [b"-m", b"trimaran.container"] else nodes_below(child)
        )
    return found
