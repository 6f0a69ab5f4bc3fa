"""Configs of a resource as rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from trimaran.errors.refused import Needs, check, check_resource
from trimaran.node.config.config_source import ConfigSource
from trimaran.quorum.metadata.image import CLIENT_METRICS_RESOURCE
from trimaran.wire.errors import RemoteProtocolError
from trimaran.wire.identity import NodeId
from trimaran.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from trimaran.wire.messages.list_config_resources import ListConfigResourcesRequest

if TYPE_CHECKING:
    from trimaran.wire.blocking import BlockingClient

# ConfigEntry.ConfigSource of Kafka's clients.
SOURCES = {
    1: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: "DEFAULT_CONFIG",
    6: "DYNAMIC_BROKER_LOGGER_CONFIG",
    7: "DYNAMIC_CLIENT_METRICS_CONFIG",
    8: "DYNAMIC_GROUP_CONFIG",
}


def resource_rows(client: BlockingClient, types: Sequence[int]) -> list[dict[str, Any]]:
    """Returns the resources of these types, Kafka's numbers, that have configs: all topics and brokers, the groups and
    client-metrics subscriptions with configs. Brokers before Kafka 4.1 list only client metrics.
    """
    # Brokers before Kafka 4.1 refuse a request that names types.
    named = [] if list(types) == [CLIENT_METRICS_RESOURCE] else list(types)
    response = client.call(None, ListConfigResourcesRequest(resource_types=named))
    check(response.error_code, None, needs=Needs("DESCRIBE_CONFIGS"))
    return [
        {"type": kind, "name": name}
        for kind, name in sorted(
            (resource.resource_type, resource.resource_name)
            for resource in response.config_resources
        )
        if kind in types
    ]


def config_rows(
    client: BlockingClient,
    resource_type: int,
    name: str,
    node: NodeId | None = None,
    keys: list[str] | None = None,
) -> list[dict[str, Any]]:
    """Returns the configs as rows by name; all of them if no `keys` are given. `node` serves the resource, None for any
    broker. Secrets are not shown.
    """
    told = reported_configs(client, resource_type, [name], node, keys, synonyms=True)[name]
    return [_row(config) for config in sorted(told, key=lambda one: str(one.name))]


def reported_configs(
    client: BlockingClient,
    resource_type: int,
    names: Sequence[str],
    node: NodeId | None = None,
    keys: list[str] | None = None,
    *,
    synonyms: bool = False,
) -> dict[str, Sequence[Any]]:
    """Returns for each resource the `DescribeConfigsResourceResult`s of the node, in its order.

    Raises:
        KafkaError: the request was refused.
        UserError: there is no such topic.
        RemoteProtocolError: the response has other resources than the request.
    """
    asked = [
        DescribeConfigsResource(
            resource_type=resource_type, resource_name=name, configuration_keys=keys
        )
        for name in names
    ]
    request = DescribeConfigsRequest(resources=asked, include_synonyms=synonyms)
    told = {}
    for result in client.call(node, request).results:
        name, code = result.resource_name, result.error_code
        check_resource(resource_type, name, code, result.error_message, "DESCRIBE_CONFIGS")
        told[name] = result.configs
    if told.keys() != set(names):
        raise RemoteProtocolError(f"the response must tell of {', '.join(names)} and nothing else")
    return told


def _row(config: Any) -> dict[str, Any]:
    sources = {source.value: source.name.lower() for source in ConfigSource}
    return {
        "name": config.name,
        "value": "(sensitive)" if config.is_sensitive else config.value,
        "source": sources.get(config.config_source, "unknown"),
        "read_only": config.read_only,
        "is_sensitive": config.is_sensitive,
        "synonyms": [
            {
                "source": SOURCES.get(synonym.source, "UNKNOWN"),
                "name": synonym.name,
                "value": synonym.value,
            }
            for synonym in config.synonyms
        ],
        "is_set": config.config_source != ConfigSource.DEFAULT,
        "config_source": SOURCES.get(config.config_source, "UNKNOWN"),
    }
