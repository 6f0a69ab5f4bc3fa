"""Server-sent events: a line each time the metadata log says something, so that open pages are asked again at once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import trio
from starlette.responses import Response, StreamingResponse

from trimaran.errors import UserError

# Tabs that are open at a time; one more shows its page, and asks again every few seconds.
STREAMS_MAX = 16
LOOK_SECONDS = 1.0
# A connection whose other end is gone is found out by writing to it.
WORD_EVERY = 15


async def respond(
    last_change: Callable[[], Awaitable[int]], limiter: trio.CapacityLimiter
) -> Response:
    """`last_change` gives the offset of the last record that is no idle one. Raises UserError when it cannot."""
    first = await last_change()
    borrower = object()
    try:
        limiter.acquire_on_behalf_of_nowait(borrower)
    except trio.WouldBlock:
        return Response("too many pages are open", status_code=503, media_type="text/plain")

    async def lines() -> AsyncIterator[str]:
        try:
            known, silent = first, 0
            yield "retry: 5000\n\n"
            while True:
                await trio.sleep(LOOK_SECONDS)
                try:
                    now = await last_change()
                except UserError:  # the page, asked again, says why
                    now = -1
                silent += 1
                if now != known:
                    yield f"event: changed\ndata: {now}\n\n"
                elif silent >= WORD_EVERY:
                    yield ": nothing new\n\n"
                else:
                    continue
                known, silent = now, 0
        finally:
            limiter.release_on_behalf_of(borrower)

    return StreamingResponse(lines(), media_type="text/event-stream")
