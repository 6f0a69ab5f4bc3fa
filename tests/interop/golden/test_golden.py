"""Apache Kafka's own codec and ours write the same bytes and read each other's."""

import pytest

from tests.interop.golden import messages, oracle, records
from trimaran.log.disk.files import REAL_FILES
from trimaran.log.segments.transaction_index import AbortedTransaction, TransactionIndex

SAMPLES = 10
VERSION_BYTES = 2  # the version of the schema, in front of each entry
ABORTED = AbortedTransaction(2**62, 5, 2**33, 2**40 + 1)


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


def test_entry_of_transaction_index_is_kafkas(kafkas_codec, tmp_path):
    if kafkas_codec.version < "4.4":
        pytest.skip("Kafka has no schema of it before 4.4")
    path = tmp_path / "0.txnindex"
    TransactionIndex(path, REAL_FILES).append(ABORTED)
    entry = path.read_bytes()
    assert entry[:VERSION_BYTES] == b"\0\0"
    names = ("producerId", "firstOffset", "lastOffset", "lastStableOffset")
    asked = {
        "op": "message",
        "class": f"{messages.PROTOCOL}AbortedTxn",
        "version": 0,
        "json": dict(zip(names, ABORTED, strict=True)),
        "bytes": messages.text_of(entry[VERSION_BYTES:]),
    }
    (answer,) = kafkas_codec.ask([asked])
    assert (answer["encoded"], answer["json"]) == (asked["bytes"], asked["json"])


def failures(outcomes):
    return [f"{o.label}: {o.failure}" for o in outcomes if o.failure]
