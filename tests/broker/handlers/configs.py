"""Requests that alter and describe configs of any kind of resource."""

from __future__ import annotations

from typing import Any

from tests.broker.handlers.broker_client import BrokerClient
from trimaran.wire.messages import alter_configs, incremental_alter_configs
from trimaran.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32


def incremental(*resources: Any, validate_only: bool = False) -> Any:
    """Returns a request of incremental changes; `resources` are (type, name, {key: value})."""
    messages = incremental_alter_configs
    return messages.IncrementalAlterConfigsRequest(
        resources=[
            messages.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    messages.AlterableConfig(name=key, config_operation=0, value=value)
                    for key, value in configs.items()
                ],
            )
            for kind, name, configs in resources
        ],
        validate_only=validate_only,
    )


def replacing(*resources: Any, validate_only: bool = False) -> Any:
    """Returns a request that replaces all configs, as older clients send it."""
    messages = alter_configs
    return messages.AlterConfigsRequest(
        resources=[
            messages.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    messages.AlterableConfig(name=key, value=value)
                    for key, value in configs.items()
                ],
            )
            for kind, name, configs in resources
        ],
        validate_only=validate_only,
    )


def description(kind: int, name: str, *keys: str) -> DescribeConfigsRequest:
    """Returns a request that describes these keys, by default all of them."""
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=list(keys) or None
    )
    return DescribeConfigsRequest(resources=[resource])


async def described(one: BrokerClient, kind: int, name: str, *keys: str) -> dict[str, Any]:
    (result,) = (await one.call(description(kind, name, *keys))).results
    assert not result.error_code, result.error_message
    return {config.name: config for config in result.configs}
