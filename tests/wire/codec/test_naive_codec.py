"""The generated and the naive codec agree on every message, whole or broken."""

import random

from tests.wire import naive_codec
from tests.wire.declared import check_all
from tests.wire.random_messages import random_message
from tests.wire.test_fuzz import mutate
from trimaran.wire.errors import RemoteProtocolError

SAMPLES = 3
MUTANTS = 5


def outcome(decode, *arguments):
    """Returns the message, or None if the bytes are refused."""
    try:
        return decode(*arguments)
    except RemoteProtocolError:
        return None


def test_both_codecs_agree_on_whole_messages():
    check_all(makes_and_reads_the_same)


def test_both_codecs_refuse_the_same_bytes():
    check_all(refuses_the_same)


def makes_and_reads_the_same(cls, version):
    for seed in range(SAMPLES):
        message = random_message(cls, version, seed)
        encoded = message.encode(version)
        assert encoded == naive_codec.encode(message, version)
        assert cls.decode(encoded, version) == message == naive_codec.decode(cls, encoded, version)


def refuses_the_same(cls, version):
    rng = random.Random(f"{cls.__name__} {version}")
    for seed in range(SAMPLES):
        encoded = random_message(cls, version, seed).encode(version)
        for _ in range(MUTANTS):
            broken = mutate(encoded, rng)
            ours = outcome(cls.decode, broken, version)
            naive = outcome(naive_codec.decode, cls, broken, version)
            assert ours == naive or repr(ours) == repr(naive)  # a NaN does not equal itself
