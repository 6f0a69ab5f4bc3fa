"""The form of a handler: a plain function, or a generator function that yields effects and returns the response.

    def handler(request, ctx, call) -> Response
    def handler(request, ctx, call) -> Handling[Response]

A generator function is for a request with many items, or a request whose response depends on an event.
It yields one of four effects; only the transport decides when it resumes, in which thread the work runs, and whether
the connection's next request may begin meanwhile:

    None      a boundary between two items: the request may pause here, so that other connections are served
    Compute   pure work: done immediately if it is short, otherwise in the compute thread; its result is sent back
    Blocking  an awaitable on which further effects of the request depend
    Wait      an awaitable on which only the response depends

Order of effects: the requests of a connection take effect in the order in which they arrived. While a request has
paused at `None`, `Compute` or `Blocking`, the next request of its connection does not begin. After the first `Wait` it
may begin, so a handler that has yielded a `Wait` may only create its response afterwards.

Errors: an exception of an effect is raised in the handler at its `yield`. A KafkaError that leaves the handler is
answered by `on_error` of `@handles`. When the connection closes, the generator is closed: its `finally` blocks run.

Memory: a generator keeps its request until the response is known, unless it deletes its reference before a `Wait` with
`holds_request=False`. A response that grows with the state of the node is encoded item by item (`Call.room`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias, TypeVar

from trimaran.wire.transport.scheduling.deadlines import PendingCall

R = TypeVar("R")
T = TypeVar("T")

# The items that `listed` visits between two pauses: a few milliseconds.
LISTED_A_STEP = 500
# Work that costs more runs in the compute thread: 1 to 3 ms of checking records.
INLINE_COST_MAX = 2 << 20
# The cost of visiting one item in Python, as bytes of `Compute`: 2 to 3 µs.
ITEM_COST_BYTES = 2 << 10


@dataclass(slots=True, frozen=True)
class Compute:
    """Pure work: `call` neither waits nor changes state that the event loop uses.

    Args:
        cost_bytes: the cost, in bytes of records that could be checked in the same time (about 1 ms per MiB);
        `ITEM_COST_BYTES` for each item that Python code visits. call: returns the value that `yield` evaluates to, or
        raises.
    """

    cost_bytes: int
    call: Callable[[], Any]


@dataclass(slots=True, frozen=True)
class Blocking:
    """An awaitable on which further effects of the request depend; the connection's next request waits for them.

    Args:
        wait: awaited once all earlier responses of the connection have been handed to the socket. `yield` evaluates to
            its result.
    """

    wait: Callable[[], Awaitable[Any]]


@dataclass(slots=True, frozen=True)
class Wait:
    """An awaitable on which only the response depends: all effects of the request are done.

    Args:
        wait: awaited once all earlier responses of the connection have been handed to the socket. `yield` evaluates to
            its result.
        ready: returns whether `wait` would return without waiting; responses that are ready together are sent in one
            packet.
        holds_request: whether the handler still refers to the request, or to most of it, which then counts as held in
            memory. False lets further requests of the connection begin; the handler must have deleted its references,
            and errors are answered by the general error response, not by `on_error`.
        when_ready: calls its argument once `wait` would, or might, return without waiting, so that no task waits until
        then. Returns None if only a task that awaits `wait` can detect this. Needs `ready`; once that is True, `wait`
        has
            no checkpoint.
    """

    wait: Callable[[], Awaitable[Any]]
    ready: Callable[[], bool] | None = None
    holds_request: bool = True
    when_ready: Callable[[Callable[[], object]], PendingCall | None] | None = None


Effect: TypeAlias = Compute | Blocking | Wait | None
# A generator that returns a response, or a part of a response, for `yield from`.
Handling: TypeAlias = Generator[Effect, Any, R]


def listed(items: Iterable[T]) -> Handling[list[T]]:
    """Returns the items of a generator as a list, with pauses: a request may name tens of thousands of partitions."""
    left, found = iter(items), list[T]()
    while piece := list(islice(left, LISTED_A_STEP)):
        found += piece
        if len(piece) == LISTED_A_STEP:
            yield None
    return found
