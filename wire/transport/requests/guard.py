"""Guarded handlers: requests that a client is not authorized to make do not reach them.

A handler without needs is not wrapped, and a node without rules calls each handler directly. A whole request is refused
by its `on_error`. If it has several items, the refused ones are removed from it; the answer of `on_error` for them is
appended to the response, as in Kafka.
Not implemented here: items that name a topic by id, which the request's handler must resolve.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from types import GeneratorType
from typing import Any, Protocol

from trimaran.wire.codec.declarations import EncodedArray
from trimaran.wire.errors import CloseConnection, ErrorCode, KafkaError
from trimaran.wire.schema import Message, encode_element
from trimaran.wire.security.acls import CLUSTER_NAME, Operation, ResourceType
from trimaran.wire.transport.requests.access import ITSELF, JudgedBy, Need
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.error_responses import OnError
from trimaran.wire.transport.scheduling.effects import (
    ITEM_COST_BYTES,
    Compute,
    Handling,
)

Handler = Callable[..., Any]

CODES = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ResourceType.DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}


class Judge(Protocol):
    """The interface of the authorization decision, for one kind of node."""

    def judges(self, context: Any) -> bool:
        """Returns whether there are rules; called first for each request, so that a node without rules has no costs."""
        ...

    def allows(
        self,
        context: Any,
        call: Call,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
        *,
        asked_for: bool,
    ) -> bool:
        """Returns whether the client may perform the operation. With `asked_for`, a denial is logged as a refusal.
        Raises KafkaError: no decision is possible.
        """
        ...


def guarded(
    handler: Handler, needs: Sequence[Need], judge: Judge | None, on_error: OnError | None
) -> Handler:
    """Returns `handler` with a guard for the needs that the registry checks; `handler` itself if there are none."""
    own = [need for need in needs if need.judged_by is JudgedBy.REGISTRY]
    if judge is None or not own:
        return handler
    behind = handler
    for need in reversed(own):
        behind = _behind(_Guard(need, judge, on_error), behind)

    @wraps(handler)
    def guarded_handler(request: Message, context: Any, call: Call) -> Any:
        return (behind if judge.judges(context) else handler)(request, context, call)

    return guarded_handler


@dataclass(slots=True, frozen=True)
class _Refused:
    """The answer of `on_error` for the items that were taken out of a request."""

    response: Message | None
    path: str
    asks_anyway: bool = False

    def merged(self, response: Any, call: Call) -> Any:
        if self.response is None:
            return response
        if response is None:  # acks=0: closing the connection is the only way to report an error
            raise CloseConnection("part of a request without an answer is not allowed")
        if self.asks_anyway and response.error_code:
            return response
        items, refused = getattr(response, self.path), getattr(self.response, self.path)
        if isinstance(items, EncodedArray):
            version = call.header.api_version
            refused = [encode_element(item, type(response), version) for item in refused]
        items.extend(refused)
        return response


_NOTHING = _Refused(None, "")


@dataclass(slots=True, frozen=True)
class _Guard:
    need: Need
    judge: Judge
    on_error: OnError | None

    def __post_init__(self) -> None:
        assert not self.need.answered or self.on_error, "items are refused by on_error"

    def admit(self, request: Any, context: Any, call: Call) -> Handling[tuple[Any, _Refused]]:
        """Returns the permitted part of the request (None if it is empty), and the answer for the rest.

        Raises:
            KafkaError: the whole request is refused.
        """
        if not self._is_judged_by_item(request, context, call):
            return request, _NOTHING
        names = self._names(request)
        # A name that occurs many times is judged once.
        verdicts: dict[str, bool] = {}
        for name in dict.fromkeys(names):
            if verdicts:
                yield None
            verdicts[name] = self._is_allowed(context, call, name)
        divided: tuple[Any, _Refused] = yield Compute(
            ITEM_COST_BYTES * len(names), lambda: self._divide(request, names, verdicts, call)
        )
        return divided

    def _is_judged_by_item(self, request: Any, context: Any, call: Call) -> bool:
        """Whether the request is judged item by item. Raises KafkaError: the whole request is refused."""
        need = self.need
        if self._is_allowed_on_cluster(context, call):
            return False
        field, _, name = need.asked.partition(".")
        if need.resource_type is ResourceType.CLUSTER:
            if not self._is_allowed(context, call, CLUSTER_NAME):
                raise self._refusal(call, "the cluster")
        elif not name:
            one = getattr(request, field) if field else None
            if one is not None and not self._is_allowed(context, call, one):
                raise self._refusal(call, f"{need.resource_type.name} {one}")
        return bool(name and getattr(request, field))

    def _names(self, request: Any) -> list[str]:
        field, _, name = self.need.asked.partition(".")
        return [item if name == ITSELF else getattr(item, name) for item in getattr(request, field)]

    def filter(self, response: Any, context: Any, call: Call) -> Handling[Any]:
        """Returns the response without the items that the client may not see."""
        field, _, name = self.need.listed.partition(".")
        if not field or response is None or self._is_allowed_on_cluster(context, call):
            return response
        items, visible = getattr(response, field), []
        for item in items:
            if self._is_allowed(context, call, getattr(item, name), asked_for=False):
                visible.append(item)
            yield None
        items[:] = visible
        return response

    def _divide(
        self, request: Any, names: Sequence[str], verdicts: Mapping[str, bool], call: Call
    ) -> tuple[Any, _Refused]:
        if all(verdicts.values()):
            return request, _NOTHING
        field = self.need.asked.partition(".")[0]
        items = getattr(request, field)
        left = [item for item, name in zip(items, names, strict=True) if verdicts[name]]
        out = [item for item, name in zip(items, names, strict=True) if not verdicts[name]]
        refusal = self._refusal(call, f"each {self.need.resource_type.name}")
        assert self.on_error is not None
        response = self.on_error(request.replace(**{field: out}), refusal.code, refusal.message)
        refused = _Refused(response, self.need.answered, self.need.asks_anyway)
        is_asked = left or self.need.asks_anyway
        return (request.replace(**{field: left}) if is_asked else None), refused

    def _is_allowed(self, context: Any, call: Call, name: str, *, asked_for: bool = True) -> bool:
        """Returns whether the client may act on `name`; the last of several operations is the one that was
        requested.
        """
        kind, *others = self.need.resource_type, *self.need.operations
        last = others.pop()
        allows = self.judge.allows
        return any(
            allows(context, call, other, kind, name, asked_for=False) for other in others
        ) or allows(context, call, last, kind, name, asked_for=asked_for)

    def _is_allowed_on_cluster(self, context: Any, call: Call) -> bool:
        kind = ResourceType.CLUSTER
        return any(
            self.judge.allows(context, call, item, kind, CLUSTER_NAME, asked_for=False)
            for item in self.need.on_cluster
        )

    def _refusal(self, call: Call, what: str) -> KafkaError:
        operation = self.need.operations[-1].name
        code = CODES[self.need.resource_type]
        return KafkaError(code, f"{call.connection.principal} may not {operation} {what}")


def _behind(guard: _Guard, handler: Handler) -> Handler:
    @wraps(handler)
    def steps(request: Message, context: Any, call: Call) -> Handling[Any]:
        left, refused = yield from guard.admit(request, context, call)
        if left is None:
            return refused.response
        response = handler(left, context, call)
        if type(response) is GeneratorType:
            response = yield from response
        return (yield from guard.filter(refused.merged(response, call), context, call))

    return steps
