"""`storage format --add-scram`: the first users of a cluster, in Kafka's syntax.

    SCRAM-SHA-512=[name=alice,password=secret]                      iterations=N and salt=BASE64 are optional
    SCRAM-SHA-512=[name=alice,salt=BASE64,saltedpassword=BASE64,iterations=N]

Source: `ScramParser` of Kafka, KIP-900.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable

from trimaran.wire.records.security import UserScramCredentialRecord
from trimaran.wire.security.sasl.scram import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    SCRAM_DIGESTS,
    SCRAM_NUMBERS,
    bytes_of,
    credential_of,
    credential_of_salted,
)

_FORM = "MECHANISM=[name=NAME,password=PASSWORD]"
_ENTRY = re.compile(r"([A-Z0-9-]+)=\[(.*)\]", re.DOTALL)
_PART = re.compile(r'([a-z]+)=("(?:[^"])*"|[^,]*)(?:,|$)')
_KNOWN = frozenset({"name", "password", "salt", "saltedpassword", "iterations"})
_SALT_BYTES = 24


def scram_record(
    text: str, resolve: Callable[[str], str] = lambda value: value
) -> UserScramCredentialRecord:
    """Returns the credential of an `--add-scram` argument; `resolve` replaces variables with secrets.

    Raises:
        ValueError: the argument does not have that form; the message never contains the password.
    """
    found = _ENTRY.fullmatch(text.strip())
    if found is None or found[1] not in SCRAM_DIGESTS:
        raise ValueError(f"--add-scram is written {_FORM}, with one of {', '.join(SCRAM_DIGESTS)}")
    mechanism = found[1]
    parts = {key: resolve(value) for key, value in _parts(found[2]).items()}
    name = parts.get("name")
    if not name:
        raise ValueError("--add-scram needs a name")
    iterations = _iterations(parts.get("iterations"))
    salt = _decoded(parts, "salt") if "salt" in parts else secrets.token_bytes(_SALT_BYTES)
    digest = SCRAM_DIGESTS[mechanism]
    if ("password" in parts) == ("saltedpassword" in parts):
        raise ValueError("--add-scram needs either password or saltedpassword")
    if "password" in parts:
        if not parts["password"]:
            raise ValueError("the password of --add-scram is empty")
        credential = credential_of(digest, parts["password"], salt, iterations)
    else:
        if "salt" not in parts:
            raise ValueError("saltedpassword comes with its salt")
        salted = _decoded(parts, "saltedpassword")
        credential = credential_of_salted(digest, salted, salt, iterations)
    number = SCRAM_NUMBERS[mechanism]
    return UserScramCredentialRecord(
        name=name,
        mechanism=number,
        salt=credential.salt,
        stored_key=credential.stored_key,
        server_key=credential.server_key,
        iterations=credential.iterations,
    )


def _parts(text: str) -> dict[str, str]:
    parts: dict[str, str] = {}
    place = 0
    while place < len(text):
        found = _PART.match(text, place)
        if found is None or found[1] not in _KNOWN or found[1] in parts:
            raise ValueError(f"--add-scram is written {_FORM}, each part once")
        parts[found[1]] = found[2].removeprefix('"').removesuffix('"')
        place = found.end()
    return parts


def _iterations(text: str | None) -> int:
    if text is None:
        return ITERATIONS_MIN
    if not text.isdecimal() or not ITERATIONS_MIN <= int(text) <= ITERATIONS_MAX:
        raise ValueError(f"iterations of --add-scram are {ITERATIONS_MIN} to {ITERATIONS_MAX}")
    return int(text)


def _decoded(parts: dict[str, str], name: str) -> bytes:
    data = bytes_of(parts[name])
    if not data:
        raise ValueError(f"the {name} of --add-scram is base64")
    return data
