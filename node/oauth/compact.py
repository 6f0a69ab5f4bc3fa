"""The parts of a token in its compact form, `HEADER.CLAIMS.SIGNATURE`: each a JSON object in base64url without padding.

Source: RFC 7515, section 7.1.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any


def encoded(value: Mapping[str, object]) -> str:
    """Returns the object as a part of a token."""
    return encoded_bytes(json.dumps(value).encode())


def encoded_bytes(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def decoded(part: str) -> dict[str, Any]:
    """Returns the object in a part of a token. Raises ValueError or RecursionError."""
    try:
        found = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except binascii.Error as error:
        raise ValueError("no base64") from error
    if not isinstance(found, dict):
        raise ValueError("no object")
    return found
