"""Work on large messages that would hold the loop: decoding and encoding them, in a thread, one at a time.

Compiled decoders let others have their turn every few thousand elements; generated writers are plain Python.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from typing import TypeVar, TypeVarTuple

import trio

from trimaran.wire.transport.shares import Shares

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

# Frames above it are decoded in a thread, and handled in slices: below it ten thousand elements take some 30 ms at the
# worst.
HEAVY_BYTES = 16 << 10
# For Produce, whose bytes are records and not looked into: who allows no more than these has requests decoded at once,
# 3 ms, and refused in 30.
LIGHT_ELEMENTS_MAX = 12_000
# For requests about a quorum, or the nodes of a cluster, or with names of what there are few kinds of: dozens. Decoded
# at once, too.
FEW_ELEMENTS_MAX = 1000
# For requests about users, quotas, ACLs and members of a group, of which there are some hundred: 30 ms.
MANY_ELEMENTS_MAX = 10_000
# For changes of metadata, of which one may write 10,000 records (Kafka's MAX_RECORDS_PER_USER_OP): as many partitions
# with three replicas each, by hand.
DECISION_ELEMENTS_MAX = 60_000
# For changes of configs: as many records, each of another resource.
CONFIGS_ELEMENTS_MAX = 30_000
# For what may name every partition of a broker: 50,000, each with a topic of its own. It is worked on in turns; but the
# collector of garbage walks over all of it, and over the answer, at once: 40 ms.
PARTITIONS_ELEMENTS_MAX = 160_000
# For a leader that loses a follower of all its partitions: 50,000, each with an ISR.
ISRS_ELEMENTS_MAX = 300_000
# A request of more elements is taken out of the collector's sight, which would walk over it again and again, 10 ms and
# more each time: messages have no cycles, and are freed by counting references all the same. Others' cyclic garbage of
# that moment is never freed: a little, and few requests are so large.
FROZEN_ELEMENTS_MIN = 50_000

# What one takes, about.
ITEM_SECONDS = 0.05

_thread: trio.lowlevel.RunVar[tuple[trio.CapacityLimiter, Shares]] = trio.lowlevel.RunVar(
    "trimaran.wire.transport.heavy"
)


async def run_apart(fn: Callable[[*Ts], T], *args: *Ts, whom: Hashable = None) -> T:
    """Runs `fn(*args)` in the thread for such work; a second one would double what is held in memory.

    `whom` is the id of the connection that it is for: who has used the thread the least lately is next (`Shares`).
    """
    try:
        limiter, shares = _thread.get()
    except LookupError:
        limiter, shares = trio.CapacityLimiter(1), Shares()
        _thread.set((limiter, shares))
    await shares.enter(whom, ITEM_SECONDS)
    began = time.perf_counter()
    try:
        return await trio.to_thread.run_sync(fn, *args, limiter=limiter)
    finally:
        shares.leave(whom, time.perf_counter() - began)
