import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimaran.errors.user_error import UserError
from trimaran.node.config.server_keys import SERVER_CONFIGS
from trimaran.settings.properties import (
    PropertySetting,
    from_environment,
    from_overrides,
    key_of_variable,
    load,
    read_file,
    variable_of_key,
)


def test_file_is_read_like_java_with_lines(tmp_path):
    file = tmp_path / "node.properties"
    file.write_text(
        "# comment\nnode.id=1\n\nlisteners = A://h:1,\\\n  B://h:2\nlog.dirs:/data\n! more\nnode.id 2\n"
    )
    assert read_file(file) == {
        "node.id": PropertySetting("2", f"{file}:8"),
        "listeners": PropertySetting("A://h:1,B://h:2", f"{file}:4"),
        "log.dirs": PropertySetting("/data", f"{file}:6"),
    }


def test_missing_file_is_a_clear_error(tmp_path):
    with pytest.raises(UserError, match="cannot read the configuration"):
        read_file(tmp_path / "none")


@pytest.mark.parametrize(
    ("data", "why", "fix"),
    [
        (b"a=1\nb=2\xff\n", "line 2, column 4: the byte 0xff is not UTF-8", r"as \uXXXX"),
        (b"\xc3", "line 1, column 1: the byte 0xc3 is not UTF-8", r"as \uXXXX"),
        ("gr\u00fc\u00df=\u00fc\nb=".encode() + b"\xfc", "line 2, column 3", r"as \uXXXX"),
        (b"a=\\u12\n", r"Invalid \u escape sequence", "four hexadecimal digits"),
    ],
)
def test_wrong_character_is_shown_by_its_place(tmp_path, data, why, fix):
    file = tmp_path / "wrong.properties"
    file.write_bytes(data)
    with pytest.raises(UserError) as refused:
        read_file(file)
    assert why in refused.value.why
    assert fix in refused.value.fix


@pytest.mark.parametrize(
    ("variable", "key"),
    [
        ("KAFKA_PROCESS_ROLES", "process.roles"),
        ("KAFKA_NODE_ID", "node.id"),
        ("KAFKA_LISTENER_NAME_A__B", "listener.name.a_b"),
        ("KAFKA_A___B", "a-b"),
    ],
)
def test_environment_variables_follow_kafkas_container_image(variable, key):
    assert key_of_variable(variable) == key


def test_variables_of_kafkas_scripts_are_no_keys():
    assert from_environment({"KAFKA_HEAP_OPTS": "-Xmx1g", "HOME": "/x"}) == {}


def test_overrides_beat_environment_beats_file(tmp_path):
    file = tmp_path / "f"
    file.write_text("a=file\nb=file\nc=file\n")
    found = load(file, ["a=override"], {"KAFKA_A": "environment", "KAFKA_B": "environment"})
    assert {key: setting.value for key, setting in found.items()} == {
        "a": "override",
        "b": "environment",
        "c": "file",
    }


@given(st.text("ab.", min_size=1), st.text("ab=", min_size=0))
def test_override_is_split_at_first_equals_sign(key, value):
    assert from_overrides([f"{key}={value}"]) == {key: PropertySetting(value, "--override")}


def test_override_without_value_is_refused():
    with pytest.raises(UserError, match="cannot use --override"):
        from_overrides(["num.partitions"])


def test_every_key_has_a_variable_that_means_it():
    names = [*SERVER_CONFIGS, "listener.name.a_b.ssl.key-x"]
    variables = {name: variable_of_key(name) for name in names}
    assert [
        name
        for name, variable in variables.items()
        if variable and key_of_variable(variable) != name
    ] == []
    assert [name for name in names if not variables[name]] == ["zookeeper.clientCnxnSocket"]
    assert variable_of_key("log.dirs") == "KAFKA_LOG_DIRS"
