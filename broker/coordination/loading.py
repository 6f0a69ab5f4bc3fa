"""Loading a shard: the whole log of its partition, read and replayed in threads."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar

import trio

from trimaran.broker import events
from trimaran.broker.coordination.loader import CoordinatorLoader
from trimaran.broker.coordination.ports import CoordinatorLog
from trimaran.broker.coordination.shard import CoordinatorShard
from trimaran.broker.coordination.spec import CoordinatorSpec
from trimaran.log.segments.slices import LogSlice
from trimaran.node.runtime.threads import run_blocking

log = logging.getLogger(__name__)

S = TypeVar("S", bound=CoordinatorShard[Any])
R = TypeVar("R")


async def load_shard(
    spec: CoordinatorSpec[S, R], name: str, source: CoordinatorLog, is_wanted: Callable[[], bool]
) -> tuple[S, int]:
    """The shard that the log has led to, and the log's end.

    Nobody else appends to the log, so its end stays. Where a piece lies is looked up on the loop, which moves the log's
    files when they are compacted. What is not wanted any more is not read to the end.

    Raises:
        RemoteProtocolError: a record is malformed. KafkaError: KAFKA_STORAGE_ERROR.
    """
    loader, shard = CoordinatorLoader(spec.serde, compacted=spec.compacted), spec.make_shard()
    offset, end_offset = source.log_start_offset, source.log_end_offset
    began = trio.current_time()

    def take(piece: LogSlice) -> int | None:
        with source.storage(f"loading {name}"):
            data = piece.read()
        return loader.feed(data)

    def finish() -> None:
        loader.replay_into(shard, spec.taking_rows and spec.taking_rows(shard))
        shard.finish_load()

    while offset < end_offset and is_wanted():
        piece = source.read(offset, spec.load_buffer_bytes, upto_offset=end_offset, min_one=True)
        next_offset = None if piece is None else await run_blocking(take, piece)
        if next_offset is None:
            break
        offset = next_offset
    await run_blocking(finish)
    if loader.record_count:
        seconds = round(trio.current_time() - began, 3)
        events.COORDINATOR_LOADED.log(log, shard=name, records=loader.record_count, seconds=seconds)
    return shard, end_offset
