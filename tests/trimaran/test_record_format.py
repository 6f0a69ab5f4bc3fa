"""`consume -f` prints what kcat prints for the same tokens."""

import pytest

from trimaran.cli.record_format import compiled
from trimaran.errors.user_error import Exit, UserError
from trimaran.log.batches.records import Record, RecordHeader
from trimaran.wire.identity import TopicPartition


def record(key=b"k", value=b"val", headers=()):
    return Record(offset=42, timestamp_ms=1700000000000, key=key, value=value, headers=headers)


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (r"%t %p %o %T %k %s\n", b"t 3 42 1700000000000 k val\n"),
        (r"%K/%S\t%%", b"1/3\t%"),
        ("%R%s", b"\0\0\0\x03val"),
        (r"%h\x00\\", b"a=1,b=NULL\0\\"),
        ("plain", b"plain"),
    ],
)
def test_tokens_are_replaced_in_format(form, text):
    headers = (RecordHeader("a", b"1"), RecordHeader("b", None))
    assert compiled(form)(TopicPartition("t", 3), record(headers=headers)) == text


def test_null_has_the_length_minus_one():
    assert compiled("%k|%K|%s|%S")(TopicPartition("t", 0), record(None, None)) == b"|-1||-1"


@pytest.mark.parametrize("form", ["%q", "100%", "a\\", r"\y", r"\xZ1"])
def test_invalid_token_is_refused(form):
    with pytest.raises(UserError, match="is not a token") as refused:
        compiled(form)
    assert refused.value.exit_code == Exit.USAGE
