"""Each test of the codec generates its own code, so that it fails if the generator does."""

import pytest

from trimaran.wire.codec.build import generated_reader
from trimaran.wire.schema import Message


@pytest.fixture(autouse=True)
def no_code_of_other_tests():
    generated_reader.cache_clear()
    for cls in Message.__subclasses__():
        if cls.__module__.startswith("tests."):
            cls.writers.clear()
            cls.readers.clear()
