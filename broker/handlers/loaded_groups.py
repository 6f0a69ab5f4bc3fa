"""Delays requests about groups while their shard is being loaded, because some clients never retry.

A shard of a new `__consumer_offsets` opens within milliseconds, but the coordinator is announced earlier. Tools such as
`kafka.tools.ConsumerOffsetChecker` of Kafka 0.8.2 treat COORDINATOR_LOAD_IN_PROGRESS as fatal. Intentional difference:
Kafka returns that code immediately.
"""

from __future__ import annotations

from collections.abc import Iterable

from trimaran.broker.handlers.context import GroupContext
from trimaran.wire.transport.scheduling.effects import Blocking, Handling


def loaded(ctx: GroupContext, group_ids: Iterable[str]) -> Handling[None]:
    """Waits until the shards of these groups are loaded, at most `LOADED_SECONDS_MAX`; returns immediately if no shard
    of this broker is being loaded. Every handler of requests about groups begins with it.
    """
    if ctx.groups.runtime.is_loading:
        yield Blocking(lambda: ctx.groups.wait_loaded(group_ids))
