"""The OpenAPI document of the control, made of its table of operations."""

from __future__ import annotations

import re
from typing import Any

from trimaran.fault_control.requests import JSON, TOML
from trimaran.fault_control.routes import OPERATIONS, PREFIX, ControlOperation

VERSION = "1"
_TEXT, _WHOLE, _NUMBER, _FLAG = (
    {"type": kind} for kind in ("string", "integer", "number", "boolean")
)
_ANY: dict[str, Any] = {}
_TABLE = {"type": "object"}


def _either(*kinds: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": list(kinds)}


def _list(of: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": of}


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def _object(required: str = "", /, **properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "required": required.split(),
        "properties": properties,
        "additionalProperties": False,
    }


def _of_values(*values: str) -> dict[str, Any]:
    return {"type": "string", "enum": list(values)}


_API = _either(_TEXT, _WHOLE)
_MOMENT = _of_values("before", "middle", "after")
_SIDE = _of_values("request", "response")
# A rule in JSON: the keys of `trimaran.faults.rule_parser`.
RULE_SCHEMAS: dict[str, dict[str, Any]] = {
    "name": _TEXT,
    "api": _either(_API, _list(_API)),
    "version": _either(_TEXT, _WHOLE),
    "where": _either(_TEXT, _list(_TEXT), _TABLE),
    "partition": _either(_WHOLE, _list(_WHOLE)),
    **dict.fromkeys(
        (
            "listener",
            "client_id",
            "software",
            "principal",
            "topic",
            "group",
            "transactional_id",
            "member",
        ),
        _TEXT,
    ),
    **dict.fromkeys(("broker", "connection", "times", "after", "every"), _WHOLE),
    "probability": _NUMBER,
    "until": _NUMBER,
    "once_per_connection": _FLAG,
    "error": _either(_TEXT, _WHOLE),
    "place": _of_values("items", "response"),
    "applied": _FLAG,
    "change": _TABLE,
    "delay": _either(_NUMBER, _list(_NUMBER), _TABLE),
    "side": _SIDE,
    "hold": _SIDE,
    "released_by": _TEXT,
    "drop": _SIDE,
    "close": _MOMENT,
    "reset": _MOMENT,
    "half_open": _FLAG,
    "truncate": _WHOLE,
    "duplicate": _SIDE,
    "throttle": _NUMBER,
    "leaders": _of_values("stale", "wrong", "none"),
    "advertise": _TEXT,
    "corrupt": _SIDE,
    "sequence": _list(_TABLE),
    "once_through": _FLAG,
}
_NODES = _list(_TABLE)
SCHEMAS: dict[str, dict[str, Any]] = {
    "Rule": _object("", **RULE_SCHEMAS),
    "AddedRule": _object(
        "name given matched applied held",
        name=_TEXT,
        given=_ref("Rule"),
        matched=_WHOLE,
        applied=_WHOLE,
        held=_WHOLE,
    ),
    "Rules": _object("rules left_off", rules=_list(_ref("AddedRule")), left_off=_WHOLE),
    "Released": _object("released", released=_WHOLE),
    "Observation": _object(
        "rule connection api version done request response",
        **dict.fromkeys(("connection", "broker", "version", "correlation_id"), _WHOLE),
        **dict.fromkeys(
            ("rule", "listener", "client_id", "software", "principal", "api", "done"), _TEXT
        ),
        request=_TABLE,
        response=_either(_TABLE, {"type": "null"}),
    ),
    "Observations": _object(
        "observations left_off", observations=_list(_ref("Observation")), left_off=_WHOLE
    ),
    "Trace": _object(
        "seed lines left_off unmatched",
        seed=_WHOLE,
        lines=_list(_TEXT),
        left_off=_WHOLE,
        unmatched=_list(_TEXT),
    ),
    "Seed": _object("seed", seed=_WHOLE),
    "Reset": _object("", seed=_WHOLE, topics=_FLAG),
    "Plan": _TEXT,
    "Plans": _object(
        "plans left_off",
        plans=_list(
            _object(
                "plan title replays shows keys",
                **dict.fromkeys(("plan", "title", "replays", "shows", "keys"), _TEXT),
            )
        ),
        left_off=_WHOLE,
    ),
    "Cluster": _object(
        "bootstrap seed nodes node_actions links",
        bootstrap=_TEXT,
        seed=_WHOLE,
        nodes=_NODES,
        node_actions=_list(_TEXT),
        links=_FLAG,
    ),
    "Nodes": _object("nodes", nodes=_NODES),
    "Sides": _object("sides", sides=_list(_list(_either(_TEXT, _WHOLE)))),
    "Topic": _object("name", name=_TEXT, partitions=_WHOLE, replication=_WHOLE, configs=_TABLE),
    "CreatedTopic": _object("name", name=_TEXT),
    "Topics": _object("topics left_off", topics=_list(_TABLE), left_off=_WHOLE),
    "Error": _object(
        "error", error=_object("what why fix", what=_TEXT, why=_TEXT, fix=_TEXT, key=_TEXT)
    ),
}
_REFUSALS = {
    400: "The request is not understood, or a rule is refused.",
    401: "The token is missing or wrong.",
    404: "It names something that does not exist.",
    409: "The expectation does not hold, or the cluster refuses.",
    413: "The body is too large.",
    500: "The control has failed.",
    501: "This cluster does not support that.",
    502: "The cluster does not answer as it should.",
    503: "Too many requests wait.",
}
_OF_ALL = (400, 401, 413, 500)


def document() -> dict[str, Any]:
    """Returns the document, a value for `json.dumps`."""
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        of_path = paths.setdefault(PREFIX + operation.path, {})
        of_path[operation.method.lower()] = _described(operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Faults on demand", "version": VERSION},
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": SCHEMAS,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _described(operation: ControlOperation) -> dict[str, Any]:
    names = re.findall(r"\{(\w+)\}", operation.path)
    done: dict[str, Any] = {"description": operation.summary}
    if operation.gives or operation.kind == TOML:
        done["content"] = {operation.kind: {"schema": _ref(operation.gives or "Plan")}}
    refusals = {*_OF_ALL, *operation.refusals, *([404] if names else [])}
    described = {
        "operationId": operation.name,
        "summary": operation.summary,
        "parameters": [
            *({"name": name, "in": "path", "required": True, "schema": _TEXT} for name in names),
            *(
                {"name": name, "in": "query", "description": text, "schema": _TEXT}
                for name, text in operation.query.items()
            ),
        ],
        "responses": {
            str(operation.status): done,
            **{str(status): _refusal(status) for status in sorted(refusals)},
        },
    }
    if operation.takes:
        kind = TOML if operation.takes == "Plan" else JSON
        described["requestBody"] = {"content": {kind: {"schema": _ref(operation.takes)}}}
    return described


def _refusal(status: int) -> dict[str, Any]:
    return {"description": _REFUSALS[status], "content": {JSON: {"schema": _ref("Error")}}}
