"""The functions that a registry calls for every request: quotas before it is handled, metrics when its answer is known.

Without hooks a request costs one check. Source: KIP-219: a client that exceeds its quota is answered immediately; the
answer carries the time for which its connection is muted. Quotas are in `broker/metadata/client_quotas.py`. The time is
not added to an answer that another node has encoded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from trimaran.wire.buffers.outgoing import Outgoing
from trimaran.wire.schema import Message
from trimaran.wire.transport.requests.calls import Call

Response = Message | Outgoing | None


@dataclass(slots=True, frozen=True)
class Hooks:
    """Plain functions, called on the event loop: a slow function delays every connection.

    Args:
        before: called when the request is decoded. Returns the seconds for which its connection is muted, 0 for none.
        charge: called when the answer is known (None if there is none); returns these seconds for the resources that
        the request used. after: called with the answer before it is encoded: bytes if another node encoded it, None if
        there is none.
    """

    before: Callable[[Call], float] | None = None
    charge: Callable[[Call, Response], float] | None = None
    after: Callable[[Call, Response], None] | None = None

    def begin(self, call: Call) -> None:
        if self.before is not None:
            call.throttle(self.before(call))

    def end(self, call: Call, response: Response) -> None:
        if self.charge is not None:
            seconds = self.charge(call, response)
            if seconds > 0:
                call.throttle(seconds)
        if call.throttle_ms:
            told = getattr(response, "throttle_time_ms", None)
            if told is not None:
                cast(Any, response).throttle_time_ms = max(told, call.throttle_ms)
        if self.after is not None:
            self.after(call, response)
