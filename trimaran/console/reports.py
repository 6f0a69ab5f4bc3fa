"""Serves reports of analyses, apart from the pages of the console: a report contains scripts, and names that clients
chose.

So it is shown in a sandbox, without cookies, forms and network.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, RedirectResponse, Response

from trimaran.console.analyses import Analyses, is_installed, report_of
from trimaran.console.forms import form_of
from trimaran.errors.user_error import Exit, UserError
from trimaran.spark.analyses.catalogue import ANALYSES
from trimaran.wire.later import imported_later

if TYPE_CHECKING:
    from plotly import offline
    from starlette.requests import Request
else:
    offline = imported_later("plotly.offline")

# The path of Plotly for reports. The request comes from a sandbox, without a cookie, so the path is public.
PLOTLY = "/plotly.min.js"
_IN_REPORT = 'src="plotly.min.js"'
_POLICY = (
    "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; "
    "font-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; sandbox allow-scripts allow-downloads"
)


async def show(data: Path | None, request: Request) -> Response:
    """Serves a report unchanged. Raises HTTPException if there is none."""
    name = request.path_params.get("name", "")
    if data is None or not _is_name(name):
        raise HTTPException(404)
    try:
        text = report_of(data, name).read_text()
    except OSError as error:
        raise HTTPException(404) from error
    headers = {"content-security-policy": _POLICY}
    return HTMLResponse(text.replace(_IN_REPORT, f'src="{PLOTLY}"', 1), headers=headers)


def _is_name(name: str) -> bool:
    return not name or name in ANALYSES


async def plotly(_: Request) -> Response:
    """Serves the library that draws reports."""
    if not is_installed():
        raise HTTPException(404)
    headers = {"cross-origin-resource-policy": "cross-origin", "cache-control": "max-age=86400"}
    return Response(offline.get_plotlyjs(), media_type="text/javascript", headers=headers)


async def start(analyses: Analyses, token: str, request: Request) -> Response:
    """Starts the analysis in the path. Raises UserError."""
    await form_of(request, token)
    name = request.path_params["name"]
    if not name or not _is_name(name):
        raise UserError(
            f"there is no analysis {name[:80]}",
            "it is not in the list of analyses",
            "choose one from the page Analyses",
            exit_code=Exit.USAGE,
        )
    analyses.start(name)
    return RedirectResponse("/analyses", status_code=303)
