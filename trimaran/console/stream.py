"""Server-sent events: a line for each change in the metadata log, so that open pages reload immediately."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio
from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from trimaran.errors.user_error import UserError
from trimaran.wire.identity import NO_OFFSET

# The maximum number of streams; a page beyond it retries every few seconds.
STREAMS_MAX = 16
LOOK_SECONDS = 1.0
# Writing detects a connection whose other end is gone.
WORD_EVERY = 15


class ChangeStream(Response):
    """Writes lines until the reader disconnects. `last_change` returns the offset of the last record that is not a
    NoOpRecord.
    """

    media_type: str | None = "text/event-stream"

    def __init__(
        self,
        last_change: Callable[[], Awaitable[int]],
        known: int,
        limiter: trio.CapacityLimiter,
    ) -> None:
        """`known` is the last offset that the reader has seen."""
        self.status_code = 200
        self.background = None
        self.init_headers()
        self._last_change = last_change
        self._known = known
        self._limiter = limiter

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        borrower = object()
        try:
            self._limiter.acquire_on_behalf_of_nowait(borrower)
        except trio.WouldBlock:
            refused = PlainTextResponse("too many pages are open", status_code=503)
            await refused(scope, receive, send)
            return
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_until_gone, receive, nursery.cancel_scope)
                await self._tell(send)
        finally:
            self._limiter.release_on_behalf_of(borrower)

    async def _tell(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        await _say(send, "retry: 5000")
        silent = 0
        while True:
            await trio.sleep(LOOK_SECONDS)
            try:
                now = await self._last_change()
            except UserError:  # the reloaded page reports the error
                now = NO_OFFSET
            silent += 1
            if now != self._known:
                await _say(send, f"event: changed\ndata: {now}")
            elif silent >= WORD_EVERY:
                await _say(send, ": nothing new")
            else:
                continue
            self._known, silent = now, 0


async def _say(send: Send, text: str) -> None:
    body = f"{text}\n\n".encode()
    await send({"type": "http.response.body", "body": body, "more_body": True})


async def _until_gone(receive: Receive, scope: trio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()
