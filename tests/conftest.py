"""Hypothesis profiles: few fixed examples for every commit, many random ones on demand."""

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "deterministic",
    max_examples=5,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "exhaustive",
    max_examples=500,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "deterministic"))
