"""The application: pages as HTML, JSON and CSV, static files, errors in three lines."""

from __future__ import annotations

import csv
import io
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import quote

import trio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from trimaran.console import downloads, events, forms, gate, rendering, reports, stream, writes
from trimaran.console.cluster import ConsoleCluster, NotNamed
from trimaran.console.guards import Guard
from trimaran.console.login import PATH as LOGIN_PATH
from trimaran.console.login import ConsoleLogin
from trimaran.console.menu import menu_of
from trimaran.console.page import NotHere, Page, PageRequest
from trimaran.console.pages.registry import PAGES
from trimaran.console.samples import keep_sampling
from trimaran.console.write_registry import WRITES
from trimaran.errors.node import explain
from trimaran.errors.user_error import Exit, UserError

log = logging.getLogger(__name__)
# A header of JSON and CSV that names skipped records of a later Kafka.
UNKNOWN_HEADER = "x-unknown-records"

# The longest wait of a user; a request to a silent cluster times out before.
PAGE_SECONDS = 15.0
# The maximum number of threads that query the cluster. An abandoned thread counts until it ends.
THREADS_MAX = 8
ADDRESS_SHOWN = 200  # characters of a mistyped path that an error shows
_STATUS = {
    Exit.USAGE: 400,
    Exit.CANNOT_CONNECT: 503,
    Exit.TIMEOUT: 503,
    Exit.NO: 503,
}


@dataclass(frozen=True, slots=True)
class Console:
    """The state of the application."""

    cluster: ConsoleCluster
    limiter: trio.CapacityLimiter
    streams: trio.CapacityLimiter
    token: str  # the token of forms
    may_write: bool
    login: ConsoleLogin

    async def ask(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Calls a blocking function in a thread. Raises its exceptions, and UserError if it takes too long."""
        with trio.move_on_after(PAGE_SECONDS):
            return await trio.to_thread.run_sync(
                function, *arguments, abandon_on_cancel=True, limiter=self.limiter
            )
        raise UserError(
            "the cluster did not answer in time",
            f"the console waited {PAGE_SECONDS:.0f} s",
            "trimaran quorum status and trimaran brokers list show which nodes are up",
            exit_code=Exit.TIMEOUT,
        )


def application(
    cluster: ConsoleCluster,
    names: Collection[str],
    *,
    allow_writes: bool = False,
    login: ConsoleLogin | None = None,
) -> Guard:
    """Returns the application; `names` are its accepted host names. Without a login every client is accepted."""
    login = login or ConsoleLogin()
    console = Console(
        cluster,
        trio.CapacityLimiter(THREADS_MAX),
        trio.CapacityLimiter(stream.STREAMS_MAX),
        forms.new_token(),
        may_write=allow_writes,
        login=login,
    )
    routes: list[BaseRoute] = [
        Route(page.path, partial(_respond, console, page), methods=["GET"]) for page in PAGES
    ]
    if allow_writes:
        routes += [
            Route(write.path, partial(_write, console, write), methods=["POST"]) for write in WRITES
        ]
        routes += [
            Route(write.path, partial(_page_of_form, write), methods=["GET"]) for write in WRITES
        ]
    routes += [
        *(
            Route(path, partial(_download, console, part), methods=["GET"])
            for part, path in downloads.PATHS.items()
        ),
        Route("/stream", partial(_stream, console), methods=["GET"]),
        Route(LOGIN_PATH, partial(gate.log_in, login), methods=["GET", "POST"]),
        Route("/analyses/report", partial(reports.show, cluster.data), methods=["GET"]),
        Route("/analyses/report/{name}", partial(reports.show, cluster.data), methods=["GET"]),
        Route("/analyses/{name}", partial(_start_analysis, console), methods=["POST"]),
        Route(reports.PLOTLY, reports.plotly, methods=["GET"]),
        Route("/logout", partial(gate.log_out, login, console.token), methods=["POST"]),
    ]
    routes.append(Mount("/static", StaticFiles(packages=[("trimaran.console", "static")])))
    handlers: Mapping[Any, Any] = {HTTPException: partial(_not_found, console)}
    app = Starlette(
        routes=routes, exception_handlers=handlers, lifespan=partial(_background_tasks, cluster)
    )
    return Guard(gate.Gate(app, login), names)


@asynccontextmanager
async def _background_tasks(cluster: ConsoleCluster, _: Starlette) -> AsyncIterator[None]:
    """Runs the background tasks, as long as pages are served."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keep_sampling, cluster.samples)
        nursery.start_soon(cluster.analyses.serve)
        nursery.start_soon(_read_ahead, cluster)
        yield
        nursery.cancel_scope.cancel()


async def _read_ahead(cluster: ConsoleCluster) -> None:
    """Reads the metadata log, so that the first user does not wait for all of it."""
    with suppress(UserError):  # a page that needs it reports the error
        await trio.to_thread.run_sync(cluster.log.bounds, abandon_on_cancel=True)


async def _respond(console: Console, page: Page, request: Request) -> Response:
    question = PageRequest(console.cluster, _texts(request.path_params), dict(request.query_params))
    form = _form_of(request)
    try:
        return await console.ask(partial(_answer, console, page, question, form, request.url.path))  # type: ignore[no-any-return]
    except Exception as error:  # noqa: BLE001 - a page that fails is a page, and the next one may do
        return _failed(console, error, form, request.url.path, page.title)


async def _download(console: Console, part: str, request: Request) -> Response:
    question = PageRequest(console.cluster, _texts(request.path_params))
    try:
        return await console.ask(partial(downloads.download, question, part))  # type: ignore[no-any-return]
    except Exception as error:  # noqa: BLE001 - as of pages
        return _failed(console, error, _form_of(request), request.url.path, "Message")


async def _write(console: Console, write: writes.ConsoleWrite, request: Request) -> Response:
    question = PageRequest(console.cluster, _texts(request.path_params))
    form, path, title = _form_of(request), request.url.path, write.verb.capitalize()
    try:
        fields = await forms.form_of(request, console.token)
    except Exception as error:  # noqa: BLE001 - as of pages
        return _failed(console, error, form, path, title)
    try:
        made = partial(_made, console, write, question, fields, gate.address_of(request), path)
        return await console.ask(made)  # type: ignore[no-any-return]
    except Exception as error:  # noqa: BLE001 - as of pages
        with suppress(UserError):
            if form == "html":
                return await console.ask(  # type: ignore[no-any-return]
                    partial(_refused, console, write, question, fields, error)
                )
        return _failed(console, error, form, path, title)


def _made(
    console: Console,
    write: writes.ConsoleWrite,
    question: PageRequest,
    fields: forms.Fields,
    who: str,
    path: str,
) -> Response:
    """Makes a change, or shows what it would do. Runs in a thread."""
    preview = write.previewed(question, fields)
    if preview is None:
        return RedirectResponse(writes.perform(write, question, fields, who), status_code=303)
    values = {
        **_frame(console, write.verb.capitalize(), path),
        "preview": preview,
        "rows": preview.rows[: writes.PREVIEW_ROWS_MAX],
        "fields": {**fields, "confirmed": writes.CONFIRMED},
        "back": path,
    }
    return HTMLResponse(rendering.render("preview.html", values))


def _refused(
    console: Console,
    write: writes.ConsoleWrite,
    question: PageRequest,
    fields: forms.Fields,
    error: Exception,
) -> Response:
    """Shows the page of a form again, with the refusal and the fields as they were sent. Raises UserError."""
    told = explain(error)
    if told is None:
        raise error
    page, data = write.page, write.page.view(question)
    values = {
        **_frame(console, page.title, _path_of(page, question.path)),
        "query": {},
        **data,
        "refused": told,
        "sent": defaultdict(str, fields),
    }
    return HTMLResponse(rendering.render(page.template, values), status_code=_status_of(told))


async def _page_of_form(write: writes.ConsoleWrite, request: Request) -> Response:
    """Redirects to the page with the form: the links of a refusal are relative to the address of the form."""
    path = _path_of(write.page, _texts(request.path_params))
    return RedirectResponse(f"{path}?{request.url.query}".rstrip("?"), status_code=303)


def _path_of(page: Page, parts: Mapping[str, str]) -> str:
    path = page.path.replace(":path}", "}").replace(":int}", "}")
    return path.format_map({name: quote(value, safe="") for name, value in parts.items()})


async def _start_analysis(console: Console, request: Request) -> Response:
    try:
        return await reports.start(console.cluster.analyses, console.token, request)
    except UserError as error:
        return _failed(console, error, _form_of(request), request.url.path, "Analyses")


async def _stream(console: Console, request: Request) -> Response:
    last_change = partial(console.ask, console.cluster.log.last_change)
    try:
        return stream.ChangeStream(last_change, await last_change(), console.streams)
    except Exception as error:  # noqa: BLE001 - as of pages
        return _failed(console, error, "json", request.url.path, "Changes")


def _texts(parts: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in parts.items()}


def _form_of(request: Request) -> str:
    """Returns html, json or csv: the value of `?format=`, or the preference of the Accept header between HTML
    and JSON.
    """
    named = request.query_params.get("format", "")
    if named in ("json", "csv"):
        return named
    accepted = request.headers.get("accept", "")
    return "json" if "application/json" in accepted and "text/html" not in accepted else "html"


def _answer(console: Console, page: Page, question: PageRequest, form: str, path: str) -> Response:
    """Runs in a thread, since both the queries and the rendering take time."""
    data = page.view(question)
    # JSON and CSV have no place for a notice, so it is a header.
    headers = {UNKNOWN_HEADER: unknown} if (unknown := console.cluster.log.unknown) else {}
    if form == "json":
        text = rendering.to_json(data)
        return Response(text, media_type="application/json", headers=headers)
    if form == "csv":
        name = path.strip("/").replace("/", "-") or "overview"
        headers["content-disposition"] = f'attachment; filename="{_ascii(name)}.csv"'
        return Response(csv_of(data), media_type="text/csv", headers=headers)
    values = {**_frame(console, page.title, path), "query": dict(question.query), **data}
    return HTMLResponse(rendering.render(page.template, values))


def _ascii(name: str) -> str:
    return "".join(
        item if item.isascii() and (item.isalnum() or item in "-_.") else "_" for item in name
    )


def _frame(console: Console, title: str, path: str) -> dict[str, Any]:
    """Returns the values that the frame of every page needs."""
    return {
        "title": title,
        "at": path,
        "menu": menu_of(console.cluster, path),
        "cluster": console.cluster.as_json(),
        "token": console.token,
        "may_write": console.may_write,
        "has_login": console.login.is_wanted,
        "unknown_records": console.cluster.log.unknown,
        "refused": None,
        "sent": defaultdict(str),
    }


def _status_of(told: UserError) -> int:
    if isinstance(told, NotHere | NotNamed):
        return 404
    if isinstance(told, forms.Forged):
        return 403
    if told.exit_code == Exit.REFUSED:
        is_denied = "AUTHORIZATION" in told.why or "AUTHENTICATION" in told.why
        return 403 if is_denied else 502 if "malformed" in told.what else 400
    return _STATUS[told.exit_code]


def _failed(console: Console, error: Exception, form: str, path: str, title: str) -> Response:
    told = explain(error)
    if told is None:
        events.CONSOLE_PAGE_FAILED.log(log, exc_info=error, path=path)
        told = UserError(
            "this page failed",
            f"{type(error).__name__}: {error}",
            "see the log of the console; other pages may work",
        )
        status = 500
    else:
        status = _status_of(told)
    if form != "html":
        return JSONResponse({"error": told.as_json()}, status_code=status)
    values = {**_frame(console, title, path), "error": told, "status": status}
    return HTMLResponse(rendering.render("error.html", values), status_code=status)


async def _not_found(console: Console, request: Request, error: HTTPException) -> Response:
    """Responds to an unknown path, or to a method that a page does not accept."""
    path = request.url.path
    is_unknown = error.status_code == 404
    told = UserError(
        f"there is no page {path[:ADDRESS_SHOWN]}"
        if is_unknown
        else f"{path[:ADDRESS_SHOWN]} was refused",
        "the address is mistyped, or what it names is gone" if is_unknown else error.detail,
        "choose a page from the menu",
        exit_code=Exit.USAGE,
    )
    if _form_of(request) != "html":
        return JSONResponse({"error": told.as_json()}, status_code=error.status_code)
    values = {
        **_frame(console, "Page not found" if is_unknown else error.detail, path),
        "error": told,
    }
    html = rendering.render("error.html", {**values, "status": error.status_code})
    return HTMLResponse(html, status_code=error.status_code)


# A spreadsheet takes a cell with such a first character for a formula, and clients choose names of topics and clients.
_FORMULAS = ("=", "+", "-", "@", "\t", "\r")


def csv_of(data: Mapping[str, Any]) -> str:
    """Returns `data["rows"]` as CSV, with a line of names first; nothing if a page has no rows."""
    rows = data.get("rows") or []
    out = io.StringIO()
    if rows:
        names = list(rows[0])
        writer = csv.writer(out)
        writer.writerow(names)
        writer.writerows([_cell(row.get(name)) for name in names] for row in rows)
    return out.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, list | tuple):
        value = " ".join(map(str, value))
    if isinstance(value, str) and value.startswith(_FORMULAS):
        return f"'{value}"
    return value
