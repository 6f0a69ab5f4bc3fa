"""How many examples a property test uses, as a share of the profile's number (`tests/conftest.py`)."""

from hypothesis import settings


def examples(factor: float) -> settings:
    """Returns the number for a share: above 1 for a decision with many corner cases, below 1 if one example covers much
    or is slow. Both profiles scale.
    """
    return settings(max_examples=round(settings.default.max_examples * factor))
