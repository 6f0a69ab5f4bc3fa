"""The verdicts upon frames, which a relay carries out: decisions of the engine of one connection.

A relay carries out the verdicts of each direction one after the other, so a wait also delays all later ones of its
direction. Frames are without their size field.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class SendFrame:
    """Sends a frame: to the broker if it is a request, to the client if it is a response."""

    frame: bytes | memoryview


@dataclass(frozen=True, slots=True)
class WaitSeconds:
    """Waits this long."""

    seconds: float


@dataclass(frozen=True, slots=True)
class WaitRelease:
    """Waits until `is_released(ticket)`: see `trimaran.faults.barriers`."""

    ticket: int


@dataclass(frozen=True, slots=True)
class SendPart:
    """Sends the first bytes of a frame, after a size field for the whole frame."""

    frame: bytes | memoryview
    size: int


@dataclass(frozen=True, slots=True)
class LimitRate:
    """Limits the bytes per second of this direction from now on."""

    bytes_per_second: float


@dataclass(frozen=True, slots=True)
class EndBoth:
    """Closes both connections; the client sees a reset or an orderly close."""

    by_reset: bool


@dataclass(frozen=True, slots=True)
class GoSilent:
    """Sends nothing more in this direction; the connection stays open."""


RelayVerdict = SendFrame | WaitSeconds | WaitRelease | SendPart | LimitRate | EndBoth | GoSilent


class Verdicts(NamedTuple):
    """The consequences of one frame. No verdict at all: the frame is lost, or waits for an earlier response."""

    to_broker: tuple[RelayVerdict, ...] = ()
    to_client: tuple[RelayVerdict, ...] = ()
