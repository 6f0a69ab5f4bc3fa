"""How long a connection begins requests before others have their turn."""

from __future__ import annotations

_SECONDS_MAX = 0.002
# Some five small requests: below, handing over would cost more than it gives.
_SECONDS_MIN = 0.0002
_SECONDS_AT_FIRST = 0.0005


class Turn:
    """Of one connection. The longer others keep the loop between two turns, the shorter are both: connections that have
    many requests under way share some milliseconds, however many they are, and who has one waits that long.
    """

    __slots__ = ("seconds",)

    def __init__(self) -> None:
        self.seconds = _SECONDS_AT_FIRST

    def hand_over(self, others_seconds: float) -> float:
        """Others had so long: the length of the next turn, in seconds."""
        factor = 0.5 if others_seconds > _SECONDS_MAX else 2.0
        self.seconds = min(max(self.seconds * factor, _SECONDS_MIN), _SECONDS_MAX)
        return self.seconds
