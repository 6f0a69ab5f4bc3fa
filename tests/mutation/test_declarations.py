"""A changed declaration replaces the installed one: existing guards, routes, writers and readers use it. Each is
installed in a separate process, as in `running`, because the change is permanent.
"""

import ast
import json
import os
from pathlib import Path

import pytest

from tests.broker.calls import connection
from tests.mutation.declarations import changed_message, changed_rights
from tests.mutation.mutants import mutants_of
from tests.mutation.planted.declared import Part, Planted, beat
from tests.mutation.running import _functions_of, _in_child, swap
from trimaran.wire.errors import LocalProtocolError, RemoteProtocolError
from trimaran.wire.messages.header import encode_request
from trimaran.wire.messages.heartbeat import HeartbeatRequest
from trimaran.wire.transport.dispatch.registry import Registry

PATH = Path(__file__).parent / "planted" / "declared.py"
MODULE = "tests.mutation.planted.declared"
DECLARED = [mutant for mutant in mutants_of(PATH, MODULE) if mutant.declared is not None]
FUNCTIONS = _functions_of({str(PATH)})


class Judge:
    """Allows nothing on groups, and everything on the cluster except for substitutes of group rights; notes its
    checks.
    """

    def __init__(self):
        self.asked = []

    def judges(self, context):
        return True

    def allows(self, context, call, operation, resource_type, name, *, asked_for):
        self.asked.append(f"{operation.name} {resource_type.name} {name}")
        return asked_for


JUDGE = Judge()
REGISTRY = Registry((beat,), judge=JUDGE)  # built before any declaration is changed


def asked_of_rights():
    """Returns the judge's checks, and the response of ApiVersions."""
    JUDGE.asked.clear()
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    for version in range(5):
        frame = memoryview(bytearray(encode_request(request, version, 7, "test")))
        try:
            REGISTRY.dispatch(frame, None, connection())
        except (LocalProtocolError, RemoteProtocolError) as error:
            JUDGE.asked.append(str(error))
    low, high = REGISTRY.api_versions()[12]
    return [*JUDGE.asked, f"{low}-{high}"]


def bytes_of_message():
    """Returns the bytes of each version, with and without each field."""
    found = []
    for version in range(6):
        for fields in ({}, {"size": 5}, {"parts": [Part(number=7)]}):
            try:
                data = Planted(name="n", **fields).encode(version)
                found.append(data.hex() + repr(Planted.decode(data, version)))
            except (LocalProtocolError, RemoteProtocolError) as error:
                found.append(str(error))
    return found


def observed():
    return {"rights": asked_of_rights(), "message": bytes_of_message()}


def observed_with(mutant):
    """Returns the observations in a process with the mutant installed."""
    reader, writer = os.pipe()

    def work():
        if not swap(mutant, FUNCTIONS):
            return 2
        with os.fdopen(writer, "w") as file:
            json.dump(observed(), file)
        return 0

    status = _in_child(work)
    os.close(writer)
    with os.fdopen(reader) as file:
        assert os.waitstatus_to_exitcode(status) == 0
        return json.load(file)


def difference(mutant):
    before, after = observed(), observed_with(mutant)
    return {
        kind: [(a, b) for a, b in zip(before[kind], after[kind], strict=False) if a != b]
        for kind in before
        if before[kind] != after[kind]
    }


@pytest.mark.parametrize("mutant", DECLARED, ids=[entry.name for entry in DECLARED])
def test_changed_declaration_is_seen_only_at_its_use(mutant):
    kind = "rights" if ":beat" in mutant.where else "message"
    assert set(difference(mutant)) == {kind}


def changed(text):
    (mutant,) = [known for known in DECLARED if text in known.change]
    return observed_with(mutant)


def test_right_is_replaced_by_its_neighbour():
    assert asked_of_rights()[:3] == [
        "ALTER CLUSTER kafka-cluster",
        "READ GROUP g",
        "DESCRIBE CLUSTER kafka-cluster",
    ]
    found = changed("cluster(Operation.READ))")["rights"]
    assert found[:3] == [
        "ALTER CLUSTER kafka-cluster",
        "READ GROUP g",
        "READ CLUSTER kafka-cluster",
    ]


@pytest.mark.parametrize(
    ("code", "count"),
    [
        ("@handles(X, versions='0-4', access=groups(Operation.READ, 'a'))", 3),
        ("@handles(X, versions='3', access=open_to_all('a'))", 1),
        ("@other(X, versions='0-4')", 0),
    ],
)
def test_changed_rights_are_those_of_handler_declarations(code, count):
    (function,) = ast.parse(f"{code}\ndef f(): pass").body
    assert len(list(changed_rights(function.decorator_list[0]))) == count


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("field('3+')", ["4+", "2+", "none"]),
        ("field('0+')", ["1+", "none"]),
        ("field('2-5')", ["3-5", "2-4", "none"]),
        ("field('3')", ["4", "none"]),
        ("field('none')", ["none"]),
        ("0", []),
    ],
)
def test_field_versions_are_changed_at_both_ends(field, expected):
    (message,) = ast.parse(f"class M:\n  a: int32 = {field}").body
    assert [other.value for _, _, other in changed_message(message)] == expected
