import pytest

from node.config.legacy_admin_keys import KINDS
from zkcompat.legacy.orders import Kind
from zkcompat.legacy.settings import obeyed_kinds

ENABLE = {"trimaran.zk.legacy.admin.enable": "true"}


def test_nothing_is_obeyed_unless_asked_for():
    assert obeyed_kinds({}) == frozenset()
    assert obeyed_kinds({"trimaran.zk.legacy.admin.kinds": "topic"}) == frozenset()


def test_everything_or_what_is_named():
    assert obeyed_kinds(ENABLE) == frozenset(Kind)
    some = obeyed_kinds({**ENABLE, "trimaran.zk.legacy.admin.kinds": "topic,acl"})
    assert some == {Kind.TOPIC, Kind.ACL}


def test_the_words_are_the_same():
    assert set(KINDS) == set(Kind)


@pytest.mark.parametrize(
    "wrong",
    [{"trimaran.zk.legacy.admin.enable": "yes"}, {"trimaran.zk.legacy.admin.kinds": "topics"}],
)
def test_nonsense_is_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        obeyed_kinds({**ENABLE, **wrong})
