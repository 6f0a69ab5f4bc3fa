"""Certificates for tests: one trusted authority, and leaves that are wrong in every way."""

import datetime as dt

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from trimaran.wire.security.tls.contexts import TlsSettings, client_context, server_context

DAY = dt.timedelta(days=1)


class Certificates:
    """`server` for localhost and 127.0.0.1, `client` for alice; `ca` as PEM text."""

    def __init__(self):
        self._authority = trustme.CA()
        self.ca = self._authority.cert_pem.bytes().decode()
        self.server = self.issue("localhost", "127.0.0.1")
        self.client = self.issue("alice@example.org", common_name="alice")

    def issue(self, *names, common_name=None, **options):
        """Returns key and chain of a new leaf, as two PEM texts."""
        leaf = self._authority.issue_cert(*names, common_name=common_name, **options)
        chain = "".join(cert_chain_pem.bytes().decode() for cert_chain_pem in leaf.cert_chain_pems)
        return leaf.private_key_pem.bytes().decode(), chain

    def expired(self):
        return self.issue("localhost", "127.0.0.1", not_after=dt.datetime.now(dt.UTC) - DAY)

    def not_yet_valid(self):
        soon = dt.datetime.now(dt.UTC) + DAY
        return self.issue("localhost", "127.0.0.1", not_before=soon, not_after=soon + DAY)

    def revocation_list(self, *pairs, days=1):
        """Returns a PEM list of the authority with these revoked leaves; valid until `days` from now."""
        authority = x509.load_pem_x509_certificate(self.ca.encode())
        key = serialization.load_pem_private_key(self._authority.private_key_pem.bytes(), None)
        now = dt.datetime.now(dt.UTC)
        builder = x509.CertificateRevocationListBuilder(
            authority.subject, now - 3 * DAY, now + days * DAY
        )
        for _, chain in pairs:
            leaf = x509.load_pem_x509_certificate(chain.encode())
            revoked = x509.RevokedCertificateBuilder(leaf.serial_number, now - DAY)
            builder = builder.add_revoked_certificate(revoked.build())
        signed = builder.sign(key, hashes.SHA256())
        return signed.public_bytes(serialization.Encoding.PEM).decode()

    def server_settings(self, pair=None, **options):
        key, chain = pair or self.server
        return TlsSettings(
            keystore_type="PEM",
            keystore_key=key,
            keystore_chain=chain,
            truststore_type="PEM",
            truststore_certificates=self.ca,
            **options,
        )

    def client_settings(self, pair=None, **options):
        own = {}
        if pair:
            own = {"keystore_type": "PEM", "keystore_key": pair[0], "keystore_chain": pair[1]}
        options = {"truststore_certificates": self.ca, **options}
        return TlsSettings(truststore_type="PEM", **own, **options)

    def server_context(self, pair=None, **options):
        return server_context(self.server_settings(pair, **options))

    def client_context(self, pair=None, **options):
        return client_context(self.client_settings(pair, **options))


def self_signed(name="localhost", usage=None):
    """Returns key and certificate without an authority; `usage` is an extended key usage."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    return pem_of(key), _signed(subject, subject, key, key, usage, name)


def wrong_usage():
    """Returns an authority, and key and chain of one of its leaves, which is only valid for servers."""
    authority = ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "another authority")])
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "alice")])
    ca = _signed(issuer, issuer, authority, authority, None, None)
    leaf = _signed(subject, issuer, key, authority, ExtendedKeyUsageOID.SERVER_AUTH, "alice")
    return ca, (pem_of(key), leaf)


def pem_of(key):
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()


def _signed(subject, issuer, key, signer, usage, name):
    now = dt.datetime.now(dt.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - DAY)
        .not_valid_after(now + DAY)
        .add_extension(x509.BasicConstraints(ca=name is None, path_length=None), critical=True)
    )
    if name is not None:
        builder = builder.add_extension(
            x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False
        )
    if usage is not None:
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
    return builder.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()
