"""Every target with all past findings and complete messages of every kind, without atheris."""

import pytest

from tests.checks import check_each
from tests.fuzz import corpus
from tests.fuzz.targets import TARGETS, fuzz_request


@pytest.mark.parametrize("target", TARGETS)
def test_the_corpus_holds_no_finding(target):
    inputs = (*corpus.load(target), *corpus.seeds(target))
    check_each(inputs, TARGETS[target])  # a finding is an exception that leaves the target


def test_the_corpus_is_small():
    files = list(corpus.FOLDER.iterdir())
    assert {path.stem for path in files} == set(TARGETS)
    assert sum(path.stat().st_size for path in files) <= 200_000


def test_decoder_that_breaks_its_contract_is_reported(monkeypatch):
    from trimaran.wire.messages.metadata import MetadataRequest

    def broken(buf, left, tags_max):
        raise KeyError(bytes(buf))

    fuzz_request(b"\x03\x01\xff\xff\xff\xff")
    monkeypatch.setattr(MetadataRequest, "readers", {1: broken})
    with pytest.raises(KeyError):
        fuzz_request(b"\x03\x01\xff\xff\xff\xff")
