"""How long to wait before the next try. Source: KIP-580 (`ExponentialBackoff`). Left out: waiting."""

from __future__ import annotations

from collections.abc import Callable


class Backoff:
    """`initial · 2^failures`, at most `max`, each drawn from ± `jitter` around it.

    Args:
        uniform: gives numbers in [0, 1), as `random.random` does; passed in so that a run can be repeated.
    """

    def __init__(
        self,
        uniform: Callable[[], float],
        *,
        initial_seconds: float = 0.05,
        max_seconds: float = 1.0,
        jitter: float = 0.2,
    ) -> None:
        assert 0 < initial_seconds <= max_seconds
        self._uniform = uniform
        self._initial_seconds = initial_seconds
        self._max_seconds = max_seconds
        self._jitter = jitter
        self.failures = 0

    def failed(self) -> float:
        """Counts a failure; returns the seconds to wait before the next try."""
        # 2^30 is beyond every maximum, and larger exponents overflow one day.
        seconds = min(self._initial_seconds * 2.0 ** min(self.failures, 30), self._max_seconds)
        self.failures += 1
        return seconds * (1 + self._jitter * (2 * self._uniform() - 1))

    def succeeded(self) -> None:
        """The next failure is the first again."""
        self.failures = 0
