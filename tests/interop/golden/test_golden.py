"""Apache Kafka's own codec and ours write the same bytes and read each other's."""

import pytest

from tests.interop.golden import messages, oracle, records

SAMPLES = 10


@pytest.fixture(scope="module", params=oracle.VERSIONS)
def kafkas_codec(request):
    with oracle.running(request.param) as running:
        yield running


def test_codecs_agree_on_every_message_and_version(kafkas_codec):
    outcomes = list(messages.check_all(kafkas_codec, SAMPLES))
    assert len(outcomes) > 1300
    assert not failures(outcomes)


def test_codecs_agree_on_batches_and_message_sets(kafkas_codec):
    outcomes = list(records.check_records(kafkas_codec, SAMPLES))
    assert len(outcomes) == 50
    assert not failures(outcomes)


def test_down_converted_batches_equal_the_originals(kafkas_codec):
    if kafkas_codec.version >= "4":
        pytest.skip("Kafka 4 converts nothing")
    outcomes = list(records.check_down_conversion(kafkas_codec, SAMPLES))
    assert len(outcomes) == 32
    assert not failures(outcomes)


def failures(outcomes):
    return [f"{o.label}: {o.failure}" for o in outcomes if o.failure]
