"""The fate of one request: the sum of the actions of all rules that apply to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from trimaran.faults.actions import EndConnection, EndMoment, Side
from trimaran.faults.matcher import RequestItem
from trimaran.faults.places import (
    ANY,
    ItemPlace,
    Roles,
    add_errors,
    item_key,
    rewrite_errors,
    set_error,
    top_error,
    without_items,
    zero_struct,
)
from trimaran.faults.verdicts import RelayVerdict
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.registry import RESPONSES, ApiKey
from trimaran.wire.schema import Message

# Requests whose items are never withheld from the broker, because its session counts them: errors are written into
# its response.
_REWRITTEN = frozenset({ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE})
ResponseEdit = Callable[[Any], object]


@dataclass(slots=True)
class RequestFate:
    """The decisions about a request, about its items, and about the response."""

    request: Message
    version: int
    # The items about which no rule has decided yet.
    items: list[RequestItem]
    is_changed: bool = False
    # The answer to the whole request, which the broker does not get.
    answer: Message | None = None
    # Items that the broker does not get, by the place of their errors.
    taken: list[tuple[ItemPlace, list[RequestItem], ErrorCode]] = field(default_factory=list)
    edits: list[ResponseEdit] = field(default_factory=list)
    before_request: list[RelayVerdict] = field(default_factory=list)
    before_response: list[RelayVerdict] = field(default_factory=list)
    dropped: set[Side] = field(default_factory=set)
    doubled: set[Side] = field(default_factory=set)
    end: EndConnection | None = None
    is_silent: bool = False
    truncated: int | None = None

    @property
    def is_decided(self) -> bool:
        """Whether later rules have nothing left to decide."""
        return (
            self.answer is not None
            or bool(self.dropped)
            or self.end is not None
            or self.is_silent
            or not self.items
        )

    @property
    def ends_before(self) -> bool:
        """Whether the connection ends before the broker gets the request."""
        return self.end is not None and self.end.moment is EndMoment.BEFORE

    @property
    def reads_response(self) -> bool:
        """Whether the response must be decoded."""
        return bool(self.edits or self.taken)

    def copy_request(self) -> None:
        """Replaces the request by a copy, which may be changed."""
        request, version = self.request, self.version
        self.request, self.is_changed = type(request).decode(request.encode(version), version), True

    def fail_top(self, code: ErrorCode, *, applied: bool) -> None:
        """Puts an error at the top of the response; unless `applied`, the broker does not get the request."""
        if applied:
            self.edits.append(lambda response: set_error(response, code))
        else:
            self.answer = top_error(self.request.KEY, code)

    def fail_items(
        self,
        place: ItemPlace,
        items: list[RequestItem],
        is_chosen: Callable[[Roles], bool],
        code: ErrorCode,
        *,
        applied: bool,
    ) -> None:
        """Puts an error in items of the response; unless `applied`, the broker does not get these items, if the request
        names them.
        """
        is_open = any(not item.named or ANY in item.named.values() for item in items)
        if applied or place.needs_response or is_open or self.request.KEY in _REWRITTEN:
            self.edits.append(lambda response: rewrite_errors(response, place, is_chosen, code))
            return
        self.taken.append((place, items, code))
        self.items = [item for item in self.items if item not in items]

    def remaining_request(self) -> Message | None:
        """Returns the request for the broker; None if no item is left for it."""
        if not self.taken:
            return self.request
        gone = {item_key(item.named) for _, items, _ in self.taken for item in items}
        return without_items(self.request, self.version, lambda item: item_key(item) in gone)

    def edit(self, response: Message) -> None:
        """Changes the response of the broker, and adds the errors of items that it did not get."""
        for change in self.edits:
            change(response)
        for place, items, code in self.taken:
            add_errors(response, place, [item.named for item in items], code)

    def own_answer(self) -> Message:
        """Returns the response to a request that the broker does not get at all."""
        if self.answer is not None:
            return self.answer
        response: Message = zero_struct(RESPONSES[self.request.KEY])
        self.edit(response)
        return response
