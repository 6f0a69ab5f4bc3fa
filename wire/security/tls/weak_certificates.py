"""The weaknesses for which OpenSSL refuses a certificate, as text: OpenSSL itself only returns a code.

Java accepts SHA-1 under private authorities, and RSA keys of 1,024 bits. OpenSSL at security level 2 accepts neither of
these, nor does a peer that uses it. As in OpenSSL, the signature of a self-signed
certificate is not checked.
"""

from __future__ import annotations

from collections.abc import Iterator

from trimaran.wire.security.tls.certificate import Certificate, certificates, der_values

# OpenSSL's errors about chains that `weaknesses` explains.
REASONS = frozenset({"CA_MD_TOO_WEAK", "CA_KEY_TOO_SMALL", "EE_KEY_TOO_SMALL"})
RSA_BITS_MIN = 2048

_INTEGER = 0x02
_RSA = bytes.fromhex("2a864886f70d010101")
_WEAK_SIGNATURES = {
    bytes.fromhex("2a864886f70d010102"): "MD2",
    bytes.fromhex("2a864886f70d010104"): "MD5",
    bytes.fromhex("2a864886f70d010105"): "SHA-1",
    bytes.fromhex("2b0e03021d"): "SHA-1",
    bytes.fromhex("2a8648ce3d0401"): "SHA-1",  # ECDSA
    bytes.fromhex("2a8648ce380403"): "SHA-1",  # DSA
}


def weaknesses(pem: str) -> list[str]:
    """Returns a sentence for each weakness of the PEM text's certificates; unreadable ones are omitted."""
    return [told for certificate in certificates(pem) for told in _weaknesses(certificate)]


def _weaknesses(certificate: Certificate) -> Iterator[str]:
    digest = _WEAK_SIGNATURES.get(certificate.algorithm)
    if digest is not None and not certificate.is_self_signed:
        yield f"the certificate of {certificate.subject} is signed with {digest}"
    bits = _rsa_bits(certificate.key)
    if bits is not None and bits < RSA_BITS_MIN:
        yield f"the certificate of {certificate.subject} has an RSA key of {bits} bits"


def _rsa_bits(key: bytes) -> int | None:
    try:
        (_, algorithm), (_, bit_string) = der_values(key)
        (_, identifier), *_ = der_values(algorithm)
        if identifier != _RSA:
            return None
        ((_, numbers),) = der_values(bit_string[1:])
        (tag, modulus), *_ = der_values(numbers)
    except (IndexError, ValueError):
        return None
    return int.from_bytes(modulus, "big").bit_length() if tag == _INTEGER else None
