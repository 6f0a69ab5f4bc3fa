"""The table of commands (noun, verb, function, one line of help), and the modules that only a running command needs.

Only here does the command line import by strings.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

# A command's file imports these as modules; they are executed at first use (`trimaran.cli.deferred`).
DEFERRED = (
    "trimaran.",
    "http.client",
    "ipaddress",
    "javaproperties",
    "json",
    "prometheus_client.",
    "rich.progress",
    "traceback",
    "urllib.request",
    "yaml",
)
# Modules that declare arguments and show errors.
IMMEDIATE = ("trimaran.cli.", "trimaran.errors.user_error", "trimaran.node.text.")
APP = "trimaran.cli.app:run"
# Modules that are needed even without a command.
COMPLETE_NAMES = "trimaran.cli.live_names:complete_names"
OWN_VERSION = "trimaran.cli.version:own_version"
EXPLAIN_MISTAKE = "trimaran.errors.command_line:of_command_line"
EXPLAIN_FAILURE = "trimaran.errors.node:explain"


def function_of(where: str) -> Any:
    """Imports the module of `MODULE:FUNCTION`, a string of this table, and returns the function."""
    module, _, name = where.partition(":")
    return getattr(import_module(module), name)


# Each row: the words of the command, the place of its function, a line of help.
COMMANDS = (
    (
        ("up",),
        "trimaran.cli.cluster:up",
        "Format and start a local cluster: controllers, brokers, and a ZooKeeper mirror with --zk.",
    ),
    (("ps",), "trimaran.cli.nodes:ps", "Show the nodes of the local cluster."),
    (("down",), "trimaran.cli.cluster:down", "Stop the local cluster; its data stays."),
    (("purge",), "trimaran.cli.cluster:purge", "Stop the local cluster and delete its data."),
    (("console",), "trimaran.cli.console:console", "Serve the web console of any cluster."),
    (("proxy",), "trimaran.cli.proxy:proxy", "Serve a proxy with faults, before any Kafka."),
    (("faults", "list"), "trimaran.cli.faults:list_plans", "List the ready plans of faults."),
    (("faults", "show"), "trimaran.cli.faults:show", "Print a ready plan of faults."),
    (("chaos", "kill"), "trimaran.cli.chaos:kill", "kill -9 a node of the local cluster."),
    (
        ("chaos", "restart"),
        "trimaran.cli.chaos:restart",
        "Stop a node cleanly if it runs, start it, and wait until it serves.",
    ),
    (("chaos", "pause"), "trimaran.cli.chaos:pause", "Freeze a node (SIGSTOP)."),
    (("chaos", "resume"), "trimaran.cli.chaos:resume", "Continue a frozen node (SIGCONT)."),
    (("chaos", "isolate"), "trimaran.cli.chaos:isolate", "Cut a node off from all other nodes."),
    (
        ("chaos", "partition"),
        "trimaran.cli.chaos:partition",
        "Cut the network links between groups of nodes.",
    ),
    (("chaos", "heal"), "trimaran.cli.chaos:heal", "Restore all network links."),
    (
        ("controller", "start"),
        "trimaran.cli.server:controller_start",
        "Run a controller in this process.",
    ),
    (("broker", "start"), "trimaran.cli.server:broker_start", "Run a broker in this process."),
    (
        ("server", "start"),
        "trimaran.cli.server:server_start",
        "Run all roles of a node in this process.",
    ),
    (
        ("storage", "format"),
        "trimaran.cli.storage:storage_format",
        "Format the log directories of a node.",
    ),
    (
        ("storage", "info"),
        "trimaran.cli.storage:storage_info",
        "Show the cluster id, node id and directory ids of a node.",
    ),
    (
        ("storage", "random-uuid"),
        "trimaran.cli.storage:storage_random_uuid",
        "Print a new cluster id.",
    ),
    (
        ("quorum", "status"),
        "trimaran.cli.quorum:status",
        "Show the leader, and how far each replica is behind it.",
    ),
    (
        ("quorum", "replication"),
        "trimaran.cli.quorum:replication",
        "Show how far each voter and observer is, with its directory id.",
    ),
    (
        ("quorum", "history"),
        "trimaran.cli.quorum:history",
        "Show who led from when to when, and the gaps without a leader.",
    ),
    (
        ("quorum", "voters", "add"),
        "trimaran.cli.quorum_voters:add",
        "Make a controller a voter.",
    ),
    (
        ("quorum", "voters", "remove"),
        "trimaran.cli.quorum_voters:remove",
        "Make a voter an observer.",
    ),
    (
        ("quorum", "unregister"),
        "trimaran.cli.quorum_voters:unregister",
        "Remove the registration of a controller that will not return.",
    ),
    (
        ("metadata", "dump"),
        "trimaran.cli.metadata:dump",
        "Print the records of a metadata log or snapshot on disk.",
    ),
    (
        ("metadata", "tail"),
        "trimaran.cli.metadata:tail",
        "Print the metadata log of a running quorum; -f follows it.",
    ),
    (
        ("metadata", "image"),
        "trimaran.cli.metadata_state:image",
        "Print the whole cluster state, at any offset of the metadata log.",
    ),
    (
        ("metadata", "diff"),
        "trimaran.cli.metadata_state:diff",
        "Show what changed between two offsets, or two directories.",
    ),
    (
        ("metadata", "ls"),
        "trimaran.cli.metadata_state:ls",
        "List a directory of the cluster state, as Kafka's metadata shell does.",
    ),
    (
        ("metadata", "cat"),
        "trimaran.cli.metadata_state:cat",
        "Print a file of the cluster state, as Kafka's metadata shell does.",
    ),
    (
        ("metadata", "find"),
        "trimaran.cli.metadata_state:find",
        "List everything below a path of the cluster state.",
    ),
    (
        ("metadata", "tree"),
        "trimaran.cli.metadata_shell:tree",
        "Show everything below a path of the cluster state as a tree.",
    ),
    (
        ("metadata", "shell"),
        "trimaran.cli.metadata_shell:shell",
        "Browse the cluster state interactively: ls, cd, cat, find, tree, at OFFSET.",
    ),
    (
        ("metadata", "verify"),
        "trimaran.cli.metadata_state:verify",
        "Compare the metadata logs of several controllers byte by byte.",
    ),
    (
        ("wire", "decode"),
        "trimaran.cli.wire:decode",
        "Print captured frames as JSON, and check that trimaran encodes the same bytes.",
    ),
    (
        ("logs", "dump"),
        "trimaran.cli.logs:dump",
        "Print the records of log segments on disk, or what is wrong with them.",
    ),
    (("topics", "list"), "trimaran.cli.topics:list_topics", "List topics."),
    (("topics", "create"), "trimaran.cli.topics:create", "Create a topic."),
    (
        ("topics", "describe"),
        "trimaran.cli.topics:describe",
        "Show the configs of topics, and leader, replicas and ISR of each partition.",
    ),
    (("topics", "alter"), "trimaran.cli.topics:alter", "Add partitions to a topic."),
    (("topics", "delete"), "trimaran.cli.topics:delete", "Delete topics."),
    (("records", "delete"), "trimaran.cli.records_delete:delete_records", "Delete old records."),
    (
        ("partitions", "list"),
        "trimaran.cli.partitions:list_partitions",
        "List partitions: all, or those under-replicated, offline, under min ISR or not led by the preferred replica.",
    ),
    (
        ("partitions", "history"),
        "trimaran.cli.history:partitions",
        "Show the leaders, ISR and replicas of a partition over time.",
    ),
    (
        ("partitions", "elect-leader"),
        "trimaran.cli.partitions:elect_leader",
        "Elect preferred leaders, or with --unclean any leader.",
    ),
    (
        ("reassign", "plan"),
        "trimaran.cli.reassign_plan:plan",
        "Propose a reassignment: the new places of the replicas of topics.",
    ),
    (("reassign", "apply"), "trimaran.cli.reassign:apply", "Start the reassignments of a plan."),
    (("reassign", "list"), "trimaran.cli.reassign:list_moves", "List reassignments in progress."),
    (
        ("reassign", "verify"),
        "trimaran.cli.reassign:verify",
        "Say whether the reassignments of a plan are complete.",
    ),
    (("reassign", "cancel"), "trimaran.cli.reassign:cancel", "Cancel the reassignments of a plan."),
    (
        ("configs", "list"),
        "trimaran.cli.configs:list_resources",
        "List the resources with configs.",
    ),
    (("configs", "get"), "trimaran.cli.configs:get", "Show the configs of a resource."),
    (("configs", "set"), "trimaran.cli.configs:set_configs", "Set configs of resources."),
    (("configs", "delete"), "trimaran.cli.configs:delete", "Reset configs to default."),
    (
        ("configs", "history"),
        "trimaran.cli.history:configs",
        "Show which configs were set, and when.",
    ),
    (
        ("config", "init"),
        "trimaran.cli.config_files:init",
        "Print a commented properties file for a new node.",
    ),
    (
        ("config", "check"),
        "trimaran.cli.config_files:check",
        "Check the properties file of a node: errors and warnings.",
    ),
    (("config", "explain"), "trimaran.cli.config_files:explain", "Explain a config key."),
    (
        ("config", "effective"),
        "trimaran.cli.config_files:effective",
        "Show the configs a node would run with, and where each was set.",
    ),
    (
        ("config", "diff"),
        "trimaran.cli.config_files:diff",
        "Show how two properties files differ.",
    ),
    (
        ("features", "list"),
        "trimaran.cli.features:list_features",
        "Show the feature levels of the cluster.",
    ),
    (("features", "upgrade"), "trimaran.cli.features:upgrade", "Raise feature levels."),
    (("features", "downgrade"), "trimaran.cli.features:downgrade", "Lower feature levels."),
    (("brokers", "list"), "trimaran.cli.brokers:list_brokers", "List brokers."),
    (
        ("brokers", "describe"),
        "trimaran.cli.brokers:describe",
        "Show state, partitions, disks and configs of a broker.",
    ),
    (
        ("brokers", "add"),
        "trimaran.cli.brokers:add",
        "Add brokers to the local cluster while it runs.",
    ),
    (
        ("log-dirs",),
        "trimaran.cli.log_dirs:log_dirs",
        "Show the log directories of brokers: replicas and disk space.",
    ),
    (
        ("health",),
        "trimaran.cli.health:health",
        "Say in one line whether the cluster is healthy, and what is wrong.",
    ),
    (("groups", "list"), "trimaran.cli.groups:list_groups", "List groups of all types."),
    (
        ("groups", "describe"),
        "trimaran.cli.groups:describe",
        "Show members, committed offsets and lag of a group.",
    ),
    (("groups", "lag"), "trimaran.cli.groups:lag", "Show the total lag of groups."),
    (
        ("groups", "reset-offsets"),
        "trimaran.cli.groups_change:reset_offsets",
        "Move the committed offsets of groups; a dry run unless --execute is given.",
    ),
    (("groups", "delete"), "trimaran.cli.groups_change:delete", "Delete groups."),
    (
        ("groups", "delete-offsets"),
        "trimaran.cli.groups_change:delete_offsets",
        "Delete committed offsets of groups.",
    ),
    (
        ("groups", "migrate-offsets"),
        "trimaran.cli.groups_migrate:migrate_offsets",
        "Copy offsets that old consumers kept in ZooKeeper to Kafka; a dry run unless --execute is given.",
    ),
    (("users", "list"), "trimaran.cli.users:list_users", "List SCRAM users."),
    (("users", "add"), "trimaran.cli.users:add", "Add a SCRAM user, or change the password."),
    (("users", "remove"), "trimaran.cli.users:remove", "Remove SCRAM users."),
    (("acls", "list"), "trimaran.cli.acls:list_acls", "List ACLs."),
    (
        ("acls", "add"),
        "trimaran.cli.acls:add",
        "Add ACLs that allow or deny operations to a principal.",
    ),
    (("acls", "remove"), "trimaran.cli.acls:remove", "Remove ACLs."),
    (
        ("acls", "explain"),
        "trimaran.cli.acls:explain",
        "Say whether an operation is allowed, and which ACL decides.",
    ),
    (("tokens", "list"), "trimaran.cli.tokens:list_tokens", "List delegation tokens."),
    (("tokens", "create"), "trimaran.cli.tokens:create", "Create a delegation token."),
    (("tokens", "renew"), "trimaran.cli.tokens:renew", "Extend the life of a delegation token."),
    (
        ("tokens", "expire"),
        "trimaran.cli.tokens:expire",
        "Expire a delegation token, now or earlier than planned.",
    ),
    (("quotas", "list"), "trimaran.cli.quotas:list_quotas", "List client quotas."),
    (("quotas", "set"), "trimaran.cli.quotas:set_quotas", "Set client quotas."),
    (("quotas", "delete"), "trimaran.cli.quotas:delete", "Delete client quotas."),
    (
        ("transactions", "list"),
        "trimaran.cli.transactions:list_transactions",
        "List transactional ids.",
    ),
    (
        ("transactions", "describe"),
        "trimaran.cli.transactions:describe",
        "Show producer, state and partitions of a transactional id.",
    ),
    (
        ("transactions", "hanging"),
        "trimaran.cli.transactions:hanging",
        "List open transactions that no coordinator will complete.",
    ),
    (
        ("transactions", "abort"),
        "trimaran.cli.transactions:abort",
        "Abort a hanging transaction in one partition.",
    ),
    (
        ("produce",),
        "trimaran.cli.produce:produce",
        "Produce lines of stdin or of a file, a record a line.",
    ),
    (("consume",), "trimaran.cli.records:consume", "Print the records of a topic."),
    (
        ("bench", "produce"),
        "trimaran.cli.bench:produce",
        "Produce at full speed, or at a rate, and show throughput and latency.",
    ),
    (
        ("bench", "consume"),
        "trimaran.cli.bench:consume",
        "Consume at full speed, and show throughput and latency.",
    ),
    (("zk", "start"), "trimaran.cli.zk:start", "Run a ZooKeeper server."),
    (("zk", "mirror"), "trimaran.cli.zk:mirror", "Mirror the metadata of a quorum into ZooKeeper."),
    (
        ("zk", "status"),
        "trimaran.cli.zk:status",
        "Show what is mirrored, and which mirror is active.",
    ),
    (("zk", "tree"), "trimaran.cli.zk:tree", "Print znodes as a tree."),
    (("zk", "get"), "trimaran.cli.zk:get", "Print the data of a znode."),
    (
        ("zk", "verify"),
        "trimaran.cli.zk_check:verify",
        "Compare every mirrored znode with the current metadata.",
    ),
    (
        ("zk", "diff"),
        "trimaran.cli.zk_check:diff",
        "Compare every mirrored znode with the metadata at an offset.",
    ),
    (
        ("zk", "resync"),
        "trimaran.cli.zk_check:resync",
        "Make the mirror compare everything now, and repair what differs.",
    ),
    (
        ("analyze",),
        "trimaran.cli.analyze:analyze",
        "Read the logs: verdicts, and a report with plots.",
    ),
    (
        ("sql",),
        "trimaran.cli.sql:sql",
        "Query the logs with SQL.",
    ),
    (
        ("doctor",),
        "trimaran.cli.doctor:doctor",
        "Check this machine: what is missing, and how to install it.",
    ),
    (
        ("generate", "prometheus"),
        "trimaran.cli.generate:prometheus",
        "Print a Prometheus configuration.",
    ),
    (("generate", "alerts"), "trimaran.cli.generate:alerts", "Print Prometheus alerting rules."),
    (("generate", "grafana"), "trimaran.cli.generate:grafana", "Print a Grafana dashboard."),
    (
        ("generate", "jmx-exporter"),
        "trimaran.cli.generate:jmx_exporter",
        "Print JMX exporter rules for Apache Kafka.",
    ),
    (
        ("generate", "completion"),
        "trimaran.cli.completion:completion",
        "Print a completion script for bash, zsh or fish.",
    ),
    (("generate", "systemd"), "trimaran.cli.generate:systemd", "Print a systemd unit."),
    (("generate", "compose"), "trimaran.cli.generate:compose", "Print a Compose file."),
    (("generate", "k8s"), "trimaran.cli.generate:k8s", "Print a Kubernetes manifest."),
    (
        ("metrics",),
        "trimaran.cli.metrics:metrics",
        "Show the metrics of nodes, those that Prometheus scrapes.",
    ),
    (
        ("version",),
        "trimaran.cli.version:version",
        "Print the version of trimaran, and the Apache Kafka version it matches.",
    ),
)
NOUNS = {
    "chaos": "Kill, freeze or isolate nodes of the local cluster, and watch it cope.",
    "controller": "Run a controller.",
    "broker": "Run a broker.",
    "server": "Run a node in all its roles.",
    "storage": "Log directories of a node: format, and show ids.",
    "quorum": "The quorum of controllers: status, history, voters, registrations.",
    "quorum voters": "Voters of the quorum: add, remove.",
    "metadata": "The metadata log: its records, and the cluster state at any offset.",
    "wire": "Captured frames of Kafka's protocol.",
    "logs": "Log segments on disk.",
    "topics": "Topics: list, create, describe, alter, delete.",
    "records": "Records of a topic: delete the oldest.",
    "partitions": "Partitions: list, history, leader election.",
    "reassign": "Move partitions between brokers.",
    "configs": "Configs of topics, brokers, groups and client metrics in a running cluster.",
    "config": "Properties files of nodes: write, check, explain, compare.",
    "faults": "Ready plans of faults, to test clients.",
    "features": "Feature levels of a cluster.",
    "brokers": "Brokers of a cluster: list, describe, add.",
    "groups": "Groups and their offsets: classic, consumer, share and streams.",
    "users": "SCRAM users: list, add, remove.",
    "acls": "ACLs: the rights of principals.",
    "tokens": "Delegation tokens: list, create, renew, expire.",
    "quotas": "Client quotas: how much clients may use.",
    "transactions": "Transactions: list, describe, find and abort hanging ones.",
    "bench": "Measure how fast a cluster produces and consumes.",
    "zk": "ZooKeeper, and the mirror of the metadata in it.",
    "generate": "Generate files for Prometheus, Grafana, systemd, Compose, Kubernetes and shells.",
}
# Commands that only read: `--watch` runs them again and again.
WATCHED = frozenset(
    {
        ("acls", "list"),
        ("brokers", "describe"),
        ("brokers", "list"),
        ("configs", "get"),
        ("configs", "list"),
        ("features", "list"),
        ("groups", "describe"),
        ("groups", "lag"),
        ("groups", "list"),
        ("log-dirs",),
        ("partitions", "list"),
        ("ps",),
        ("quorum", "replication"),
        ("quorum", "status"),
        ("quotas", "list"),
        ("reassign", "list"),
        ("reassign", "verify"),
        ("tokens", "list"),
        ("topics", "describe"),
        ("topics", "list"),
        ("transactions", "describe"),
        ("transactions", "hanging"),
        ("transactions", "list"),
        ("users", "list"),
        ("zk", "status"),
    }
)
