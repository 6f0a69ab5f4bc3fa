"""Formats the directories of a local cluster, as `trimaran storage format` does for a node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from trimaran.errors.config import of_config
from trimaran.local.layout import (
    CONTROLLER_LISTENER,
    ClusterPlan,
    NodePlan,
    properties_of,
    write_properties,
)
from trimaran.node.config.config_def import ConfigError
from trimaran.node.config.server import ServerConfig, parse
from trimaran.quorum.formatting.initial_voters import parse_initial_voters
from trimaran.quorum.formatting.storage import format_directories, random_uuid
from trimaran.quorum.raft.voters import VoterSet
from trimaran.settings.node_config import parse_config
from trimaran.settings.properties import PropertySetting, read_file


def format_cluster(plan: ClusterPlan) -> None:
    """Writes every node's properties file and formats its directory."""
    write_all_properties(plan)
    format_nodes(plan, _servers(plan))


def format_nodes(plan: ClusterPlan, nodes: Iterable[NodePlan]) -> None:
    """Formats the directories of the `nodes` that have one; their properties files exist already."""
    servers = [node for node in nodes if node in _servers(plan)]
    controllers = [node for node in servers if node.role == "controller"]
    voters = _first_voters(plan) if controllers and not plan.static_quorum else None
    for node in servers:
        config = parse_config(read_file(node.properties_file))
        format_directories(
            config, plan.cluster_id, voters=voters if node.role == "controller" else None
        )


def ensure_can_be_formatted(plan: ClusterPlan, nodes: Iterable[NodePlan]) -> None:
    """Raises the errors that writing the properties files and formatting these nodes would raise; writes nothing."""
    configs = {node.name: _config(properties_of(plan, node)) for node in _servers(plan)}
    for node in nodes:
        if node.name in configs:
            format_directories(configs[node.name], plan.cluster_id, dry_run=True)


def _first_voters(plan: ClusterPlan) -> VoterSet:
    """Returns all controllers, each with the id of its future directory."""
    listed = (f"{n.id}@{n.address}:{random_uuid()}" for n in plan.of_role("controller"))
    return parse_initial_voters(",".join(listed), CONTROLLER_LISTENER)


def write_all_properties(plan: ClusterPlan) -> None:
    """Writes every node's properties file; raises UserError and writes nothing if a setting is wrong."""
    for node in _servers(plan):
        _config(properties_of(plan, node))
    for node in _servers(plan):
        write_properties(plan, node)


def _config(properties: Mapping[str, str]) -> ServerConfig:
    try:
        return parse(
            {key: PropertySetting(value, "--override") for key, value in properties.items()}
        )
    except ConfigError as error:
        raise of_config(error) from error


def _servers(plan: ClusterPlan) -> list[NodePlan]:
    return [node for node in plan.nodes if node.role in {"controller", "broker"}]
