"""The key or the value of one record, as its bytes."""

from __future__ import annotations

from starlette.responses import Response

from trimaran.console.page import NotHere, PageRequest
from trimaran.console.pages import message

PATHS = {part: f"{message.PATH}/{part}" for part in ("key", "value")}


def download(question: PageRequest, part: str) -> Response:
    """Returns a file with the bytes. Raises NotHere, also for null."""
    where, offset = message.place_of(question)
    with question.cluster.client() as client:
        record = message.record_at(client, where, offset)
    data = record.key if part == "key" else record.value
    if data is None:
        raise NotHere(
            f"the {part} of {where} at offset {offset} is null",
            "null has no bytes",
            "its page shows the record",
        )
    name = f"{where.topic}-{where.partition}-{offset}.{part}"  # ASCII, as names of topics are
    return Response(
        bytes(data),
        media_type="application/octet-stream",
        headers={"content-disposition": f'attachment; filename="{name}"'},
    )
