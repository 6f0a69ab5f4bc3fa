"""Offsets of old consumers in ZooKeeper: `/consumers/GROUP/offsets/TOPIC/PARTITION`, plain decimal text.

Implements `broker/groups/zookeeper_offsets.py` over a session of its own. A request never waits for a session: without
a session it fails immediately, and with one it may take `SECONDS_MAX`. These znodes belong to consumers, which write
them too, so there is no guard: the last writer wins. Source: `KafkaZkClient`, `ConsumerOffset` of Kafka 2.8.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import trio

from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import Offset, TopicPartition
from trimaran.zkcompat import events
from trimaran.zkcompat.tree.claim import TransactionStep
from trimaran.zkcompat.zookeeper.errors import (
    PathRefusedError,
    TransactionRefusedError,
    UncertainOutcomeError,
    UnsuitableZooKeeperError,
)
from trimaran.zkcompat.zookeeper.keeper import Keeper, open_keeper
from trimaran.zkcompat.zookeeper.session import KeeperConfig

log = logging.getLogger(__name__)


# The time for which clients of that era wait (`socket.timeout.ms` is 30 s, `offsets.channel.backoff.ms` 1 s); a healthy
# ZooKeeper takes milliseconds.
SECONDS_MAX = 5.0
# Applies to all connections of a broker together; further requests wait for their turn, within `SECONDS_MAX`.
REQUESTS_MAX = 16
# A transaction of this size is far below ZooKeeper's packet of a MiB: a path has at most two names of 255 bytes.
OFFSETS_IN_TRANSACTION = 500
# Other clients may delete or create parents between our reading and our writing.
ATTEMPTS = 3
GROUP_BYTES_MAX = 255


def offset_path(group: str, partition: TopicPartition) -> str:
    return f"/consumers/{group}/offsets/{partition.topic}/{partition.partition}"


def decode_offset(data: bytes | None) -> Offset | None:
    """Returns the offset; None if the data is not a number of 64 bits."""
    text = (data or b"").decode("ascii", "replace")
    if not text.removeprefix("-").isdecimal() or len(text) > 20:
        return None
    offset = Offset(text)
    return offset if -(1 << 63) <= offset < 1 << 63 else None


def check_group(group: str) -> None:
    """Raises KafkaError (INVALID_GROUP_ID) if the group cannot be the name of a znode below `/consumers`."""
    if (
        not group
        or group in (".", "..")
        or "/" in group
        or not group.isprintable()
        or len(group.encode()) > GROUP_BYTES_MAX
    ):
        raise KafkaError(ErrorCode.INVALID_GROUP_ID, f"no znode can be named {group!r}")


@dataclass(slots=True)
class ConsumerOffsets:
    """A `ZooKeeperOffsets`; created by `open_consumer_offsets`."""

    keeper: Keeper
    _limiter: trio.CapacityLimiter = field(
        default_factory=lambda: trio.CapacityLimiter(REQUESTS_MAX)
    )

    async def commit(self, group: str, offsets: Mapping[TopicPartition, Offset]) -> None:
        check_group(group)
        wanted = {offset_path(group, key): str(n).encode() for key, n in offsets.items()}
        async with self._limited():
            for run in _runs(list(wanted), OFFSETS_IN_TRANSACTION):
                await self._write({path: wanted[path] for path in run})

    async def fetch(
        self, group: str, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, Offset | None]:
        check_group(group)
        paths = {offset_path(group, key): key for key in partitions}
        async with self._limited():
            found = await self.keeper.read_tree((), paths)
            for path, znode in found.items():
                if znode.refusal:  # An omitted offset would look like an absent one.
                    raise PathRefusedError(path, znode.refusal)
        offsets = {paths[path]: decode_offset(znode.data) for path, znode in found.items()}
        for partition, offset in offsets.items():
            if offset is None:
                events.CONSUMER_OFFSETS_NO_NUMBER.log(log, path=offset_path(group, partition))
        return offsets

    @asynccontextmanager
    async def _limited(self) -> AsyncIterator[None]:
        """Limits concurrent requests and maps errors. Raises KafkaError (COORDINATOR_LOAD_IN_PROGRESS) if ZooKeeper is
        unavailable or slow.
        """
        try:
            with trio.fail_after(SECONDS_MAX):
                if not self.keeper.is_connected:
                    raise UncertainOutcomeError("not connected to ZooKeeper")
                async with self._limiter:
                    yield
        except PathRefusedError as error:
            raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED, error.path) from error
        except (UncertainOutcomeError, UnsuitableZooKeeperError, trio.TooSlowError) as error:
            why = str(error) or f"no answer within {SECONDS_MAX:.0f} s"
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"ZooKeeper: {why}") from error

    async def _write(self, wanted: Mapping[str, bytes]) -> None:
        """Writes the znodes; most exist already, since most offsets were committed before."""
        steps = [TransactionStep("set", path, data) for path, data in wanted.items()]
        for _ in range(ATTEMPTS):
            try:
                return await self.keeper.transact(steps)
            except TransactionRefusedError as refused:
                if refused.reason == "NoAuth":
                    raise KafkaError(
                        ErrorCode.GROUP_AUTHORIZATION_FAILED, steps[refused.index].path
                    ) from refused
            paths = list(_with_parents(wanted))
            found = await self.keeper.read_tree((), paths)
            if not found:
                await self.keeper.ensure("/", None)  # The chroot does not exist yet.
            steps = [
                TransactionStep("set" if path in found else "create", path, wanted.get(path))
                for path in paths
                if path in wanted or path not in found
            ]
        raise UncertainOutcomeError("others write the same znodes")


@asynccontextmanager
async def open_consumer_offsets(config: KeeperConfig) -> AsyncIterator[ConsumerOffsets]:
    """Connects in the background, for as long as the body runs."""
    async with open_keeper(config) as keeper, trio.open_nursery() as nursery:
        nursery.start_soon(_keep_connected, keeper)
        yield ConsumerOffsets(keeper)
        nursery.cancel_scope.cancel()


async def _keep_connected(keeper: Keeper) -> None:
    """Replaces a session that ZooKeeper does not resume, as after its data was wiped: the session owns nothing."""
    patience = 2 * keeper.config.session_timeout_ms / 1000
    connect = keeper.config.connect
    while True:
        losses = keeper.losses
        if await keeper.wait_connected(patience):
            await keeper.wait_lost(losses)
            events.CONSUMER_OFFSETS_LOST_ZOOKEEPER.log(log, connect=connect)
        else:
            events.CONSUMER_OFFSETS_NO_ZOOKEEPER.log(log, connect=connect)
            await keeper.close()
            keeper.connect(None)


def _runs(paths: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    return (paths[at : at + size] for at in range(0, len(paths), size))


def _with_parents(paths: Iterable[str]) -> dict[str, None]:
    """Returns the paths, each after its parents."""
    ordered: dict[str, None] = {}
    for path in paths:
        names = path.split("/")[1:]
        ordered.update(
            dict.fromkeys(f"/{'/'.join(names[:depth])}" for depth in range(1, len(names) + 1))
        )
    return ordered
