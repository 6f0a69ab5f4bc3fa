"""Checks that the response to a request for one item has one item.

A node may send any response that the schema allows, even an empty one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from trimaran.wire.errors import RemoteProtocolError

T = TypeVar("T")


def single_item(listed: Sequence[T] | None, what: str) -> T:
    """Returns the single entry of a list in a response; `what` is the singular name of the entry.

    Raises:
        RemoteProtocolError: the list has no entry, or more than one.
    """
    if listed is None or len(listed) != 1:
        count = "none" if not listed else str(len(listed))
        raise RemoteProtocolError(f"the response must have one {what}, it has {count}")
    return listed[0]
