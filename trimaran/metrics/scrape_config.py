"""A configuration of Prometheus for the nodes of a cluster, with the labels by which Strimzi's dashboards filter."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

SECONDS = 15


def scrape_config(
    nodes: Mapping[str, str], cluster: str, namespace: str, rules: Sequence[str]
) -> str:
    """Returns the configuration as YAML; `nodes` are addresses of metrics by name. Strings are JSON, which is valid
    YAML.
    """
    lines = [
        "global:",
        f"  scrape_interval: {SECONDS}s",
        f"  evaluation_interval: {SECONDS}s",
    ]
    if rules:
        lines += ["rule_files:", *(f"  - {json.dumps(rule)}" for rule in rules)]
    lines += ["scrape_configs:", f"  - job_name: {json.dumps(cluster)}", "    static_configs:"]
    for name, address in nodes.items():
        labels = {
            "namespace": namespace,
            "node_name": name,
            "kubernetes_pod_name": f"{cluster}-{name}",
            "container": "kafka",
            "strimzi_io_cluster": cluster,
            "strimzi_io_name": f"{cluster}-kafka",
        }
        lines += [f"      - targets: [{json.dumps(address)}]", "        labels:"]
        lines += [f"          {key}: {json.dumps(value)}" for key, value in labels.items()]
    return "\n".join([*lines, ""])
