"""Any declared message as a Hypothesis strategy, which draws the number of a sample."""

from hypothesis import strategies as st

from tests.wire.random_messages import random_message
from trimaran.wire.schema import Message


def messages(cls: type[Message], version: int, *, tame: bool = False) -> st.SearchStrategy:
    return st.integers(0, 2**32 - 1).map(lambda seed: random_message(cls, version, seed, tame=tame))
