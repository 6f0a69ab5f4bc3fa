"""`wire decode`: prints captured frames as JSON, and checks that we would write the same bytes."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

from cyclopts import Parameter

from trimaran.cli.output import say, show_json_line
from trimaran.errors.user_error import Exit
from trimaran.inspect import log_rows
from trimaran.log.batches import batch as batches_batch
from trimaran.node.text.wording import counted
from trimaran.wire import errors
from trimaran.wire.text import as_json as text_as_json
from trimaran.wire.text import captured as text_captured

if TYPE_CHECKING:
    from trimaran.wire.text.captured import CapturedFrame, Decoded

STDIN = Path("-")


def decode(
    file: Path,
    *,
    check: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Prints each captured frame as a line of JSON.

    The input has one JSON object per line: {"api_key": 3, "api_version": 12, "direction": "request", "frame": "AAMA…"},
    the frame in base64 with its header and without its length. A malformed line or frame results in an object with line
    and error, and in exit code 1 at the end. Secrets are hidden; for record batches only the headers are shown.

    Args:
        file: A file with the frames; - for stdin.
        check: Encode each message again, and show in check whether the bytes are the same. Exit code 1 if they are not.
    """
    total = bad = 0
    with _opened(file) as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            total += 1
            shown = _decoded(line, check)
            bad += "error" in shown or shown.get("check", "same") != "same"
            show_json_line({"line": number, **shown})
    wrong = "malformed or different" if check else "malformed"
    say(f"{counted(total, 'frame')}, {bad} {wrong}")
    return Exit.NO if bad else Exit.OK


@contextlib.contextmanager
def _opened(file: Path) -> Iterator[TextIO]:
    if file == STDIN:
        yield sys.stdin
        return
    with file.open(encoding="utf-8") as lines:
        yield lines


def _decoded(line: str, check: bool) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    try:
        captured = text_captured.parse_line(line)
        shown = {
            "api_key": captured.api_key,
            "api_version": captured.api_version,
            "direction": captured.direction,
        }
        decoded = text_captured.decode(captured)
    except errors.RemoteProtocolError as error:
        return {**shown, "error": str(error)}
    return shown | _shown(captured, decoded) | (_checked(captured, decoded) if check else {})


def _shown(captured: CapturedFrame, decoded: Decoded) -> dict[str, Any]:
    header: dict[str, Any] = {"correlation_id": decoded.correlation_id}
    if captured.direction == "request":
        header["client_id"] = decoded.client_id
    return {
        "api_name": captured.api_name,
        "header": header,
        "message": text_as_json.as_json(decoded.message, captured.api_version, _batches),
    }


def _checked(captured: CapturedFrame, decoded: Decoded) -> dict[str, Any]:
    try:
        again = text_captured.encode_again(captured, decoded)
    except errors.LocalProtocolError as error:
        return {"check": f"cannot be encoded again: {error}"}
    place = text_captured.first_difference(captured.frame, again)
    if place is None:
        return {"check": "same"}
    return {"check": f"differs at byte {place}: {len(captured.frame)} bytes, {len(again)} again"}


def _batches(records: bytes) -> Any:
    """Returns the header of each batch; anything else than a batch of format 2 stays base64."""
    try:
        return [
            log_rows.batch_row(batch) for batch in batches_batch.iter_batches(memoryview(records))
        ]
    except errors.RemoteProtocolError:
        return text_as_json.base64_text(records)
