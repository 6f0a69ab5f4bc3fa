"""A client that changes something reads it from the same broker, however late that broker has the metadata."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.broker.handlers import acls, configs
from tests.broker.handlers.broker_client import AUTHORIZER, BrokerClient, broker_client
from tests.broker.handlers.test_alter_client_quotas import alteration
from tests.broker.handlers.test_alter_user_scram_credentials import upsertion
from tests.broker.handlers.test_create_partitions import growth
from tests.broker.handlers.test_create_topics import creation
from trimaran.quorum.metadata.image import MetadataImage
from trimaran.wire.identity import LeaderEpoch
from trimaran.wire.messages.delete_topics import DeleteTopicsRequest

KEY = "retention.ms"


def retention(image: MetadataImage) -> str | None:
    return image.configs.of(configs.TOPIC, "t").get(KEY)


# In this order: a change, and what a read of this broker's image then finds.
CHANGES = (
    (creation(), lambda image: "t" in image.topics.by_name),
    (growth(count=3), lambda image: len(image.topics.by_name["t"].partitions) == 3),
    (configs.incremental((configs.TOPIC, "t", {KEY: "7"})), lambda image: retention(image) == "7"),
    (configs.replacing((configs.TOPIC, "t", {KEY: "8"})), lambda image: retention(image) == "8"),
    (upsertion(), lambda image: len(image.scram) == 1),
    (alteration(), lambda image: len(image.quotas) == 1),
    (acls.creation(), lambda image: len(image.acls) == 1),
    (acls.deletion(), lambda image: not image.acls),
    (
        DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000),
        lambda image: "t" not in image.topics.by_name,
    ),
)


class LateMetadata:
    """A broker that applies what is committed only when a waiting client has made it ask the controller."""

    def __init__(self, one: BrokerClient, monkeypatch: pytest.MonkeyPatch) -> None:
        self.applier: Any = one.broker.parts.quorum.node._applier
        reach: Any = one.broker.contexts.administration.forwarder._caught_up
        read_index = reach.__self__
        self.wake, self.ask = self.applier.wake, read_index._committed
        self.is_held = True
        monkeypatch.setattr(self.applier, "wake", lambda: self.is_held or self.wake())
        monkeypatch.setattr(read_index, "_committed", self.release)

    async def release(self) -> Any:
        committed = await self.ask()
        self.is_held = False
        self.applier.wake_later()
        return committed


async def test_client_reads_its_own_changes_at_once(tmp_path, monkeypatch):
    async with broker_client(tmp_path, **AUTHORIZER) as one:
        late = LateMetadata(one, monkeypatch)
        for request, is_seen in CHANGES:
            late.is_held = True
            version = 5 if isinstance(request, DeleteTopicsRequest) else None
            await one.call(request, version)
            assert is_seen(one.image), request


async def test_late_broker_asks_with_epoch_of_leader(tmp_path):
    async with broker_client(tmp_path) as one:
        reach: Any = one.broker.contexts.administration.forwarder._caught_up
        late = one.image.provenance._replace(epoch=LeaderEpoch(0))
        one.broker.parts.metadata.image = replace(one.image, provenance=late)
        leader = one.broker.parts.quorum.node.leader.value
        assert leader.epoch > 0
        assert reach.__self__._epoch() == leader.epoch
