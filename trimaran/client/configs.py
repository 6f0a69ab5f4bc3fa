"""Configs of a resource as rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trimaran.client.connect import check

if TYPE_CHECKING:
    from wire.blocking import BlockingClient

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


def config_rows(
    client: BlockingClient,
    resource_type: int,
    name: str,
    node: int | None = None,
    keys: list[str] | None = None,
) -> list[dict[str, Any]]:
    """By name; all `keys` where none are given. `node` answers for it, None: any broker does. Secrets are not told."""
    from wire.client.answers import the_one
    from wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

    asked = DescribeConfigsResource(
        resource_type=resource_type, resource_name=name, configuration_keys=keys
    )
    answer = client.call(node, DescribeConfigsRequest(resources=[asked], include_synonyms=True))
    result = the_one(answer.results, "resource")
    check(result.error_code, result.error_message)
    return [_row(one) for one in sorted(result.configs, key=lambda one: str(one.name))]


def _row(config: Any) -> dict[str, Any]:
    from quorum.serving.config_entries import Source

    sources = {source.value: source.name.lower() for source in Source}
    return {
        "name": config.name,
        "value": "(sensitive)" if config.is_sensitive else config.value,
        "source": sources.get(config.config_source, "unknown"),
        "read_only": config.read_only,
        "is_sensitive": config.is_sensitive,
        "synonyms": [
            {
                "source": SOURCES.get(one.source, "UNKNOWN"),
                "name": one.name,
                "value": one.value,
            }
            for one in config.synonyms
        ],
        "is_set": config.config_source != Source.DEFAULT,
        "config_source": SOURCES.get(config.config_source, "UNKNOWN"),
    }
