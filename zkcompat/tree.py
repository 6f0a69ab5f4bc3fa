"""What the mirror's part of the ZooKeeper tree is, and when two contents count as the same. Pure.

Owned wholly: everything below `/brokers/ids`, `/brokers/topics`, `/config/topics` and `/config/brokers`; whatever
stands there and is not in the image is extra. Owned singly: `/cluster/id`, `/feature`, `/latest_producer_id_block` and
the standing parents (their existence only). Everything else belongs to others: old consumers, old admin tools, later
parts of the mirror. `/controller`, `/controller_epoch` and `/migration` are the claim (`claim.py`), not part of the
rendered tree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from zkcompat.znodes import (
    BROKER_IDS,
    BROKER_TOPICS,
    CONFIG_BROKERS,
    CONFIG_TOPICS,
    STANDING_PARENTS,
    BrokerInfo,
    ClusterId,
    Feature,
    PartitionState,
    ProducerIdBlock,
    decode_or_none,
)

OWNED_ROOTS = (BROKER_IDS, BROKER_TOPICS, CONFIG_TOPICS, CONFIG_BROKERS)
SINGLE_PATHS = (ClusterId.PATH, Feature.PATH, ProducerIdBlock.PATH, *STANDING_PARENTS)

_EXISTENCE_ONLY = frozenset(STANDING_PARENTS)


@dataclass(frozen=True, slots=True)
class Znode:
    """A znode as it should be: `data` None is no data."""

    data: bytes | None
    ephemeral: bool = False


@dataclass(frozen=True, slots=True)
class FoundZnode:
    """A znode as it was read; `owner` is the session of an ephemeral one, else 0."""

    data: bytes | None
    owner: int = 0
    version: int = 0


Tree = Mapping[str, Znode]
FoundTree = Mapping[str, FoundZnode]


def is_owned(path: str) -> bool:
    """True below an owned root: there nothing else may stand."""
    return path.startswith(tuple(f"{root}/" for root in OWNED_ROOTS))


def same_data(path: str, expected: bytes | None, found: bytes | None) -> bool:
    """True when nothing needs writing.

    Two members tell about the writing and not about the cluster, and are left out: the timestamp of a broker, and the
    controller epoch of a partition state as long as it is not ahead of ours (only changed states are written).
    """
    if (expected or b"") == (found or b"") or path in _EXISTENCE_ONLY:
        return True
    if path.startswith(f"{BROKER_IDS}/"):
        return _same_but_timestamp(expected, found)
    if path.endswith("/state") and path.startswith(f"{BROKER_TOPICS}/"):
        return _same_but_controller_epoch(expected, found)
    return False


def _same_but_timestamp(expected: bytes | None, found: bytes | None) -> bool:
    wanted, actual = (
        decode_or_none(lambda d: BrokerInfo.decode(0, d), d) for d in (expected, found)
    )
    return (
        actual is not None
        and wanted is not None
        and wanted == replace(actual, timestamp_ms=wanted.timestamp_ms)
    )


def _same_but_controller_epoch(expected: bytes | None, found: bytes | None) -> bool:
    wanted, actual = (decode_or_none(PartitionState.decode, data) for data in (expected, found))
    if (
        wanted is None
        or actual is None
        or not 0 <= actual.controller_epoch <= wanted.controller_epoch
    ):
        return False
    return replace(actual, controller_epoch=wanted.controller_epoch).encode() == expected
