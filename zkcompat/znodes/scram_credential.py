"""The text of a SCRAM credential among the configs of a user. Source: Kafka's `ScramCredentialUtils`."""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode

from trimaran.wire.errors import RemoteProtocolError
from trimaran.wire.records.security import UserScramCredentialRecord

# The mechanisms by their numbers in the metadata log.
SCRAM_KEYS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
# Keys have 64 bytes at most, and a login carries the salt in a message of 8192.
TEXT_CHARS_MAX = 4096


def scram_text(record: UserScramCredentialRecord) -> str:
    """Returns the text of a credential. It is a secret: its keys allow an attacker to test passwords and to impersonate
    the broker.
    """
    parts = {
        "salt": record.salt,
        "stored_key": record.stored_key,
        "server_key": record.server_key,
    }
    texts = [f"{name}={b64encode(bytes(value)).decode()}" for name, value in parts.items()]
    return ",".join([*texts, f"iterations={record.iterations}"])


def parse_scram_text(user: str, mechanism: int, text: str) -> UserScramCredentialRecord:
    """Returns the credential in a text, its parts in any order.

    Raises RemoteProtocolError, which reveals nothing of the text.
    """
    parts = dict(part.partition("=")[::2] for part in text[: TEXT_CHARS_MAX + 1].split(","))
    named = {"salt", "stored_key", "server_key", "iterations"}
    iterations = parts.get("iterations", "")
    is_number = iterations.isascii() and iterations.isdecimal() and len(iterations) <= 9
    if len(text) > TEXT_CHARS_MAX or parts.keys() != named or not is_number:
        raise RemoteProtocolError("not of the form of a SCRAM credential")
    try:
        return UserScramCredentialRecord(
            name=user,
            mechanism=mechanism,
            salt=b64decode(parts["salt"], validate=True),
            stored_key=b64decode(parts["stored_key"], validate=True),
            server_key=b64decode(parts["server_key"], validate=True),
            iterations=int(iterations),
        )
    except (binascii.Error, ValueError):
        raise RemoteProtocolError("a SCRAM credential that is not in base64") from None
