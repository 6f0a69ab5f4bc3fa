"""Requests about a kind of group are served only where the cluster and the broker enable the kind."""

from __future__ import annotations

from typing import Any

from trimaran.broker.groups.kinds import GroupKind
from trimaran.broker.handlers.context import GroupContext, SharingContext
from trimaran.wire.errors import ErrorCode, KafkaError


def check_served(ctx: GroupContext | SharingContext, kind: GroupKind[Any]) -> None:
    """Raises KafkaError UNSUPPORTED_VERSION if groups of the kind are disabled in the cluster or on this broker."""
    enabled_by = kind.enabled_by
    if enabled_by is None:
        return
    is_on = ctx.metadata.image.features.levels.get(enabled_by.feature, 0) >= 1
    if is_on and enabled_by.protocol:
        is_on = enabled_by.protocol in ctx.config["group.coordinator.rebalance.protocols"]
    if not is_on:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, enabled_by.refusal)
