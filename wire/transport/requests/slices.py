"""A request of many items, handled as several of few, so that others have their turn between two of them.

Only for handlers that answer item by item: no answer depends on the other items. The answers become one, in order. The
answer is encoded slice by slice, so that the largest response takes no more than its bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from trimaran.wire.codec.declarations import EncodedArray, Struct
from trimaran.wire.schema import Message
from trimaran.wire.transport.memory.room import Room

S = TypeVar("S", bound=Struct)

# Items of one slice: some 5 ms of work for what takes 2 to 3 µs each.
ITEMS_PER_SLICE = 2000
# The same for what is written to a log, 20 µs each.
COMMITS_PER_SLICE = 500
# The bytes that an outer item of a response takes in addition to its items, about.
_OUTER_BYTES = 64


@dataclass(slots=True, frozen=True)
class Slices:
    """The place of the items, `"keys"` or `"topics.partitions"`, in the request and in the response, and the `items` of
    a slice.

    If there are two levels, the inner items are counted; an outer one that is cut in two is whole again in the answer.
    """

    asked: str
    answered: str
    items: int = ITEMS_PER_SLICE

    def are_several(self, request: Struct) -> bool:
        """Whether the request has more items than one slice."""
        outer, _, inner = self.asked.partition(".")
        room = self.items
        for item in getattr(request, outer) or ():
            room -= _weight(item, inner)
            if room < 0:
                return True
        return False

    def of(self, request: S) -> Iterator[tuple[S, bool]]:
        """The parts, and whether each begins within the outer item that the one before ended in."""
        outer, _, inner = self.asked.partition(".")
        items: list[Any] = []
        room, goes_on = self.items, False
        for item in getattr(request, outer):
            rest = item
            while inner and len(getattr(rest, inner) or ()) > room:
                items.append(_cut(rest, inner, slice(room)))
                yield request.replace(**{outer: items}), goes_on
                rest, items = _cut(rest, inner, slice(room, None)), []
                room, goes_on = self.items, True
            items.append(rest)
            room -= _weight(rest, inner)
            if room <= 0:
                yield request.replace(**{outer: items}), goes_on
                items, room, goes_on = [], self.items, False
        if items:
            yield request.replace(**{outer: items}), goes_on

    def encode(self, part: Message, room: Room) -> None:
        """The items of an answer become their bytes, which are counted. Raises ResponseTooLarge."""
        outer, _, inner = self.answered.partition(".")
        if not inner:
            _encode_items(part, outer, room)
            return
        for item in getattr(part, outer):
            _encode_items(item, inner, room)
            room.take(_OUTER_BYTES)

    def join(self, whole: Message, part: Message, goes_on: bool) -> None:
        """Adds the answer to a part."""
        outer, _, inner = self.answered.partition(".")
        found, more = getattr(whole, outer), getattr(part, outer)
        if goes_on and inner and _same_but_for(inner, found[-1], more[0]):
            getattr(found[-1], inner).extend(getattr(more[0], inner))
            more = more[1:]
        found.extend(more)


def _encode_items(struct: Struct, name: str, room: Room) -> None:
    items = getattr(struct, name)
    if not isinstance(items, EncodedArray):  # else the handler has counted it
        setattr(struct, name, EncodedArray(map(room.encoded, items)))


def _same_but_for(inner: str, one: Struct, other: Struct) -> bool:
    """Returns whether two items are equal apart from `inner`: an answer that merges repeated names may have another
    outer item last.
    """
    return one.replace(**{inner: []}) == other.replace(**{inner: []})


def _weight(item: Any, inner: str) -> int:
    return 1 + len(getattr(item, inner) or ()) if inner else 1


def _cut(item: Struct, inner: str, part: slice) -> Struct:
    return item.replace(**{inner: getattr(item, inner)[part]})
