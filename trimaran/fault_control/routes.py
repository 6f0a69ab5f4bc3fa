"""The operations of the control, in one table, from which the application and the OpenAPI document are made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from trimaran.fault_control import clusters, rules
from trimaran.fault_control.controlled import ControlledKafka
from trimaran.fault_control.requests import (
    BODY_BYTES_MAX,
    JSON,
    TOML,
    ControlAnswer,
    ControlRequest,
)
from trimaran.faults.plan_file import PLAN_BYTES_MAX

PREFIX = "/v1"


@dataclass(frozen=True, slots=True)
class ControlOperation:
    """An operation. `act` may block. `query` has the parameters with their descriptions; `takes` and `gives` are names
    of schemas, empty for no body. `refusals` are the statuses of errors that only this operation has.
    """

    method: str
    path: str
    summary: str
    act: Callable[[ControlledKafka, ControlRequest], ControlAnswer]
    status: int = 200
    takes: str = ""
    gives: str = ""
    query: Mapping[str, str] = field(default_factory=dict)
    refusals: tuple[int, ...] = ()
    kind: str = JSON
    waits: bool = False

    @property
    def name(self) -> str:
        return self.act.__name__

    @property
    def body_bytes_max(self) -> int:
        return PLAN_BYTES_MAX if self.takes == "Plan" else BODY_BYTES_MAX


_UNTIL = {
    "until": "applied (the default), answered or held",
    "count": "how often; 1 by default",
    "seconds": f"the longest wait, up to {rules.WAIT_SECONDS_MAX:g}; {rules.WAIT_SECONDS:g} by default",
}
_LIMIT = {"limit": f"the newest observations; {rules.OBSERVATIONS} by default"}

OPERATIONS = (
    ControlOperation(
        "GET", "/cluster", "Show the cluster.", clusters.show_cluster, gives="Cluster"
    ),
    ControlOperation(
        "POST",
        "/reset",
        "Between two tests: remove all rules, end all faults of nodes.",
        clusters.reset,
        204,
        takes="Reset",
    ),
    ControlOperation(
        "POST", "/rules", "Add a rule.", rules.add_rule, 201, takes="Rule", gives="AddedRule"
    ),
    ControlOperation("GET", "/rules", "List the rules.", rules.list_rules, gives="Rules"),
    ControlOperation("DELETE", "/rules", "Remove all rules.", rules.clear_rules, 204),
    ControlOperation("GET", "/rules/{name}", "Show a rule.", rules.show_rule, gives="AddedRule"),
    ControlOperation("DELETE", "/rules/{name}", "Remove a rule.", rules.remove_rule, 204),
    ControlOperation(
        "POST",
        "/rules/{name}/release",
        "Release all that a rule holds.",
        rules.release_rule,
        gives="Released",
    ),
    ControlOperation(
        "GET",
        "/rules/{name}/observations",
        "List what a rule has seen.",
        rules.list_observations,
        gives="Observations",
        query=_LIMIT,
    ),
    ControlOperation(
        "GET",
        "/rules/{name}/wait",
        "Wait until a rule has seen enough.",
        rules.wait_for_rule,
        gives="AddedRule",
        query=_UNTIL,
        refusals=(409, 503),
        waits=True,
    ),
    ControlOperation(
        "GET",
        "/rules/{name}/never",
        "Expect that no request has matched a rule.",
        rules.expect_never,
        gives="AddedRule",
        refusals=(409,),
    ),
    ControlOperation(
        "GET", "/trace", "Show what was done, and the seed.", rules.show_trace, gives="Trace"
    ),
    ControlOperation(
        "PUT", "/seed", "Set the seed of rules that are added later.", rules.set_seed, 204, "Seed"
    ),
    ControlOperation(
        "GET", "/plan", "Show rules and seed as a plan file.", rules.show_plan, kind=TOML
    ),
    ControlOperation(
        "PUT",
        "/plan",
        "Replace all rules by those of a plan file.",
        rules.replace_plan,
        takes="Plan",
        gives="Rules",
    ),
    ControlOperation(
        "GET", "/plans", "List the ready plans of faults.", rules.list_plans, gives="Plans"
    ),
    ControlOperation(
        "POST",
        "/plans/{plan}",
        "Add the rules of a ready plan; values replace those of its keys.",
        rules.add_plan,
        201,
        takes="Rule",
        gives="Rules",
    ),
    ControlOperation("GET", "/topics", "List the topics.", clusters.list_topics, gives="Topics"),
    ControlOperation(
        "POST",
        "/topics",
        "Create a topic, and wait for its leaders.",
        clusters.create_topic,
        201,
        takes="Topic",
        gives="CreatedTopic",
        refusals=(409, 502),
    ),
    ControlOperation(
        "DELETE", "/topics/{topic}", "Delete a topic.", clusters.delete_topic, 204, refusals=(502,)
    ),
    ControlOperation("GET", "/nodes", "List the nodes.", clusters.list_nodes, gives="Nodes"),
    ControlOperation(
        "POST",
        "/nodes/{node}/{action}",
        "Break or mend a node.",
        clusters.act_on_node,
        gives="Nodes",
        refusals=(409, 501),
    ),
    ControlOperation(
        "POST",
        "/links/partition",
        "Cut the links between groups of nodes.",
        clusters.partition,
        204,
        takes="Sides",
        refusals=(409, 501),
    ),
    ControlOperation(
        "POST", "/links/heal", "Restore all links.", clusters.heal, 204, refusals=(409, 501)
    ),
)
