"""Variables in configurations: their values, and the files and variables that providers must not read."""

from dataclasses import dataclass, replace

import pytest

from trimaran.node.config.config_def import ConfigError
from trimaran.node.config.providers import command_line_providers, resolve, resolve_text

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


def test_values_come_from_files_directories_and_environment(tmp_path):
    (tmp_path / "secrets").write_text("one=first\ntwo = second\n")
    assert resolved(key=f"a${{file:{tmp_path}/secrets:one}}b") == "afirstb"
    assert resolved(key=f"${{dir:{tmp_path}:secrets}}").startswith("one=")
    assert resolved({"PASSWORD": "x"}, key="${env:PASSWORD}${env:PASSWORD}") == "xx"


def test_text_without_provider_stays():
    assert resolved(key="${vault:a} $1 ${x}") == "${vault:a} $1 ${x}"
    given = {"key": Given("${env:HOME}")}
    assert resolve(given, lambda one, _: one, {"HOME": "x"})["key"].value == "${env:HOME}"


def test_resolved_value_is_not_resolved_again():
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
def test_invalid_variables_are_refused_without_secrets(tmp_path, key, more):
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


def test_foreign_class_is_refused_without_loading():
    with pytest.raises(ConfigError, match="classes of Java do not run here"):
        resolved(key="x", config__providers__env__class="com.example.Evil")


def test_command_arguments_resolve_variables_too(tmp_path):
    providers = command_line_providers({"P": "x,y"})
    text = resolve_text("SCRAM-SHA-256=[name=a,password=${env:P}]", providers)
    assert text == "SCRAM-SHA-256=[name=a,password=x,y]"


FILE, ENV, DIR = (
    CLASSES + name
    for name in ("FileConfigProvider", "EnvVarConfigProvider", "DirectoryConfigProvider")
)


def refusal(environ=None, **values):
    with pytest.raises(ConfigError) as raised:
        resolved(environ, **values)
    error = raised.value
    return error.key, error.value, error.why, error.origin, error.fix


CORRECT = ("test:1", "write the value there, or correct the variable")


def test_refusal_names_variable_reason_and_fix(tmp_path):
    (tmp_path / "secrets").write_text("a=topsecret\n")
    (tmp_path / "wrong").write_text("a=\\u12\n")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    missing = "the environment has no variable X that may be read"
    assert refusal(key="${env:X}") == ("key", "${env:X}", missing, *CORRECT)
    pattern = {"config__providers__env__param__allowlist.pattern": " Y.* "}
    assert refusal({"X": "1"}, key="${env:X}", **pattern)[2] == missing
    assert resolved({"YX": "1"}, key="${env:YX}", **pattern) == "1"
    for path, word, why in (
        ("none", "a", "{}: No such file or directory"),
        ("secrets", "b", "there is no b in {}"),
        ("wrong", "a", "{} is not a properties file"),
        ("binary", "a", "{} is not text"),
    ):
        text = f"${{file:{tmp_path}/{path}:{word}}}"
        assert refusal(key=text) == ("key", text, why.format(tmp_path / path), *CORRECT)
    assert refusal(key="${file:a}")[2] == ": it is not a regular file"
    for name in (".", "..", "a/b"):
        text = f"${{dir:{tmp_path}:{name}}}"
        assert refusal(key=text)[2] == f"{name} is not a file in {tmp_path}"


def test_unknown_provider_class_is_refused_with_line():
    known = "FileConfigProvider, EnvVarConfigProvider, DirectoryConfigProvider"
    told = (
        "classes of Java do not run here; only some are known by their names",
        "test:1",
        f"set it to {CLASSES} and one of {known}",
    )
    name = "config.providers.env.class"
    assert refusal(key="x", config__providers__env__class="com.Evil") == (name, "com.Evil", *told)
    given = {"config.providers": Given("env"), "key": Given("x")}
    with pytest.raises(ConfigError) as raised:
        resolve(given, lambda one, _: one, {})
    assert (raised.value.key, raised.value.value, raised.value.origin) == (name, "", "")


def test_files_are_read_only_in_allowed_paths(tmp_path):
    for name in ("one", "two", "three"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "s").write_text("a=b\n")
    allowed = f" {tmp_path}/one , {tmp_path}/two/,"
    for kind in ("file", "dir"):
        bound = {f"config__providers__{kind}__param__allowed.paths": allowed}
        for name, text in (("one", "b"), ("two", "b"), ("three", None)):
            at = f"{tmp_path}/{name}/s:a" if kind == "file" else f"{tmp_path}/{name}:s"
            expected = "b" if kind == "file" else "a=b\n"
            if text is not None:
                assert resolved(key=f"${{{kind}:{at}}}", **bound) == expected
            else:
                why = refusal(key=f"${{{kind}:{at}}}", **bound)[2]
                assert why == f"{tmp_path}/{name}/s is outside allowed.paths"


def test_file_over_a_mebibyte_is_refused(tmp_path):
    (tmp_path / "full").write_bytes(b"#" * (1 << 20))
    (tmp_path / "large").write_bytes(b"#" * ((1 << 20) + 1))
    assert len(resolved(key=f"${{dir:{tmp_path}:full}}")) == 1 << 20
    assert "large" in refusal(key=f"${{dir:{tmp_path}:large}}")[2]


def test_provider_settings_are_not_resolved_themselves():
    given = {
        "config.providers": Given("a , b,"),
        "config.providers.a.class": Given(ENV),
        "config.providers.b.class": Given("EnvVarConfigProvider"),
        "config.providers.b.param.allowlist.pattern": Given("${a:P}"),
        "plain": Given("x"),
        "one": Given("${a:P}-${c:P}"),
        "two": Given("${a:path:P}"),
    }
    resolved_texts = []

    def with_value(one, value):
        resolved_texts.append(one.value)
        return replace(one, value=value)

    found = resolve(given, with_value, {"P": "secret"})
    assert resolved_texts == ["${a:P}-${c:P}", "${a:path:P}"]
    changed = {"one": Given("secret-${c:P}"), "two": Given("secret")}
    assert found == given | changed
    for none in ("", " , "):
        without = {**given, "config.providers": Given(none)}
        resolved_texts.clear()
        assert resolve(without, with_value, {}) == without
        assert resolved_texts == []


def test_command_arguments_may_name_any_path(tmp_path):
    (tmp_path / "s").write_text("a=b\n")
    providers = command_line_providers({"P": "x"})
    assert set(providers) == {"file", "env", "dir"}
    text = f"${{file:{tmp_path}/s:a}}${{env:P}}${{dir:{tmp_path}:s}}"
    assert resolve_text(text, providers) == "bxa=b\n"
