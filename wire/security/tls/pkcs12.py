"""A reader of PKCS12 stores, as PEM. It uses the package `cryptography`, an optional extra, so importing this module
may fail.
"""

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12


def pem_of_pkcs12(data: bytes, password: str | None) -> str:
    """Returns the private key, if there is one, and the certificates of a store. Raises ValueError: the password is
    wrong, or the store is invalid.
    """
    store = pkcs12.load_pkcs12(data, None if password is None else password.encode())
    pem = serialization.Encoding.PEM
    parts = []
    if store.key is not None:
        plain = serialization.NoEncryption()
        parts.append(store.key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
    own = [] if store.cert is None else [store.cert]
    parts += [entry.certificate.public_bytes(pem) for entry in (*own, *store.additional_certs)]
    return b"".join(parts).decode()
