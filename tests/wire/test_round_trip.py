"""Every message in every version keeps its content when it is encoded and decoded."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.wire.declared import MESSAGES, case_id, versions_of
from tests.wire.random_messages import random_message


@pytest.mark.parametrize("cls", MESSAGES, ids=case_id)
@given(seed=st.integers(0, 2**32 - 1))
@example(seed=0)  # all optional values are absent
@example(seed=1)  # all values are present
def test_decode_inverts_encode(cls, seed):
    for version in versions_of(cls):
        message = random_message(cls, version, seed)
        encoded = message.encode(version)
        assert cls.decode(encoded, version) == message, version
        assert cls.decode(memoryview(encoded), version).encode(version) == encoded, version
