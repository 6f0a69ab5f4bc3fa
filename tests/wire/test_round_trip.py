"""Every message in every version keeps its content when it is encoded and decoded."""

from hypothesis import example, given
from hypothesis import strategies as st

from tests.wire.declared import check_all, examples_of_all
from tests.wire.random_messages import random_message


@examples_of_all
@given(seed=st.integers(0, 2**32 - 1))
@example(seed=0)  # all optional values are absent
@example(seed=1)  # all values are present
def test_decode_inverts_encode(seed):
    def check(cls, version):
        message = random_message(cls, version, seed)
        encoded = message.encode(version)
        assert cls.decode(encoded, version) == message
        assert cls.decode(memoryview(encoded), version).encode(version) == encoded

    check_all(check)
