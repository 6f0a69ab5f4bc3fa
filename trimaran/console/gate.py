"""The check before every page: without a login a browser gets the login page, and any other client an error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from trimaran.console import rendering
from trimaran.console.forms import Forged, fields_of, form_of
from trimaran.console.login import (
    PATH,
    ConsoleLogin,
    LoginNeeded,
    login_needed,
    way_back,
    way_to_login,
    wrong_password,
)
from trimaran.console.reports import PLOTLY
from trimaran.errors.user_error import UserError

if TYPE_CHECKING:
    from trimaran.console.guards import App, Receive, Scope, Send

# Paths that need no login. All others do, even unknown ones, since their page names the address of the cluster.
_OPEN = {("POST", PATH)} | {
    (method, path)
    for method in ("GET", "HEAD")
    for path in (PATH, PLOTLY, "/static/console.css", "/static/icon.svg")
}
_STATUS = {LoginNeeded: 401, Forged: 403}


class Gate:
    """Wraps the application."""

    def __init__(self, app: App, login: ConsoleLogin) -> None:
        self._app = app
        self._login = login

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (scope["method"], scope["path"]) not in _OPEN:
            request = Request(scope, receive)
            if not await self._login.knows(request.headers, address_of(request)):
                await _ask(request)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def address_of(request: Request) -> str:
    return request.client.host if request.client is not None else "somebody"


def accepts_html(request: Request) -> bool:
    """True if the client is a browser: it accepts HTML and has no `?format=`."""
    return "text/html" in request.headers.get("accept", "") and not request.query_params.get(
        "format"
    )


def _ask(request: Request) -> Response:
    if request.method == "GET" and accepts_html(request):
        return RedirectResponse(way_to_login(request.url.path, request.url.query), status_code=303)
    return _error_response(login_needed())


def _error_response(error: UserError) -> Response:
    told = JSONResponse({"error": error.as_json()}, status_code=_status_of(error))
    if isinstance(error, LoginNeeded):
        told.headers["www-authenticate"] = "Bearer"
    return told


def _status_of(error: UserError) -> int:
    return _STATUS.get(type(error), 400)


async def log_in(login: ConsoleLogin, request: Request) -> Response:
    """Serves the login page; its form opens a session and redirects to the requested page."""
    wanted = way_back(request.query_params.get("next", "/"))
    if not login.is_wanted:
        return RedirectResponse(wanted, status_code=303)
    if request.method != "POST":
        return _page(wanted, None)
    try:
        fields = await fields_of(request)
        if not await login.is_right(fields.get("password", ""), address_of(request)):
            raise wrong_password()
    except UserError as error:
        return _page(wanted, error)
    went = RedirectResponse(wanted, status_code=303)
    went.headers["set-cookie"] = login.open_session()
    return went


async def log_out(login: ConsoleLogin, token: str, request: Request) -> Response:
    """Ends the session of this browser."""
    try:
        await form_of(request, token)
    except UserError as error:
        return _error_response(error)
    went = RedirectResponse(PATH, status_code=303)
    went.headers["set-cookie"] = login.close_session(request.headers)
    return went


def _page(wanted: str, error: UserError | None) -> Response:
    html = rendering.render("login.html", {"next": wanted, "error": error})
    return HTMLResponse(html, status_code=200 if error is None else _status_of(error))
