"""Which dynamic broker configs are secrets and stay out of ZooKeeper (CVE history: other people read it).

Source: the PASSWORD-typed keys of Kafka's `SslConfigs`, `SaslConfigs` and `PasswordEncoderConfigs`; a listener's own
key (`listener.name.NAME.…`) ends with one of them. Kafka wrote them encrypted with `password.encoder.secret`; the
mirror leaves them out.
"""

from __future__ import annotations

_ENDINGS = (
    "sasl.jaas.config",
    "ssl.keystore.key",
    "ssl.keystore.certificate.chain",
    "ssl.truststore.certificates",
)
_WORDS = ("password", "secret")


def is_sensitive(key: str) -> bool:
    """True for a secret, also of a listener or of a plugin that names its secrets so."""
    lowered = key.lower()
    return lowered.endswith(_ENDINGS) or any(word in lowered for word in _WORDS)
