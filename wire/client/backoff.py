"""The pause before the next attempt: KIP-580's `ExponentialBackoff`, for clients, nodes and the Raft core. This module
only computes it.
"""

from __future__ import annotations

from collections.abc import Callable


def exponential_seconds(initial: float, maximum: float, failures: int) -> float:
    """Returns `initial · 2^failures`, at most `maximum`; 0 failures give `initial`."""
    # 2^30 exceeds every maximum, and larger exponents would overflow eventually.
    return min(initial * 2.0 ** min(failures, 30), maximum)


class ExponentialBackoff:
    """A sequence of `exponential_seconds`, each with a random deviation of at most ± `jitter`.

    Args:
        uniform: returns numbers in [0, 1), like `random.random`; passed in so that a run can be repeated. Without it
            there is no jitter.
    """

    def __init__(
        self,
        initial_seconds: float = 0.05,
        max_seconds: float = 1.0,
        *,
        uniform: Callable[[], float] | None = None,
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
        seconds = exponential_seconds(self._initial_seconds, self._max_seconds, self.failures)
        self.failures += 1
        if self._uniform is None:
            return seconds
        return seconds * (1 + self._jitter * (2 * self._uniform() - 1))

    def succeeded(self) -> None:
        """Resets the count: the next failure counts as the first."""
        self.failures = 0
