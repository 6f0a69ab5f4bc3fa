"""Settings of the mirror: values from Kafka's keys, and those that prevent a start."""

import re
import ssl

import pytest

from tests.certificates import Certificates
from trimaran.wire.security.sasl.scram_client import ScramCredentials
from trimaran.zkcompat.mirroring.mirror import MirrorConfig
from trimaran.zkcompat.settings import keeper_config, mirror_config, quorum_security
from trimaran.zkcompat.zookeeper.digest_md5 import DigestCredentials
from trimaran.zkcompat.zookeeper.kazoo_client import Security
from trimaran.zkcompat.zookeeper.session import KeeperConfig


def test_kafkas_keys_configure_the_mirror():
    properties = {
        "zookeeper.metadata.migration.min.batch.size": "50",
        "zookeeper.session.timeout.ms": "6000",
        "zookeeper.set.acl": "true",
        "trimaran.zk.auth": "digest:user:pass:word",
        "trimaran.zk.mirror.verify.interval.ms": "500",
    }
    assert mirror_config(properties) == MirrorConfig(50, 0.5)
    assert keeper_config("z:1/k", properties) == KeeperConfig(
        "z:1/k", 6000, secured=True, security=Security(auth=(("digest", "user:pass:word"),))
    )
    assert keeper_config("z:1", {}) == KeeperConfig("z:1", 18_000)
    assert mirror_config({}) == MirrorConfig(200, 60.0)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("zookeeper.session.timeout.ms", "soon"),
        ("zookeeper.set.acl", "yes"),
        ("zookeeper.set.acl", "true"),
        ("trimaran.zk.auth", "digest"),
    ],
)
def test_wrong_value_is_named_with_its_key(key, value):
    with pytest.raises(ValueError, match=re.escape(key)):
        keeper_config("z:1", {key: value})


DIGEST = 'org.apache.zookeeper.server.auth.DigestLoginModule required username="m" password="p w";'


def test_sasl_user_comes_from_jaas_by_value():
    config = keeper_config("z:1", {"trimaran.zk.sasl.jaas.config": DIGEST})
    assert config.security == Security(sasl=DigestCredentials("m", "p w"))
    assert "p w" not in repr(config)


@pytest.mark.parametrize(
    ("jaas", "why"),
    [
        ("com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true;", "Kerberos"),
        ("org.example.MyModule required username=a password=b;", "org.example.MyModule is not"),
        (DIGEST.replace("password", "secret"), "username and password"),
        ("nonsense", "a login module is written"),
    ],
)
def test_settings_without_effect_prevent_the_start(jaas, why):
    with pytest.raises(ValueError, match=why) as refused:
        keeper_config("z:1", {"trimaran.zk.sasl.jaas.config": jaas})
    assert "p w" not in str(refused.value)


def test_secrets_need_an_authenticated_session():
    asked = {"trimaran.zk.mirror.secrets.enable": "true"}
    with pytest.raises(ValueError, match=r"trimaran\.zk\.auth or trimaran\.zk\.sasl\.jaas\.config"):
        mirror_config(asked)
    assert mirror_config({**asked, "trimaran.zk.auth": "digest:a:b"}).secrets
    assert mirror_config({**asked, "trimaran.zk.sasl.jaas.config": DIGEST}).secrets


def test_tls_is_made_of_zookeepers_keys(tmp_path):
    authority = tmp_path / "authority.pem"
    authority.write_text(Certificates().ca)
    properties = {
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
        "zookeeper.ssl.truststore.location": str(authority),
        "zookeeper.ssl.enabled.protocols": "TLSv1.2,TLSv1.3",
    }
    tls = keeper_config("z:1", properties).security.tls
    assert isinstance(tls, ssl.SSLContext)
    assert tls.check_hostname
    assert tls.verify_mode == ssl.CERT_REQUIRED
    lax = keeper_config(
        "z:1", {**properties, "zookeeper.ssl.endpoint.identification.algorithm": ""}
    )
    assert not lax.security.tls.check_hostname
    assert keeper_config("z:1", {}).security.tls is None


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("zookeeper.ssl.crl.enable", "true", "revocation"),
        ("zookeeper.ssl.ocsp.enable", "true", "revocation"),
        ("zookeeper.ssl.endpoint.identification.algorithm", "LDAPS", "HTTPS or nothing"),
        ("zookeeper.ssl.enabled.protocols", "TLSv1.1", "TLSv1.1 is not spoken"),
        ("zookeeper.ssl.truststore.location", "/nowhere.pem", "zookeeper.ssl.truststore.location"),
        ("zookeeper.ssl.keystore.location", "/nowhere.jks", "zookeeper.ssl.keystore"),
        ("zookeeper.ssl.client.enable", "yes", "zookeeper.ssl.client.enable"),
    ],
)
def test_tls_setting_without_effect_is_named(key, value, why):
    with pytest.raises(ValueError, match=re.escape(why)):
        keeper_config("z:1", {"zookeeper.ssl.client.enable": "true", key: value})


def test_controllers_are_reached_with_client_settings(tmp_path):
    authority = tmp_path / "authority.pem"
    authority.write_text(Certificates().ca)
    security = quorum_security(
        {
            "security.protocol": "SASL_SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(authority),
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
            "username=u password=p;",
        }
    )
    assert security.tls is not None
    assert security.sasl.username == "u"
    with pytest.raises(ValueError, match="GSSAPI"):
        quorum_security({"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"})


def test_mirror_logs_in_to_quorum_by_scram():
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    security = quorum_security(
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": f'{module} required username="mirror" password="secret";',
        }
    )
    assert security.sasl == ScramCredentials("SCRAM-SHA-512", "mirror", "secret")
