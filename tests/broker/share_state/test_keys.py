"""The text of a share partition's key, as Kafka's `SharePartitionKey` writes and reads it."""

import pytest

from tests.broker.share_state.driver import KEY, TOPIC_ID
from trimaran.broker.share_state.keys import key_from_text, key_text
from trimaran.wire.identity import SharePartitionKey

ID = "AAAAAAAAAAAAAAAAAAAABw"


def test_the_text_has_group_topic_id_and_partition():
    assert key_text(KEY) == f"g:{ID}:1"


@pytest.mark.parametrize(
    ("text", "group_id", "partition"),
    [
        (f"g:{ID}:1", "g", 1),
        (f"a:b:{ID}:1", "a:b", 1),
        (f":{ID}:g:{ID}:0", f":{ID}:g", 0),
        (f"g:{ID}==:+007", "g", 7),
        (f"g:{ID}:-1::", "g", -1),
        (f" g :{ID}:2147483647", " g ", 2147483647),
    ],
)
def test_key_is_parsed_from_text(text, group_id, partition):
    assert key_from_text(text) == SharePartitionKey(group_id, TOPIC_ID, partition)


@pytest.mark.parametrize(
    "text",
    [
        *("", ":", "g", f"{ID}:1", f":{ID}:1", f" \x01:{ID}:1", f"g:{ID}:", "g:x:1", "g::1"),
        *(f"g:{ID}A:1", f"g:{ID}:x", f"g:{ID}: 1", f"g:{ID}:1.0"),
        *(f"g:{ID}:2147483648", f"g:{ID}:-2147483649"),
    ],
)
def test_malformed_key_text_is_refused(text):
    with pytest.raises(ValueError, match="is not"):
        key_from_text(text)
