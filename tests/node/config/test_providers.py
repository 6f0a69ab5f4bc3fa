"""Variables in configurations: what they stand for, and what none of them may reach."""

from dataclasses import dataclass, replace

import pytest

from node.config.config_def import ConfigError
from node.config.providers import command_line_providers, resolve, resolve_text

CLASSES = "org.apache.kafka.common.config.provider."


@dataclass(frozen=True)
class Given:
    value: str
    origin: str = "test:1"


def resolved(environ=None, **values):
    settings = {
        "config.providers": "file,env,dir",
        "config.providers.file.class": CLASSES + "FileConfigProvider",
        "config.providers.env.class": CLASSES + "EnvVarConfigProvider",
        "config.providers.dir.class": CLASSES + "DirectoryConfigProvider",
        **{key.replace("__", "."): value for key, value in values.items()},
    }
    given = {key: Given(value) for key, value in settings.items()}
    found = resolve(given, lambda one, value: replace(one, value=value), environ or {})
    return found["key"].value


def test_values_stand_in_files_directories_and_the_environment(tmp_path):
    (tmp_path / "secrets").write_text("one=first\ntwo = second\n")
    assert resolved(key=f"a${{file:{tmp_path}/secrets:one}}b") == "afirstb"
    assert resolved(key=f"${{dir:{tmp_path}:secrets}}").startswith("one=")
    assert resolved({"PASSWORD": "x"}, key="${env:PASSWORD}${env:PASSWORD}") == "xx"


def test_what_names_no_provider_stays():
    assert resolved(key="${vault:a} $1 ${x}") == "${vault:a} $1 ${x}"
    given = {"key": Given("${env:HOME}")}
    assert resolve(given, lambda one, _: one, {"HOME": "x"})["key"].value == "${env:HOME}"


def test_a_value_is_not_resolved_again():
    assert resolved({"A": "${env:B}", "B": "secret"}, key="${env:A}") == "${env:B}"


@pytest.mark.parametrize(
    ("key", "more"),
    [
        ("${env:MISSING}", {}),
        ("${env:SECRET}", {"config__providers__env__param__allowlist.pattern": "OTHER.*"}),
        ("${file:{path}/none:a}", {}),
        ("${file:{path}/secrets:none}", {}),
        (
            "${file:{path}/secrets:a}",
            {"config__providers__file__param__allowed.paths": "{path}/in"},
        ),
        (
            "${file:{path}/in/../secrets:a}",
            {"config__providers__file__param__allowed.paths": "{path}/in"},
        ),
        (
            "${file:{path}/in/link:a}",
            {"config__providers__file__param__allowed.paths": "{path}/in"},
        ),
        ("${dir:{path}/in:../secrets}", {}),
        ("${file:{path}/binary:a}", {}),
        ("${file:{path}/large:a}", {}),
    ],
)
def test_what_is_refused(tmp_path, key, more):
    (tmp_path / "in").mkdir()
    (tmp_path / "secrets").write_text("a=topsecret\n")
    (tmp_path / "in" / "link").symlink_to(tmp_path / "secrets")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    (tmp_path / "large").write_bytes(b"#" * (2 << 20))
    values = {
        name: text.replace("{path}", str(tmp_path)) for name, text in {"key": key, **more}.items()
    }
    with pytest.raises(ConfigError) as raised:
        resolved({"SECRET": "topsecret"}, **values)
    assert raised.value.key == "key"
    assert "topsecret" not in str(raised.value)


def test_a_class_of_somebody_elses_is_refused_not_loaded():
    with pytest.raises(ConfigError, match="classes of Java do not run here"):
        resolved(key="x", config__providers__env__class="com.example.Evil")


def test_arguments_of_commands_know_the_same_words(tmp_path):
    providers = command_line_providers({"P": "x,y"})
    text = resolve_text("SCRAM-SHA-256=[name=a,password=${env:P}]", providers)
    assert text == "SCRAM-SHA-256=[name=a,password=x,y]"
