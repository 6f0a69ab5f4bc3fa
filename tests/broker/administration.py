"""Administration through a broker, for tests of more than one API."""

import trio

from wire.messages import describe_configs, incremental_alter_configs

SECONDS = 20.0


class Admin:
    """Asks one broker; `seen` waits until it knows what the controller has committed."""

    def __init__(self, running, connection):
        self.running, self.connection = running, connection

    async def call(self, request):
        return await self.connection.call(request, timeout=SECONDS)

    async def seen(self, predicate):
        with trio.fail_after(SECONDS):
            await self.running.context.metadata.wait_for(predicate)


def incremental(*resources, validate_only=False):
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


async def described(one, kind, name, *keys):
    resource = describe_configs.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=list(keys)
    )
    answer = await one.call(describe_configs.DescribeConfigsRequest(resources=[resource]))
    (result,) = answer.results
    assert not result.error_code, result.error_message
    return {config.name: config for config in result.configs}
