"""A response that lacks its only item is an error."""

import pytest

from trimaran.wire.client.response_checks import single_item
from trimaran.wire.errors import RemoteProtocolError


def test_single_item_is_returned():
    assert single_item(["a"], "topic") == "a"


@pytest.mark.parametrize(("listed", "count"), [(None, "none"), ([], "none"), (["a", "b"], "2")])
def test_zero_or_many_items_are_nodes_error(listed, count):
    with pytest.raises(RemoteProtocolError, match=f"must have one topic, it has {count}"):
        single_item(listed, "topic")
