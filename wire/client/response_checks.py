"""What an answer must have to be one: whoever asked about one thing is told about one.

A node may answer anything that its schema allows, nothing among it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from trimaran.wire.errors import RemoteProtocolError

T = TypeVar("T")


def single_item(listed: Sequence[T] | None, what: str) -> T:
    """The single entry of a list in an answer; `what` names it, in the singular.

    Raises:
        RemoteProtocolError: there is none, or more than was asked for.
    """
    if listed is None or len(listed) != 1:
        count = "none" if not listed else str(len(listed))
        raise RemoteProtocolError(f"the response must have one {what}, it has {count}")
    return listed[0]
