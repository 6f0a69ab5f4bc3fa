"""What the configuration says of access."""

import pytest

from node.config.config_def import ConfigError
from node.config.security_keys import STANDARD_AUTHORIZER
from quorum.controller.server import run_controller
from quorum.serving.authorization import OPEN_DATA, authorizer_of
from tests.quorum.config_of import config_of

NOBODY = {
    "authorizer_class_name": STANDARD_AUTHORIZER,
    OPEN_DATA: "true",
    "super_users": "User:admin",
}


def test_there_is_one_authorizer():
    assert authorizer_of(config_of()) is None
    assert authorizer_of(config_of(**NOBODY)) is not None
    with pytest.raises(ConfigError):
        config_of(authorizer_class_name="com.example.Authorizer")
    with pytest.raises(ConfigError) as caught:
        authorizer_of(config_of(**{**NOBODY, "super_users": "alice"}))
    assert caught.value.fix == "write User:alice"


def test_an_authorizer_that_leaves_topics_open_must_be_admitted():
    with pytest.raises(ConfigError) as caught:
        authorizer_of(config_of(authorizer_class_name=STANDARD_AUTHORIZER))
    assert caught.value.key == "authorizer.class.name"
    assert "do not protect topics, groups and transactions" in caught.value.why
    assert f"{OPEN_DATA}=true" in caught.value.fix


async def test_no_controller_starts_with_an_authorizer_that_nobody_admitted(tmp_path):
    config = config_of(authorizer_class_name=STANDARD_AUTHORIZER, log_dirs=tmp_path)
    with pytest.raises(ConfigError, match="do not protect topics"):
        await run_controller(config)
