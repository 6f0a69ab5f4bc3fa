"""Mirrors of a real cluster that start and end, and one that is killed at a request."""

from contextlib import asynccontextmanager

import pytest
import trio

from tests.zkcompat.legacy.rig import ALL, mirroring
from tests.zkcompat.rig import PATIENCE
from trimaran.quorum.metadata.image import TOPIC_RESOURCE
from trimaran.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from trimaran.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from trimaran.zkcompat.legacy.admin import LegacyAdmin
from trimaran.zkcompat.legacy.controller_client import ControllerClient
from trimaran.zkcompat.legacy.requests.admin_requests import UndecidedError

NOTE = "/config/changes/config_change_"


class Killed(Exception):
    """Raised to end the mirror's process."""


class Killing:
    """A channel to the controller that ends the mirror at a request, before it is sent or after it was answered."""

    def __init__(self, controller, name, *, after):
        self.controller = controller
        self.name, self.after, self.asked = name, after, 0

    async def call(self, request):
        is_it = type(request).__name__ == self.name
        self.asked += is_it
        if is_it and not self.after:
            raise Killed
        response = await self.controller.call(request)
        if is_it:
            raise Killed
        return response


@asynccontextmanager
async def killed_at(running, connect, request_name, *, after, inner=None, **settings):
    """Runs a mirror during the body: it is killed at this request, or the test fails. `inner` creates the channel to a
    feed's controller.
    """
    killing = None

    def companion(feed):
        nonlocal killing
        way = ControllerClient(feed.leader_address) if inner is None else inner(feed)
        killing = Killing(way, request_name, after=after)
        return LegacyAdmin(killing, settings.get("kinds", ALL))

    with pytest.RaisesGroup(Killed, flatten_subgroups=True, allow_unwrapped=True):
        async with mirroring(running, connect, companion=companion, **settings) as found:
            yield found
            await trio.sleep(PATIENCE)
    assert killing.asked == 1


async def quorum_request(running, request):
    """Sends the request by Kafka's protocol, as an administrator would."""
    port = next(iter(running.voters.values()))
    with trio.fail_after(PATIENCE):
        while True:
            try:
                return await ControllerClient(lambda: ("127.0.0.1", port)).call(request)
            except UndecidedError:
                continue


def creating(*names):
    assignment = CreatableReplicaAssignment(partition_index=0, broker_ids=[11])
    topics = [
        CreatableTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[assignment],
            configs=[],
        )
        for name in names
    ]
    return CreateTopicsRequest(topics=topics)


def altering(topic, **configs):
    changes = [
        AlterableConfig(name=key.replace("_", "."), config_operation=0, value=value)
        for key, value in configs.items()
    ]
    resource = AlterConfigsResource(
        resource_type=TOPIC_RESOURCE, resource_name=topic, configs=changes
    )
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)


async def first_mirror(running, connect):
    """Runs a mirror until it has written everything."""
    async with mirroring(running, connect) as (feed, mirror):
        await in_step(feed, mirror)


async def in_step(feed, mirror):
    """Returns when the tree shows the quorum's current metadata."""
    with trio.fail_after(PATIENCE):
        await mirror.wait_status(lambda s: s.state == "in step")
        offset = feed.image.provenance.offset
        await mirror.wait_status(lambda s: s.published_offset >= offset)
