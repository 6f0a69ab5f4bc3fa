"""Configs of a resource as rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trimaran.client.connect import check

if TYPE_CHECKING:
    from wire.blocking import BlockingClient


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
    answer = client.call(node, DescribeConfigsRequest(resources=[asked]))
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
        "is_set": config.config_source != Source.DEFAULT,
    }
