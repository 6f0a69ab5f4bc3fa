"""The control as an HTTP server: its token, bounds, document, topics and nodes."""

import json
import re

import pytest

from tests.checks import check_each
from trimaran.errors.user_error import UserError
from trimaran.fault_control.listening import TOKEN_CHARACTERS_MIN, checked_token
from trimaran.fault_control.openapi import RULE_SCHEMAS, SCHEMAS, document
from trimaran.fault_control.requests import BODY_BYTES_MAX
from trimaran.fault_control.routes import OPERATIONS, PREFIX
from trimaran.fault_control.rules import HTTP_RULE_KEYS


def test_requests_without_token_are_refused(control):
    def check(operation):
        path = re.sub(r"\{\w+\}", "x", operation.path)
        assert control.refusal(operation.method, path, token=None)[0] == 401
        assert control.refusal(operation.method, path, token="another-token-is-wrong")[0] == 401

    check_each(OPERATIONS, check)
    assert control.refusal("GET", "/openapi.json", token=None, prefix="")[0] == 401
    assert control.refusal("GET", "/nowhere", token=None)[0] == 401


def test_unknown_paths_are_not_found(control):
    assert control.refusal("GET", "/nowhere") == (404, "Not Found")
    assert control.refusal("PUT", "/rules")[0] == 405


def test_token_is_needed_on_open_address():
    assert checked_token("127.0.0.1", "") != checked_token("localhost", "")
    assert checked_token("0.0.0.0", "t" * TOKEN_CHARACTERS_MIN) == "t" * TOKEN_CHARACTERS_MIN
    for host in ("0.0.0.0", "::", "192.0.2.1", "kafka.example"):
        with pytest.raises(UserError, match="open to all clients"):
            checked_token(host, "")
    for token in ("t" * (TOKEN_CHARACTERS_MIN - 1), "é" * TOKEN_CHARACTERS_MIN):
        with pytest.raises(UserError, match="unusable"):
            checked_token("127.0.0.1", token)


def test_large_bodies_are_refused(control):
    body = json.dumps({"api": "Fetch", "topic": "x" * BODY_BYTES_MAX})
    assert control.refusal("POST", "/rules", body)[0] == 413
    plan = "#" * (BODY_BYTES_MAX + 1)
    assert control.ask("PUT", "/plan", plan)[0] == 200


def test_topics_are_created_listed_and_deleted(control):
    assert control.ask("POST", "/topics", {"name": "orders", "partitions": 3})[0] == 201
    assert control.refusal("POST", "/topics", {"name": "orders"})[0] == 409
    _, found = control.ask("GET", "/topics")
    assert [(row["topic"], row["partitions"]) for row in found["topics"]] == [("orders", 3)]
    assert control.refusal("POST", "/topics", {"name": "a b"})[0] == 409
    assert control.refusal("POST", "/topics", {"name": 1})[0] == 400
    assert control.refusal("POST", "/topics", {"name": "x", "partitions": True})[0] == 400
    assert control.ask("DELETE", "/topics/orders")[0] == 204
    assert control.refusal("DELETE", "/topics/orders")[0] == 404


def test_reset_removes_rules_and_topics(control):
    control.ask("POST", "/topics", {"name": "old"})
    control.ask("POST", "/rules", {"api": "Fetch", "delay": 1})
    assert control.ask("POST", "/reset", {"seed": 5})[0] == 204
    assert control.ask("GET", "/rules")[1]["rules"] == []
    assert control.ask("GET", "/cluster")[1]["seed"] == 5
    assert len(control.ask("GET", "/topics")[1]["topics"]) == 1
    assert control.ask("POST", "/reset", {"topics": True})[0] == 204
    assert control.ask("GET", "/topics")[1]["topics"] == []
    assert control.refusal("POST", "/reset", {"seed": -1})[0] == 400
    assert control.refusal("POST", "/reset", {"topics": 1})[0] == 400


def test_unsupported_faults_of_nodes_are_refused(control, kafka):
    _, found = control.ask("GET", "/cluster")
    assert (found["bootstrap"], found["node_actions"], found["links"]) == (
        kafka.bootstrap,
        ["restart"],
        False,
    )
    assert control.ask("POST", "/nodes/1/restart") == (200, {"nodes": found["nodes"]})
    for action in ("kill", "slow-disk", "skew-clock"):
        status, why = control.refusal("POST", f"/nodes/1/{action}")
        assert (status, why) == (501, "its nodes support restart")
    assert control.refusal("POST", "/nodes/1/explode")[0] == 404
    assert control.refusal("POST", "/links/partition", {"sides": [[1], [2]]})[0] == 501
    assert control.refusal("POST", "/links/partition", {"sides": [1]})[0] == 400
    assert control.refusal("POST", "/links/heal")[0] == 501


def test_document_describes_every_operation(control):
    _, found = control.ask("GET", "/openapi.json", prefix="")
    assert found == document()
    described = [
        (method.upper(), path, each["operationId"])
        for path, methods in found["paths"].items()
        for method, each in methods.items()
    ]
    assert sorted(described) == sorted((o.method, PREFIX + o.path, o.name) for o in OPERATIONS)
    assert len({name for _, _, name in described}) == len(OPERATIONS)
    referred = set(re.findall(r"#/components/schemas/(\w+)", json.dumps(found)))
    assert referred == set(SCHEMAS)
    assert set(RULE_SCHEMAS) == HTTP_RULE_KEYS
