import pytest

from trimaran.node.config.legacy_admin_keys import KINDS
from trimaran.zkcompat.legacy.requests.admin_requests import RequestKind
from trimaran.zkcompat.settings import obeyed_kinds

ENABLE = {"trimaran.zk.legacy.admin.enable": "true"}


def test_no_kind_is_obeyed_by_default():
    assert obeyed_kinds({}) == frozenset()
    assert obeyed_kinds({"trimaran.zk.legacy.admin.kinds": "topic"}) == frozenset()


def test_all_or_named_kinds_are_obeyed():
    assert obeyed_kinds(ENABLE) == frozenset(RequestKind) - {RequestKind.SCRAM}
    some = obeyed_kinds({**ENABLE, "trimaran.zk.legacy.admin.kinds": "topic,acl"})
    assert some == {RequestKind.TOPIC, RequestKind.ACL}


def test_kinds_are_those_of_requests():
    assert set(KINDS) == set(RequestKind)


def test_credentials_need_own_controller_and_mirrored_secrets():
    named = {**ENABLE, "trimaran.zk.legacy.admin.kinds": "quota,scram"}
    secrets = {"trimaran.zk.mirror.secrets.enable": "true"}
    assert RequestKind.SCRAM in obeyed_kinds({**named, **secrets}, inside=True)
    with pytest.raises(ValueError, match=r"inside our controllers"):
        obeyed_kinds({**named, **secrets})
    with pytest.raises(ValueError, match=r"needs trimaran\.zk\.mirror\.secrets\.enable=true"):
        obeyed_kinds(named, inside=True)
    disabled = {"trimaran.zk.legacy.admin.kinds": "scram"}
    assert obeyed_kinds(disabled) == frozenset()


@pytest.mark.parametrize(
    "wrong",
    [{"trimaran.zk.legacy.admin.enable": "yes"}, {"trimaran.zk.legacy.admin.kinds": "topics"}],
)
def test_invalid_request_is_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        obeyed_kinds({**ENABLE, **wrong})
