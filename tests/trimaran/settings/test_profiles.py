"""Named clusters, and client keys on the command line."""

import pytest

from trimaran.cli.connect import Brokers, Controllers
from trimaran.errors.user_error import UserError
from trimaran.settings import profiles


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return profiles.folder()


def test_profile_has_addresses_and_connection_settings(folder):
    folder.mkdir(parents=True)
    (folder / "prod.properties").write_text(
        "bootstrap.servers=a:1,b:2\nbootstrap.controllers=c:3\nsecurity.protocol=SSL\n"
    )
    asked = Brokers(profile="prod", extra=("ssl.truststore.location=ca.pem",))
    assert asked.addresses == "a:1,b:2"
    assert Controllers(profile="prod").addresses == "c:3"
    assert {key: setting.value for key, setting in asked.settings().items()} == {
        "security.protocol": "SSL",
        "ssl.truststore.location": "ca.pem",
    }
    assert Brokers(bootstrap="d:4", profile="prod").addresses == "d:4"


def test_x_counts_more_than_the_file(folder, tmp_path):
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=SSL\nsasl.mechanism=PLAIN\n")
    asked = Brokers(command_config=file, extra=("security.protocol=PLAINTEXT",))
    assert asked.settings()["security.protocol"].value == "PLAINTEXT"
    assert asked.settings()["sasl.mechanism"].value == "PLAIN"


@pytest.mark.parametrize("word", ["security.protocol", "linger.ms=5", "=x"])
def test_x_without_effect_is_refused(word):
    with pytest.raises(UserError, match="cannot use -X"):
        Brokers(extra=(word,)).settings()


@pytest.mark.parametrize("name", ["nobody", "../secret", ""])
def test_only_existing_profiles_are_accepted(name):
    with pytest.raises(UserError, match="there is no profile"):
        profiles.load(name)


def test_up_writes_and_purge_removes_own_profile():
    profiles.write(profiles.LOCAL, {profiles.BROKERS: "a:1", profiles.ZOOKEEPER: None})
    assert profiles.names() == ["local"]
    profiles.remove(profiles.LOCAL, "b:2")
    assert {k: record.value for k, record in profiles.load("local").items()} == {
        profiles.BROKERS: "a:1"
    }
    profiles.remove(profiles.LOCAL, "a:1")
    assert profiles.names() == []
