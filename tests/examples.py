"""How many examples a property test takes, as a share of what the profile says (`tests/conftest.py`)."""

from hypothesis import settings


def examples(factor: float) -> settings:
    """More for a decision with many corners, fewer where one example is many or takes long; both profiles scale."""
    return settings(max_examples=round(settings.default.max_examples * factor))
