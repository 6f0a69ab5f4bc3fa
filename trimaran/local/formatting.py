"""Formats the directories of a local cluster, as `trimaran storage format` does for a node."""

from __future__ import annotations

from quorum.storage import format_directories
from trimaran.local.layout import ClusterPlan, write_properties
from trimaran.node import parse_config
from trimaran.properties import read_file


def format_cluster(plan: ClusterPlan) -> None:
    """Writes every node's properties file and formats its directory."""
    for node in plan.nodes:
        if node.role not in {"controller", "broker"}:
            continue
        write_properties(plan, node)
        format_directories(parse_config(read_file(node.properties_file)), plan.cluster_id)
