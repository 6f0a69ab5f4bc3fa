"""TLS contexts from Kafka's `ssl.*` settings: PEM in files or in the settings themselves, PKCS12 and JKS files.

Source: `DefaultSslEngineFactory` of Kafka (KIP-651 for PEM), `SslConfigs`. As in Java, a store declared as JKS may be
PKCS12, and vice versa. For certificates that change while a node runs, see `trimaran.quorum.serving.altered_security`.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from trimaran.wire.later import imported_later
from trimaran.wire.security.small_files import read_small_file
from trimaran.wire.security.tls.jks import MAGIC, JksError, pem_of_jks
from trimaran.wire.security.tls.validity import doubts
from trimaran.wire.security.tls.weak_certificates import REASONS, RSA_BITS_MIN, weaknesses

if TYPE_CHECKING:
    from trimaran.wire.security.tls import pkcs12
else:
    pkcs12 = imported_later("trimaran.wire.security.tls.pkcs12")

ClientAuth = Literal["none", "requested", "required"]
VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
STORE_TYPES = ("JKS", "PKCS12", "PEM")
_VERIFY = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
# The cipher suites of TLS 1.3: OpenSSL can only enable all of them, or disable the version.
_SUITES_OF_13 = frozenset(
    {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}
)


_DER_SEQUENCE = b"\x30"  # the first bytes of PKCS12


class TlsError(Exception):
    """A setting from which no TLS context can be made; the text names the key, the cause and the remedy."""

    def __init__(self, key: str, why: str, fix: str) -> None:
        super().__init__(f"{key}: {why}; {fix}")
        self.key, self.why, self.fix = key, why, fix


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """The settings of one side; each corresponds to a key `ssl.…` of Kafka with nearly the same name.

    Args:
        keystore_location: a file with the private key and the certificate chain, which listeners require.
        keystore_key, keystore_chain: the key and the chain as PEM text instead of a file.
        truststore_location, truststore_certificates: trusted authorities; if neither is set, the authorities of the
        machine are used. crl_location: a PEM file with revocation lists; a peer is refused if the file has no list of
        its issuer, or an expired one. check_hostname: whether a client verifies the server's name
        (`ssl.endpoint.identification.algorithm=https`).
    """

    keystore_type: str = "JKS"
    keystore_location: str | None = None
    keystore_password: str | None = None
    keystore_key: str | None = None
    keystore_chain: str | None = None
    key_password: str | None = None
    truststore_type: str = "JKS"
    truststore_location: str | None = None
    truststore_password: str | None = None
    truststore_certificates: str | None = None
    crl_location: str | None = None
    client_auth: ClientAuth = "none"
    protocols: Sequence[str] = ("TLSv1.2", "TLSv1.3")
    cipher_suites: Sequence[str] = ()
    check_hostname: bool = True


def server_context(settings: TlsSettings) -> ssl.SSLContext:
    """Returns the context of a listener.

    Raises:
        TlsError: a setting is wrong, or a file cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _set_versions_and_suites(context, settings)
    if not settings.keystore_location and not settings.keystore_chain:
        raise TlsError(
            "ssl.keystore.location",
            "a listener that speaks TLS needs a certificate",
            "set it to a PEM file with private key and chain, and ssl.keystore.type=PEM",
        )
    _load_key(context, settings)
    context.verify_mode = _VERIFY[settings.client_auth]
    if settings.client_auth != "none":
        _load_trust(context, settings)
    return context


def client_context(settings: TlsSettings) -> ssl.SSLContext:
    """Returns the context of a client, with its own certificate if there is a keystore.

    Raises:
        TlsError: a setting is wrong, or a file cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _set_versions_and_suites(context, settings)
    context.check_hostname = settings.check_hostname
    if settings.keystore_location or settings.keystore_chain:
        _load_key(context, settings)
    _load_trust(context, settings)
    return context


def _set_versions_and_suites(context: ssl.SSLContext, settings: TlsSettings) -> None:
    versions = [VERSIONS[name] for name in settings.protocols]
    suites = list(settings.cipher_suites)
    if suites and not _SUITES_OF_13 & set(suites):
        versions = [version for version in versions if version != ssl.TLSVersion.TLSv1_3]
    if not versions:
        raise TlsError(
            "ssl.enabled.protocols",
            "no version is left that the cipher suites belong to",
            "name TLSv1.2, TLSv1.3 or both, and suites of them",
        )
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    # Otherwise a client may request renegotiation endlessly, which costs us more than the client.
    context.options |= ssl.OP_NO_RENEGOTIATION
    older = [suite for suite in suites if suite not in _SUITES_OF_13]
    if older:
        try:
            context.set_ciphers(":".join(map(openssl_name, older)))
        except ssl.SSLError:
            raise TlsError(
                "ssl.cipher.suites",
                f"none of {', '.join(older)} is known",
                "use the names of RFC 5246, for example TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
            ) from None


def openssl_name(suite: str) -> str:
    """Returns OpenSSL's name of a suite: `TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256` is `ECDHE-RSA-AES128-GCM-SHA256`;
    OpenSSL's own names are unchanged.
    """
    exchange, found, cipher = suite.removeprefix("TLS_").partition("_WITH_")
    if not found:
        return suite
    cipher = cipher.replace("AES_", "AES").replace("_CBC", "").replace("_", "-")
    if cipher.startswith("CHACHA20"):
        cipher = "CHACHA20-POLY1305"
    return cipher if exchange == "RSA" else f"{exchange.replace('_', '-')}-{cipher}"


def _load_key(context: ssl.SSLContext, settings: TlsSettings) -> None:
    password = settings.key_password
    if not settings.keystore_chain and settings.keystore_type != "PEM":
        password = None  # `_keystore` returns a decrypted key
    pem = _keystore(settings)
    key = "ssl.keystore.location" if settings.keystore_location else "ssl.keystore.key"
    if password is None and "ENCRYPTED" in pem:
        raise TlsError("ssl.key.password", "the private key is encrypted", "set its password")
    try:
        with _as_file(pem) as path:
            context.load_cert_chain(path, password=password or "")
    except (ssl.SSLError, ValueError) as error:
        if _reason(error) in REASONS:
            raise _too_weak(key, settings.keystore_location, pem, _reason(error)) from error
        raise TlsError(
            key,
            f"no usable private key with its certificate chain ({_reason(error)})",
            "give the key, then its certificate, then those of its issuers, and ssl.key.password if it is encrypted",
        ) from error


def _keystore(settings: TlsSettings) -> str:
    """Returns the private key with its chain, as PEM."""
    if settings.keystore_chain:
        _require_pem("ssl.keystore", settings.keystore_type, "ssl.keystore.certificate.chain")
        if not settings.keystore_key:
            raise TlsError(
                "ssl.keystore.key", "the chain comes without its key", "set it to the PEM key"
            )
        return settings.keystore_key + "\n" + settings.keystore_chain
    return _read_store(
        *("ssl.keystore", settings.keystore_type, str(settings.keystore_location)),
        *(settings.keystore_password, settings.key_password),
    )


def _too_weak(key: str, location: str | None, pem: str, reason: str) -> TlsError:
    what = "; ".join(weaknesses(pem)) or "a certificate of the chain is too weak"
    where = f"{location}: " if location else ""
    return TlsError(
        key,
        f"{where}{what}; Java takes that, OpenSSL does not ({reason})",
        f"have it issued again, with an RSA key of {RSA_BITS_MIN} bits or more and signed with SHA-256",
    )


def _load_trust(context: ssl.SSLContext, settings: TlsSettings) -> None:
    pem = _truststore(settings)
    _load_revoked(context, settings)
    if pem is None:
        context.set_default_verify_paths()
        return
    try:
        context.load_verify_locations(cadata=pem)
    except (ssl.SSLError, ValueError) as error:
        raise TlsError(
            "ssl.truststore.location"
            if settings.truststore_location
            else "ssl.truststore.certificates",
            f"no usable certificates ({_reason(error)})",
            "give the certificates of the authorities to trust, in PEM",
        ) from error


def _truststore(settings: TlsSettings) -> str | None:
    """Returns the trusted authorities as PEM; None for those of the machine."""
    if settings.truststore_certificates:
        _require_pem("ssl.truststore", settings.truststore_type, "ssl.truststore.certificates")
        return settings.truststore_certificates
    if settings.truststore_location:
        return _read_store(
            "ssl.truststore",
            settings.truststore_type,
            settings.truststore_location,
            settings.truststore_password,
        )
    return None


def certificate_doubts(settings: TlsSettings, now: datetime) -> Iterator[tuple[str, str]]:
    """Yields a key and a sentence for each certificate of the stores that is expired, expires soon or is not valid yet.

    Raises:
        TlsError: a store cannot be read.
    """
    if settings.keystore_location or settings.keystore_chain:
        in_file = settings.keystore_location and not settings.keystore_chain
        key = "ssl.keystore.location" if in_file else "ssl.keystore.certificate.chain"
        yield from ((key, told) for told in doubts(_keystore(settings), now))
    if (trusted := _truststore(settings)) is not None:
        in_file = settings.truststore_location and not settings.truststore_certificates
        key = "ssl.truststore.location" if in_file else "ssl.truststore.certificates"
        yield from ((key, told) for told in doubts(trusted, now))


def _load_revoked(context: ssl.SSLContext, settings: TlsSettings) -> None:
    """Loads revocation lists for the peer's own certificate, not for its issuers, because few higher authorities
    publish lists.
    """
    if not settings.crl_location:
        return
    pem = _read_store("trimaran.ssl.crl", "PEM", settings.crl_location, None)
    try:
        if "-----BEGIN X509 CRL-----" not in pem:
            raise ValueError("no revocation list in it")
        with _as_file(pem) as path:
            context.load_verify_locations(cafile=path)
    except (ssl.SSLError, ValueError) as error:
        raise TlsError(
            "trimaran.ssl.crl.location",
            f"no usable revocation lists ({_reason(error)})",
            "give the list of each authority whose certificates peers have, in PEM",
        ) from error
    context.verify_flags |= ssl.VerifyFlags.VERIFY_CRL_CHECK_LEAF


def _require_pem(prefix: str, given: str, key: str) -> None:
    if given != "PEM":
        raise TlsError(
            f"{prefix}.type", f"{key} is PEM, this says {given}", f"set {prefix}.type=PEM"
        )


def _read_store(
    prefix: str, kind: str, location: str, password: str | None, key_password: str | None = None
) -> str:
    """Returns the PEM text of a store; a private key in JKS is decrypted with `key_password`, or with `password` if
    that is None.
    """
    try:
        data = read_small_file(location)
    except OSError as error:
        raise TlsError(
            f"{prefix}.location",
            f"{location}: {error.strerror}",
            "name a regular file that this process may read",
        ) from error
    if kind in ("JKS", "PKCS12") and data.startswith(MAGIC):
        try:
            return pem_of_jks(data, password, key_password)
        except JksError as error:
            raise TlsError(
                f"{prefix}.password",
                f"{location} cannot be opened: {error}",
                "correct the password",
            ) from error
    if kind in ("PKCS12", "JKS") and data[:1] == _DER_SEQUENCE:
        return _pem_of_pkcs12(prefix, data, location, password)
    if kind != "PEM":
        raise TlsError(
            f"{prefix}.type",
            f"{location} is no {kind} store",
            f"set {prefix}.type to what it is (PEM), or name another file",
        )
    try:
        return data.decode("ascii")
    except UnicodeDecodeError:
        raise TlsError(
            f"{prefix}.type",
            f"{location} is no PEM file",
            f"set {prefix}.type to what it is (PKCS12), or name a PEM file",
        ) from None


def _pem_of_pkcs12(prefix: str, data: bytes, location: str, password: str | None) -> str:
    try:
        return pkcs12.pem_of_pkcs12(data, password)
    except ImportError:
        raise TlsError(
            f"{prefix}.type",
            "reading PKCS12 needs the package cryptography",
            f"pip install 'trimaran[pkcs12]', or openssl pkcs12 -in {location} -nodes -out store.pem and"
            f" {prefix}.type=PEM",
        ) from None
    except ValueError as error:
        raise TlsError(
            f"{prefix}.password", f"{location} cannot be opened: {error}", "correct the password"
        ) from error


@contextmanager
def _as_file(pem: str) -> Iterator[str]:
    """Yields a file with the key, because OpenSSL reads keys only from files; if the system permits, it is never
    written to a disk.
    """
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("pem")
        try:
            os.write(fd, pem.encode())
            yield f"/proc/self/fd/{fd}"
        finally:
            os.close(fd)
    else:
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(pem)
            file.flush()
            yield file.name


def _reason(error: Exception) -> str:
    return getattr(error, "reason", None) or str(error)
