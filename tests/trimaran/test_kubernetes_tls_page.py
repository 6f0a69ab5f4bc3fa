"""docs/kubernetes_tls.md: its patches change a generated manifest into one whose nodes use TLS only."""

import re
from pathlib import Path

import pytest
import trustme
import yaml

from tests.interop.manual import blocks
from trimaran.container import settings_of
from trimaran.deployment.kubernetes import manifest
from trimaran.node.security.listener_security import controller_security, inter_broker_security
from trimaran.settings.node_config import parse_config

PAGE, MOUNTED = "kubernetes_tls.md", "/etc/trimaran/tls"
NODE_IDS = {"controller": "1", "broker": "101"}
NAMES = {"HOSTNAME": "trimaran-broker-1", "NAMESPACE": "kafka", "POD_IP": "10.0.0.7"}


def documents():
    text = manifest("trimaran", "trimaran", "MkU3OEVBNTcwNTJENDM2Qg", 3, 3, "10Gi")
    return list(yaml.safe_load_all(text.replace("PLAINTEXT://", "SSL://")))


def patched():
    """Returns the documents of the manifest with the page's patches, which only add."""
    found = documents()
    (_, kustomization) = map(yaml.safe_load, blocks(PAGE, "yaml"))
    for patch in kustomization["patches"]:
        wanted = [each for each in found if patch["target"].items() <= named(each).items()]
        assert wanted
        for document in wanted:
            for operation in yaml.safe_load(patch["patch"]):
                assert operation["op"] == "add"
                add(document, operation["path"].split("/")[1:], operation["value"])
    return found


def named(document):
    return {"kind": document["kind"], "name": document["metadata"]["name"]}


def add(document, path, value):
    *parents, last = path
    for key in parents:
        document = document[int(key) if isinstance(document, list) else key]
    if last == "-":
        document.append(value)
    else:
        document[last] = value


@pytest.fixture
def certificates(tmp_path):
    """A directory like the volume of the secret."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.crt"))
    pem = authority.issue_cert("trimaran").private_key_and_cert_chain_pem
    pem.write_to_path(str(tmp_path / "tls-combined.pem"))
    return tmp_path


def environment(role, certificates):
    """Returns the environment of a pod: the ConfigMap, the container's variables, and what its script exports."""
    found = {named(each)["kind"] + named(each)["name"]: each for each in patched()}
    pod = found[f"StatefulSettrimaran-{role}"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert {"name": "tls", "secret": {"secretName": "trimaran-tls"}} in pod["volumes"]
    assert MOUNTED in [mount["mountPath"] for mount in container["volumeMounts"]]
    values = {**found["ConfigMaptrimaran"]["data"], "KAFKA_NODE_ID": NODE_IDS[role]}
    values |= {each["name"]: each["value"] for each in container["env"] if "value" in each}
    for name, value in re.findall(r"export (\w+)=(\S+)", container["command"][-1]):
        if name not in values:
            values[name] = re.sub(r"\$(\w+)", lambda found: NAMES[found[1]], value)
    return {key: value.replace(MOUNTED, str(certificates)) for key, value in values.items()}


@pytest.mark.parametrize("role", ["broker", "controller"])
def test_patched_nodes_speak_tls_only(role, certificates):
    values = environment(role, certificates)
    config = parse_config(settings_of(values, Path("missing")))
    listeners = [*config.controller_listeners, *config.advertised_broker_listeners]
    assert {config.protocol_of(listener.name) for listener in listeners} == {"SSL"}
    assert controller_security(config).tls is not None
    assert role == "controller" or inter_broker_security(config).tls is not None
