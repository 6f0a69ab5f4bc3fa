"""Access control settings of the configuration."""

import pytest

from tests.quorum.config_of import config_of
from trimaran.node.config.config_def import ConfigError
from trimaran.node.config.security_keys import STANDARD_AUTHORIZER
from trimaran.quorum.serving.authorization import authorizer_of

NOBODY = {
    "authorizer_class_name": STANDARD_AUTHORIZER,
    "super_users": "User:admin",
}


def test_only_one_authorizer_is_accepted():
    assert authorizer_of(config_of()) is None
    assert authorizer_of(config_of(**NOBODY)) is not None
    with pytest.raises(ConfigError):
        config_of(authorizer_class_name="com.example.Authorizer")
    with pytest.raises(ConfigError) as caught:
        authorizer_of(config_of(**{**NOBODY, "super_users": "alice"}))
    assert caught.value.fix == "write User:alice"
    assert (caught.value.key, caught.value.value) == ("super.users", "alice")
    assert caught.value.origin.startswith("test.properties:")
