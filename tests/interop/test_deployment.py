"""The output of `trimaran generate systemd|compose|k8s` is valid, and its nodes form a cluster: each runs with the
environment, command and host name from the file. This needs root, because the names are in an /etc/hosts that only
these processes see.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.cluster.processes import trimaran, until
from tests.interop.test_package import Environment

VALIDATOR = "kubernetes-validate==1.37.0"
# Prints every document of a YAML file as a line of JSON. With --kubernetes each is validated by its kind's schema.
READ = """
import json, sys, yaml
for document in yaml.safe_load_all(open(sys.argv[1])):
    if "--kubernetes" in sys.argv:
        import kubernetes_validate
        kubernetes_validate.validate(document, "1.30", strict=True)
    print(json.dumps(document))
"""
NAMESPACE = "kafka"


@pytest.fixture(scope="module")
def documents(tmp_path_factory):
    """Reads YAML with a common parser."""
    path = tmp_path_factory.mktemp("yaml")
    reader = Environment(path / "venv")
    reader.pip("install", VALIDATOR, PIP_CONSTRAINT="", PIP_BUILD_CONSTRAINT="")

    def read(text, *words):
        file = path / "file.yaml"
        file.write_text(text)
        command = [reader.python, "-c", READ, file, *words]
        found = subprocess.check_output(command, text=True)
        return [json.loads(line) for line in found.splitlines()]

    return read


class Nodes:
    """Processes with a separate /etc/hosts, which has their names."""

    def __init__(self, path, names):
        self.path = path
        self.hosts = path / "hosts"
        self.addresses = {name: f"127.0.9.{number}" for number, name in enumerate(names, 1)}
        lines = [f"{address} {name}" for name, address in self.addresses.items()]
        self.hosts.write_text("\n".join(["127.0.0.1 localhost", *lines, ""]))
        self.running = []

    def inside(self, *words):
        """Returns a command line that runs with these names."""
        mount = f"mount --bind {self.hosts} /etc/hosts"
        return ["unshare", "-m", "sh", "-c", f'{mount} && exec "$@"', "sh", *map(str, words)]

    def start(self, name, environ, *words):
        data = self.path / name.partition(".")[0]
        data.mkdir()
        environ = {**os.environ, **environ, "KAFKA_LOG_DIRS": str(data)}
        with (self.path / f"{data.name}.log").open("w") as log:
            started = subprocess.Popen(self.inside(*words), env=environ, stderr=log, stdout=log)
        self.running.append(started)

    def check_cluster(self, bootstrap):
        """Waits until all brokers serve."""

        def run(*words, stdin=None):
            command = self.inside(sys.executable, "-m", "trimaran", *words, "-b", bootstrap)
            return subprocess.run(command, input=stdin, text=True, capture_output=True, check=False)

        create = ("topics", "create", "t", "-p", "6", "-r", "3")
        until(lambda: run(*create).returncode == 0, "a topic with three replicas", 120)
        assert run("produce", "t", stdin="hello\n").returncode == 0
        assert run("consume", "t", "-e").stdout == "hello\n"

    def stop(self):
        """Stops the brokers first, because their shutdown needs the controllers."""
        for process in reversed(self.running):
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        self.running.clear()


@contextlib.contextmanager
def nodes(path, names):
    if os.geteuid() != 0:
        pytest.fail("names of its own need root")
    made = Nodes(path, names)
    try:
        yield made
    finally:
        for process in made.running:
            process.kill()


def test_systemd_unit_is_valid(tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.fail("there is no systemd-analyze here: apt-get install systemd")
    file = tmp_path / "server.properties"
    file.write_text(
        "process.roles=controller\nnode.id=1\ncontroller.listener.names=C\nlisteners=C://h:2\n"
        f"controller.quorum.bootstrap.servers=h:2\nlog.dirs={tmp_path}\n"
    )
    unit = tmp_path / "trimaran.service"
    unit.write_text(trimaran("generate", "systemd", "-c", file, "--user", "root").stdout)
    command = ["systemd-analyze", "verify", "--man=no", unit]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "trimaran.service" not in done.stderr


def test_nodes_of_compose_file_form_a_cluster(documents, tmp_path):
    (file,) = documents(trimaran("generate", "compose").stdout)
    services = file["services"]
    assert len(services) == 6
    assert {
        mount.partition(":")[0] for service in services.values() for mount in service["volumes"]
    } == set(file["volumes"])
    with nodes(tmp_path, services) as running:
        for name, service in services.items():
            environ = dict(service["environment"])
            running.start(name, environ, sys.executable, "-m", "trimaran.container")
        running.check_cluster("broker-11:9092")
        running.stop()


def test_pods_of_manifest_form_a_cluster(documents, tmp_path):
    found = documents(trimaran("generate", "k8s").stdout, "--kubernetes")
    (config,) = (item["data"] for item in found if item["kind"] == "ConfigMap")
    pods = {
        f"{item['metadata']['name']}-{ordinal}": item
        for item in found
        if item["kind"] == "StatefulSet"
        for ordinal in range(item["spec"]["replicas"])
    }
    assert len(pods) == 6
    names = {}
    for pod, manifest in pods.items():
        host = f"{pod}.{manifest['spec']['serviceName']}"
        names[pod] = f"{host} {host}.{NAMESPACE}.svc"  # as the search list of a pod has it
    # The image's python3 is the one that has trimaran.
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    with nodes(tmp_path, names.values()) as running:
        for pod, manifest in pods.items():
            (container,) = manifest["spec"]["template"]["spec"]["containers"]
            address = running.addresses[names[pod]]
            given = {"HOSTNAME": pod, "POD_IP": address, "NAMESPACE": NAMESPACE, "PATH": path}
            own = {entry["name"]: entry.get("value") for entry in container["env"]}
            environ = config | {name: text for name, text in own.items() if text} | given
            assert set(own) <= environ.keys()
            running.start(pod, environ, *container["command"])
        bootstrap = f"trimaran-broker-0.trimaran-broker.{NAMESPACE}.svc:9092"
        running.check_cluster(bootstrap)
        for pod, manifest in pods.items():
            check_probes(manifest, running.addresses[names[pod]])
        running.stop()


def check_probes(stateful_set, address):
    (container,) = stateful_set["spec"]["template"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
        probe = container[kind]["httpGet"]
        url = f"http://{address}:{ports[probe['port']]}{probe['path']}"
        with urllib.request.urlopen(url, timeout=10) as response:
            assert response.status == 200
