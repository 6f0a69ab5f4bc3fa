"""A reader of Java keystores (JKS): private keys with their chains, and certificates, as PEM.

We wrote our own reader, because the format is small and fixed, and the only package for it has had no release since
2020 and depends on ciphers that need a compiler. The format hardly protects its secrets: it applies SHA-1 once to the
password. PKCS12 is better. Source: `sun.security.provider.JavaKeyStore` and `KeyProtector` of OpenJDK. Not implemented:
JCEKS, writing.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import struct
from dataclasses import dataclass

MAGIC = b"\xfe\xed\xfe\xed"
_PEPPER = b"Mighty Aphrodite"
_DIGEST_BYTES = 20
_KEY, _CERTIFICATE = 1, 2
_U32, _U16, _I64 = struct.Struct(">I"), struct.Struct(">H"), struct.Struct(">q")


class JksError(ValueError):
    """The store is damaged, or the password is wrong."""


@dataclass(slots=True)
class _Reader:
    data: bytes
    place: int = 0

    def take(self, count: int) -> bytes:
        piece = self.data[self.place : self.place + count]
        if len(piece) < count:
            raise JksError("it ends too early")
        self.place += count
        return piece

    def number(self, form: struct.Struct = _U32) -> int:
        return int(form.unpack(self.take(form.size))[0])

    def certificate(self, version: int) -> bytes:
        if version == 2:
            kind = self.take(self.number(_U16))
            if kind != b"X.509":
                raise JksError("it holds a certificate that is none of X.509")
        return self.take(self.number())


def pem_of_jks(data: bytes, password: str | None, key_password: str | None = None) -> str:
    """Returns the first private key with its chain, if there is one, then all trusted certificates.

    Without `password` the integrity of the store is not checked, as in Java, and private keys are not decrypted.

    Raises:
        JksError: the store is damaged, or the password is wrong.
    """
    if not data.startswith(MAGIC):
        raise JksError("it is no JKS store")
    if password is not None:
        _check_digest(data, password)
    reader = _Reader(data[:-_DIGEST_BYTES], len(MAGIC))
    version, count = reader.number(), reader.number()
    if version not in (1, 2):
        raise JksError("its version is not known")
    own: list[str] = []
    trusted: list[str] = []
    # Each entry takes some of the bytes, which are at most SMALL_FILE_BYTES_MAX.
    for _ in range(count):
        tag = reader.number()
        reader.take(reader.number(_U16))  # the alias
        reader.number(_I64)  # the creation time
        if tag == _CERTIFICATE:
            trusted.append(_pem("CERTIFICATE", reader.certificate(version)))
        elif tag == _KEY:
            protected = reader.take(reader.number())
            chain = [reader.certificate(version) for _ in range(reader.number())]
            opens = key_password or password
            if not own and opens is not None:
                own = [_pem("PRIVATE KEY", _plain_key(protected, opens))]
                own += [_pem("CERTIFICATE", certificate) for certificate in chain]
        else:
            raise JksError("it holds an entry of a kind that is not known")
    return "".join(own + trusted)


def _check_digest(data: bytes, password: str) -> None:
    digest = hashlib.sha1(usedforsecurity=False)
    for part in (password.encode("utf-16-be"), _PEPPER, data[:-_DIGEST_BYTES]):
        digest.update(part)
    if not hmac.compare_digest(digest.digest(), data[-_DIGEST_BYTES:]):
        raise JksError("the password is wrong, or the store is damaged")


def _plain_key(protected: bytes, password: str) -> bytes:
    """Returns the PKCS #8 key in an EncryptedPrivateKeyInfo with Sun's own cipher: a key stream of SHA-1."""
    inner = _content(protected, 0x30)[0]
    _, rest = _content(inner, 0x30)
    sealed, _ = _content(rest, 0x04)
    if len(sealed) <= 2 * _DIGEST_BYTES:
        raise JksError("a private key ends too early")
    secret = password.encode("utf-16-be")
    salt, hidden = sealed[:_DIGEST_BYTES], sealed[_DIGEST_BYTES:-_DIGEST_BYTES]
    stream, block = bytearray(), salt
    while len(stream) < len(hidden):
        block = hashlib.sha1(secret + block, usedforsecurity=False).digest()
        stream += block
    plain = bytes(a ^ b for a, b in zip(hidden, stream, strict=False))
    check = hashlib.sha1(secret + plain, usedforsecurity=False).digest()
    if not hmac.compare_digest(check, sealed[-_DIGEST_BYTES:]):
        raise JksError("the password of the private key is wrong")
    return plain


def _content(data: bytes, tag: int) -> tuple[bytes, bytes]:
    """Returns the content of the first DER value, and the rest."""
    reader = _Reader(data)
    if reader.take(1)[0] != tag:
        raise JksError("a private key is not written as it should be")
    size = reader.take(1)[0]
    if size >= 0x80:
        size = int.from_bytes(reader.take(size & 0x7F), "big")
    return reader.take(size), data[reader.place :]


def _pem(kind: str, der: bytes) -> str:
    text = base64.b64encode(der).decode()
    lines = "\n".join(text[place : place + 64] for place in range(0, len(text), 64))
    return f"-----BEGIN {kind}-----\n{lines}\n-----END {kind}-----\n"
