"""The audit log: denials with their ACL, in lines that no name can break."""

import logging

import pytest

from tests.broker.calls import call
from trimaran.quorum.metadata.acls import Acl
from trimaran.quorum.metadata.authorizer import NO_ACL, SUPER_USER, Action, Verdict
from trimaran.quorum.serving import audit
from trimaran.wire.messages.heartbeat import HeartbeatRequest
from trimaran.wire.security.acls import Operation, ResourceType

CALL = call(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4)
READ = Action(Operation.READ, ResourceType.GROUP, "g")


@pytest.fixture
def lines(caplog, monkeypatch):
    caplog.set_level(logging.DEBUG, audit.log.name)
    monkeypatch.setattr(audit, "_DENIED", audit._Bound())
    return lambda: [(record.levelname, record.getMessage()) for record in caplog.records]


def test_audit_logger_has_kafkas_name():
    assert audit.log.name == "kafka.authorizer.logger"


def test_refusal_log_names_client_action_reason(lines):
    denying = Acl(ResourceType.GROUP, "g\n", 4, "User:*", "*", Operation.ALL, 2)
    audit.note(CALL, READ._replace(resource_name="g\nfake"), Verdict(False, denying))
    assert lines() == [
        (
            "INFO",
            "denied principal='User:ANONYMOUS' host=127.0.0.1 listener=PLAINTEXT operation=READ "
            "resource=GROUP:'g\\nfake' request=Heartbeat "
            "by=DENY ALL to 'User:*' from '*' on GROUP:PREFIXED:'g\\n'",
        )
    ]


def test_allowed_and_silent_checks_are_logged_at_debug(lines):
    audit.note(CALL, READ, SUPER_USER)
    audit.note(CALL, READ, NO_ACL, asked_for=False)
    assert [(level, text.split()[0], text.split("by=")[1]) for level, text in lines()] == [
        ("DEBUG", "allowed", "super user"),
        ("DEBUG", "denied", "no ACL applies to the resource"),
    ]


def test_refusals_are_bounded_and_counted(lines, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(audit.time, "monotonic", lambda: now[0])
    for _ in range(1000 + 7):
        audit.note(CALL, READ, NO_ACL)
    assert len(lines()) == 1000
    now[0] += 9.9
    audit.note(CALL, READ, NO_ACL)
    audit.note(CALL, READ, SUPER_USER)
    assert len(lines()) == 1001, "what is allowed has no bound"
    now[0] += 0.1
    audit.note(CALL, READ, NO_ACL)
    assert lines()[-1][1].endswith("(and 8 more such lines left out)")
