"""The actions of rules upon requests and responses. The engine interprets these values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Any

from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import Address


class Side(StrEnum):
    """The frame that an action concerns."""

    REQUEST = "request"
    RESPONSE = "response"


class ErrorPlace(StrEnum):
    """The error codes of a response: those of items, or the one of the whole response."""

    ITEMS = "items"
    RESPONSE = "response"


class EndMoment(StrEnum):
    """When a connection ends: before the broker gets the request, in the middle of the response, or after it."""

    BEFORE = "before"
    MIDDLE = "middle"
    AFTER = "after"


class LeaderFault(StrEnum):
    """The leaders that Metadata shows: those of the first response, another broker, or none."""

    STALE = "stale"
    WRONG = "wrong"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class FaultTime:
    """Seconds: fixed if `low` equals `high`, otherwise uniform between them; exponential, up to `high`, with a
    `mean`.
    """

    low: float
    high: float
    mean: float | None = None

    def draw(self, random: Random) -> float:
        if self.mean is not None:
            return min(random.expovariate(1 / self.mean), self.high)
        return self.low if self.low == self.high else random.uniform(self.low, self.high)


@dataclass(frozen=True, slots=True)
class AnswerError:
    """Answers with an error code; the broker does not get the items, unless `applied`: then it has carried them out."""

    code: ErrorCode
    place: ErrorPlace | None = None
    applied: bool = False


@dataclass(frozen=True, slots=True)
class ChangeField:
    """Sets a field; an array on its path means each of its elements."""

    side: Side
    path: str
    value: Any


@dataclass(frozen=True, slots=True)
class DelayFrame:
    """Waits before a frame, and hence before all later ones of its direction."""

    time: FaultTime
    side: Side


@dataclass(frozen=True, slots=True)
class HoldFrame:
    """Waits until the rule is released, or until the rule `released_by` has matched once more."""

    side: Side
    released_by: str = ""


@dataclass(frozen=True, slots=True)
class DropFrame:
    """Loses the request, or the response to a request that the broker has carried out."""

    side: Side


@dataclass(frozen=True, slots=True)
class EndConnection:
    """Ends the connection, by a reset or by a close."""

    moment: EndMoment
    by_reset: bool


@dataclass(frozen=True, slots=True)
class StaySilent:
    """Sends nothing more to the client, from this response on; the connection stays open."""


@dataclass(frozen=True, slots=True)
class TruncateResponse:
    """Sends only the first bytes of the response, as a whole frame of that size."""

    size: int


@dataclass(frozen=True, slots=True)
class DuplicateFrame:
    """Sends a request to the broker twice, and only the first response to the client; or a response twice."""

    side: Side


@dataclass(frozen=True, slots=True)
class ThrottleBytes:
    """Limits what the client receives on this connection, from this response on."""

    bytes_per_second: float


@dataclass(frozen=True, slots=True)
class ShowLeaders:
    """Answers Metadata with stale or wrong leaders."""

    fault: LeaderFault


@dataclass(frozen=True, slots=True)
class AdvertiseAddress:
    """Shows another address of the brokers."""

    address: Address


@dataclass(frozen=True, slots=True)
class CorruptRecords:
    """Changes the checksum of the first batch of each matching partition."""

    side: Side


@dataclass(frozen=True, slots=True)
class RunScript:
    """Calls a function with the decoded request; see `trimaran.faults.scripts`."""

    function: Callable[[Any], Any]


FaultAction = (
    AnswerError
    | ChangeField
    | DelayFrame
    | HoldFrame
    | DropFrame
    | EndConnection
    | StaySilent
    | TruncateResponse
    | DuplicateFrame
    | ThrottleBytes
    | ShowLeaders
    | AdvertiseAddress
    | CorruptRecords
    | RunScript
)
