"""Requests about groups whose shard is being loaded: they wait for it, as some clients never ask again.

A shard of a new `__consumer_offsets` is opened within milliseconds, and the coordinator is announced before. Tools such
as `kafka.tools.ConsumerOffsetChecker` of Kafka 0.8.2 take COORDINATOR_LOAD_IN_PROGRESS for the end. Different from
Kafka, which answers that at once.
"""

from __future__ import annotations

from collections.abc import Iterable

from trimaran.broker.handlers.context import GroupContext
from trimaran.wire.transport.scheduling.effects import Blocking, Handling


def loaded(ctx: GroupContext, group_ids: Iterable[str]) -> Handling[None]:
    """Returns when the shards of these groups are loaded, or `LOADED_SECONDS_MAX` are over; at once while no shard of
    this broker is being loaded. Every handler of requests about groups begins with it.
    """
    if ctx.groups.runtime.is_loading:
        yield Blocking(lambda: ctx.groups.wait_loaded(group_ids))
