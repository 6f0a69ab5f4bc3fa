"""Variables of Apache Kafka's image that name files."""

import pytest

from trimaran.errors.user_error import UserError
from trimaran.node.security.kerberos import KERBEROS_MODULE
from trimaran.node.security.plain import PLAIN_MODULE
from trimaran.node.security.scram import SCRAM_MODULE
from trimaran.settings.kafka_image import FILE_BYTES_MAX, with_files
from trimaran.settings.properties import from_environment
from trimaran.wire.security.sasl.jaas import parse_jaas

LISTENERS = {
    "KAFKA_LISTENERS": "CONTROLLER://:9093,SASL_SSL://:9094,INSIDE://:9095",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,INSIDE:SASL_PLAINTEXT",
    "KAFKA_SASL_ENABLED_MECHANISMS": "PLAIN,SCRAM-SHA-512",
}
JAAS = f"""KafkaServer {{
  {PLAIN_MODULE} required user_a="x\\\"y\\\\";
  {SCRAM_MODULE} required username=me password=s;
  {KERBEROS_MODULE} required useKeyTab=true;
}};
inside.KafkaServer {{ {PLAIN_MODULE} required user_b=z; }};
"""


def texts(environ, secrets):
    found = with_files(from_environment(environ), environ, secrets)
    return {key: setting.value for key, setting in found.items()}


def test_stores_and_passwords_are_files_of_secrets(tmp_path):
    for name, text in (("a", "one\n"), ("b", "two"), ("c", " three \n")):
        (tmp_path / name).write_text(text)
    environ = {
        "KAFKA_SSL_KEYSTORE_FILENAME": "k.jks",
        "KAFKA_SSL_KEYSTORE_CREDENTIALS": "a",
        "KAFKA_SSL_KEY_CREDENTIALS": "b",
        "KAFKA_SSL_TRUSTSTORE_FILENAME": "t.jks",
        "KAFKA_SSL_TRUSTSTORE_CREDENTIALS": "c",
    }
    assert texts(environ, tmp_path) == {
        "ssl.keystore.location": f"{tmp_path}/k.jks",
        "ssl.keystore.password": "one",
        "ssl.key.password": "two",
        "ssl.truststore.location": f"{tmp_path}/t.jks",
        "ssl.truststore.password": " three ",
    }


@pytest.mark.parametrize(
    "content", [None, b"x" * (FILE_BYTES_MAX + 1), b"\xff"], ids=["missing", "long", "binary"]
)
def test_unreadable_file_is_named_with_its_variable(tmp_path, content):
    if content is not None:
        (tmp_path / "a").write_bytes(content)
    with pytest.raises(UserError) as told:
        texts({"KAFKA_SSL_KEY_CREDENTIALS": "a"}, tmp_path)
    assert str(tmp_path / "a") in told.value.what
    assert "KAFKA_SSL_KEY_CREDENTIALS" in told.value.why


@pytest.mark.parametrize("form", ["{}", "-Xmx1g -D{} -ea", "'{}'"])
def test_jaas_file_becomes_key_of_each_listener(tmp_path, form):
    (tmp_path / "jaas.conf").write_text(JAAS)
    option = f"-Djava.security.auth.login.config={tmp_path}/jaas.conf"
    found = texts({**LISTENERS, "KAFKA_OPTS": form.replace("-D{}", "{}").format(option)}, tmp_path)
    logins = {key: text for key, text in found.items() if key.endswith("sasl.jaas.config")}
    assert sorted(logins) == [
        "listener.name.inside.plain.sasl.jaas.config",
        "listener.name.sasl_ssl.plain.sasl.jaas.config",
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config",
    ]
    outside = parse_jaas(logins["listener.name.sasl_ssl.plain.sasl.jaas.config"])
    assert outside.options == {"user_a": 'x"y\\'}
    inside = parse_jaas(logins["listener.name.inside.plain.sasl.jaas.config"])
    assert inside.options == {"user_b": "z"}


@pytest.mark.parametrize("module", [PLAIN_MODULE, SCRAM_MODULE])
def test_login_module_of_another_package_is_ignored(tmp_path, module):
    other = f"org.example.{module.rpartition('.')[2]}"
    (tmp_path / "jaas.conf").write_text(f"KafkaServer {{ {other} required user_a=x; }};")
    option = f"-Djava.security.auth.login.config={tmp_path}/jaas.conf"
    found = texts({**LISTENERS, "KAFKA_OPTS": option}, tmp_path)
    assert not [key for key in found if key.endswith("sasl.jaas.config")]


def test_key_in_environment_precedes_jaas_file(tmp_path):
    (tmp_path / "jaas.conf").write_text(JAAS)
    environ = {
        **LISTENERS,
        "KAFKA_OPTS": f"-Djava.security.auth.login.config={tmp_path}/jaas.conf",
        "KAFKA_LISTENER_NAME_INSIDE_PLAIN_SASL_JAAS_CONFIG": "mine",
    }
    assert texts(environ, tmp_path)["listener.name.inside.plain.sasl.jaas.config"] == "mine"


def test_faulty_jaas_file_is_named(tmp_path):
    (tmp_path / "jaas.conf").write_text("KafkaServer { M required secret }")
    environ = {"KAFKA_OPTS": f"-Djava.security.auth.login.config={tmp_path}/jaas.conf"}
    with pytest.raises(UserError) as told:
        texts(environ, tmp_path)
    assert "jaas.conf" in told.value.what
    assert "secret" not in str(told.value)
    assert texts({"KAFKA_OPTS": "-Xmx1g 'unclosed"}, tmp_path) == {}


def test_prefix_of_bitnami_means_same_keys():
    environ = {"KAFKA_CFG_NODE_ID": "1", "KAFKA_CFG_LOG_DIRS": "/a", "KAFKA_LOG_DIRS": "/b"}
    found = {key: setting.value for key, setting in from_environment(environ).items()}
    assert found == {"node.id": "1", "log.dirs": "/b"}
