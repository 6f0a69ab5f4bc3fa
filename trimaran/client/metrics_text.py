"""The metrics of a node as text, from its `trimaran.metrics.listener` or a JMX exporter."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from trimaran.errors.user_error import Exit, UserError
from trimaran.wire.later import imported_later

if TYPE_CHECKING:
    from http import client as http_client
    from urllib import request as urllib_request
else:
    http_client = imported_later("http.client")
    urllib_request = imported_later("urllib.request")

TIMEOUT_SECONDS = 10.0
# The text of a node with a hundred thousand partitions has 40 MB.
BYTES_MAX = 128 << 20


def text_of(address: str, timeout: float = TIMEOUT_SECONDS, names: Iterable[str] = ()) -> str:
    """Returns all metrics, or the named ones, in the format of Prometheus.

    Raises:
        UserError: no server responds at HOST:PORT, or it does not serve metrics.
    """
    query = urlencode([("name[]", name) for name in names])
    url = f"http://{address}/metrics" + (f"?{query}" if query else "")
    try:
        with urllib_request.urlopen(url, timeout=timeout) as response:
            return str(response.read(BYTES_MAX), "utf-8")
    except (OSError, ValueError, http_client.HTTPException) as error:
        raise UserError(
            f"no metrics from {address}",
            str(getattr(error, "reason", None) or error),
            "check that the node is running, and that its trimaran.metrics.listener is set",
            exit_code=Exit.CANNOT_CONNECT,
        ) from error
