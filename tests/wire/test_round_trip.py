"""Whatever a message says in a version, it still says after a trip over the wire."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.declared import CASES, case_id
from tests.wire.strategies import messages


@pytest.mark.parametrize(("cls", "version"), CASES, ids=case_id)
@given(data=st.data())
def test_decode_inverts_encode(cls, version, data):
    message = data.draw(messages(cls, version))
    encoded = message.encode(version)
    assert cls.decode(encoded, version) == message
    assert cls.decode(memoryview(encoded), version).encode(version) == encoded
