"""The application of the control: the token, bounded bodies, handlers in threads, errors as JSON."""

from __future__ import annotations

import hmac
import json
import logging
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any

import trio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from trimaran.errors.node import explain
from trimaran.errors.user_error import Exit, UserError
from trimaran.fault_control import events
from trimaran.fault_control.controlled import ControlledKafka
from trimaran.fault_control.openapi import document
from trimaran.fault_control.requests import (
    JSON,
    BodyTooLarge,
    ControlAnswer,
    ControlRequest,
    NotFound,
    NotReached,
    NotSupported,
    ensure_known,
)
from trimaran.fault_control.routes import OPERATIONS, PREFIX, ControlOperation
from trimaran.faults.plan_error import PlanError
from trimaran.wire.client.errors import ConnectionLost, RequestTimedOut, VersionMismatch
from trimaran.wire.errors import KafkaError

log = logging.getLogger(__name__)
# The maximum number of threads that handle requests; further requests wait for one.
THREADS_MAX = 8
# The maximum number of requests that wait for a rule; further ones are refused.
WAITS_MAX = 64
_STATUS: Mapping[type[Exception], int] = {
    NotFound: 404,
    NotReached: 409,
    NotSupported: 501,
    BodyTooLarge: 413,
    PlanError: 400,
    KafkaError: 409,
}
_NO_ANSWER = (ConnectionLost, RequestTimedOut, TimeoutError, VersionMismatch)
_UNAUTHORIZED = UserError(
    "the token is missing or wrong",
    "every request needs the token that the control has printed at its start",
    "send the header Authorization: Bearer TOKEN",
)
_TOO_MANY = UserError(
    "too many requests wait", f"{WAITS_MAX} wait already", "wait in fewer tests at a time"
)


@dataclass(frozen=True, slots=True)
class FaultControl:
    """The state of the application."""

    cluster: ControlledKafka
    token: str
    threads: trio.CapacityLimiter
    waits: trio.CapacityLimiter


def application(cluster: ControlledKafka, token: str) -> Starlette:
    """Returns the application, an ASGI one on trio."""
    control = FaultControl(
        cluster, token, trio.CapacityLimiter(THREADS_MAX), trio.CapacityLimiter(WAITS_MAX)
    )
    routes = [
        Route(
            PREFIX + operation.path,
            partial(_respond, control, operation),
            methods=[operation.method],
        )
        for operation in OPERATIONS
    ]
    routes.append(Route("/openapi.json", partial(_show_document, control), methods=["GET"]))
    handlers: Mapping[Any, Any] = {HTTPException: partial(_unknown_path, control)}
    return Starlette(routes=routes, exception_handlers=handlers)


async def _respond(
    control: FaultControl, operation: ControlOperation, request: Request
) -> Response:
    if not _is_known(control, request):
        return _unauthorized()
    try:
        ensure_known(request.query_params, operation.query)
        path = {name: str(value) for name, value in request.path_params.items()}
        asked = ControlRequest(
            path, dict(request.query_params), await _body(request, operation.body_bytes_max)
        )
        limiter = control.waits if operation.waits else control.threads
        if operation.waits and not limiter.available_tokens:
            return _failed(_TOO_MANY, 503)
        answer = await trio.to_thread.run_sync(
            _answer, operation, control.cluster, asked, abandon_on_cancel=True, limiter=limiter
        )
    except Exception as error:  # noqa: BLE001 - a request that fails is an answer, and the next one may do
        return _refused(operation, error)
    return Response(answer[1], status_code=answer[0], media_type=answer[2])


def _answer(
    operation: ControlOperation, cluster: ControlledKafka, request: ControlRequest
) -> tuple[int, bytes, str | None]:
    """Runs in a thread, since both the work and the encoding take time."""
    answer: ControlAnswer = operation.act(cluster, request)
    return answer.status, answer.body, answer.kind if answer.content is not None else None


async def _body(request: Request, bytes_max: int) -> bytes:
    """Reads the body. Raises BodyTooLarge."""
    found = bytearray()
    async with aclosing(request.stream()) as chunks:
        async for chunk in chunks:
            found += chunk
            if len(found) > bytes_max:
                raise BodyTooLarge(
                    "the body is too large", f"it has more than {bytes_max} bytes", "split it"
                )
    return bytes(found)


def _is_known(control: FaultControl, request: Request) -> bool:
    kind, _, given = request.headers.get("authorization", "").partition(" ")
    is_right = hmac.compare_digest(given.strip().encode(), control.token.encode())
    return is_right and kind.lower() == "bearer"


def _unauthorized() -> Response:
    answer = _failed(_UNAUTHORIZED, 401)
    answer.headers["www-authenticate"] = "Bearer"
    return answer


def _refused(operation: ControlOperation, error: Exception) -> Response:
    """Returns the response to a request that has failed."""
    status = next((code for kind, code in _STATUS.items() if isinstance(error, kind)), None)
    if isinstance(error, _NO_ANSWER):
        fix = "see which nodes run: GET /v1/nodes"
        return _failed(UserError("the cluster does not answer", str(error), fix), 502)
    told = explain(error)
    if told is None:
        events.CONTROL_REQUEST_FAILED.log(log, exc_info=error, operation=operation.name)
        return _failed(
            UserError(
                "the control has failed",
                f"{type(error).__name__}: {error}"[:1000],
                "see its log; other requests may do",
            ),
            500,
        )
    if status is None:
        of_codes = {Exit.USAGE: 400, Exit.CANNOT_CONNECT: 502, Exit.TIMEOUT: 502}
        status = of_codes.get(told.exit_code, 409)
    return _failed(told, status)


def _failed(told: UserError, status: int) -> Response:
    error = told.as_json()
    if isinstance(told, PlanError):
        error["key"] = told.key
    return Response(json.dumps({"error": error}), status_code=status, media_type=JSON)


async def _show_document(control: FaultControl, request: Request) -> Response:
    if not _is_known(control, request):
        return _unauthorized()
    return Response(json.dumps(document()), media_type=JSON)


async def _unknown_path(control: FaultControl, request: Request, error: HTTPException) -> Response:
    if not _is_known(control, request):
        return _unauthorized()
    told = UserError(
        f"there is no {request.method} {request.url.path[:200]}",
        error.detail,
        "GET /openapi.json lists the operations",
    )
    return _failed(told, error.status_code)
