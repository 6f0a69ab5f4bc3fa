"""The controller of the simulation, with the features, topics and group configs of share groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.coordinators.controller import CoordinatorController
from tests.simulation.shares.rules import (
    ALTERED,
    NO_QUEUE,
    QUEUE,
    QUEUE_REFUSED,
    STEADY,
)
from trimaran.quorum.metadata.features import ELR_VERSION, SHARE_VERSION, first_levels
from trimaran.quorum.metadata.image import GROUP_RESOURCE
from trimaran.wire.records.configs import ConfigRecord

if TYPE_CHECKING:
    from tests.simulation.shares.world import SharesWorld


class ShareController(CoordinatorController):
    world: SharesWorld

    def first_levels(self) -> dict[str, int]:
        return first_levels(
            {ELR_VERSION: int(self.world.rules.elr), "group.version": 1, SHARE_VERSION: 2}
        )

    def topic_configs(self, name: str) -> dict[str, object]:
        configs = super().topic_configs(name)
        if name == QUEUE and self.world.rules.queue != QUEUE_REFUSED:
            configs["errors.deadletterqueue.group.enable"] = "true"
        return configs

    def configure_groups(self) -> None:
        rules = self.world.rules
        configs = {"share.auto.offset.reset": rules.reset}
        if rules.queue != NO_QUEUE:
            configs["errors.deadletterqueue.topic.name"] = QUEUE
        self.write(
            [
                ConfigRecord(
                    resource_type=GROUP_RESOURCE, resource_name=group, name=key, value=value
                )
                for group in (STEADY, ALTERED)
                for key, value in configs.items()
            ]
        )
