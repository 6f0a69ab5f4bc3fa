"""The table of commands: noun, verb, where it lives, one line of help. Nothing of a command is imported before its
call.
"""

from __future__ import annotations

import os
import signal
import sys

from cyclopts import App

from trimaran.errors import Exit, UserError

# Each row: the words of the command, where its function lives, a line of help.
COMMANDS = (
    (
        ("up",),
        "trimaran.cli.cluster:up",
        "Format and start a local cluster: controllers, brokers, ZooKeeper mirror.",
    ),
    (("ps",), "trimaran.cli.cluster:ps", "Show the nodes of the local cluster."),
    (("down",), "trimaran.cli.cluster:down", "Stop the local cluster; its data stays."),
    (("purge",), "trimaran.cli.cluster:purge", "Stop the local cluster and delete its data."),
    (
        ("console",),
        "trimaran.cli.console:console",
        "Serve the web console in front of any cluster.",
    ),
    (("chaos", "kill"), "trimaran.cli.chaos:kill", "kill -9 a node of the local cluster."),
    (
        ("chaos", "restart"),
        "trimaran.cli.chaos:restart",
        "Stop a node cleanly if it runs, then start it.",
    ),
    (("chaos", "pause"), "trimaran.cli.chaos:pause", "Freeze a node (SIGSTOP)."),
    (("chaos", "resume"), "trimaran.cli.chaos:resume", "Let a frozen node go on (SIGCONT)."),
    (
        ("controller", "start"),
        "trimaran.cli.server:controller_start",
        "Run a controller in this process.",
    ),
    (("broker", "start"), "trimaran.cli.server:broker_start", "Run a broker in this process."),
    (
        ("server", "start"),
        "trimaran.cli.server:server_start",
        "Run every role the file names in this process.",
    ),
    (
        ("storage", "format"),
        "trimaran.cli.server:storage_format",
        "Format the directories of a node.",
    ),
    (
        ("storage", "info"),
        "trimaran.cli.server:storage_info",
        "Show cluster and node ids of a directory.",
    ),
    (
        ("storage", "random-uuid"),
        "trimaran.cli.server:storage_random_uuid",
        "Print a new cluster id.",
    ),
    (("quorum", "status"), "trimaran.cli.quorum:status", "Who leads, and how far each voter is."),
    (
        ("quorum", "history"),
        "trimaran.cli.quorum:history",
        "Who led from when to when, and the gaps between.",
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
        ("metadata", "dump"),
        "trimaran.cli.metadata:dump",
        "Print the records of a metadata log or snapshot on disk.",
    ),
    (
        ("metadata", "tail"),
        "trimaran.cli.metadata:tail",
        "Follow the metadata log of a running quorum.",
    ),
    (
        ("metadata", "image"),
        "trimaran.cli.metadata_state:image",
        "Print the whole state of the metadata log, at any offset.",
    ),
    (
        ("metadata", "diff"),
        "trimaran.cli.metadata_state:diff",
        "What changed between two offsets, or two directories.",
    ),
    (
        ("metadata", "ls"),
        "trimaran.cli.metadata_state:ls",
        "List a directory of the state, with Kafka's paths.",
    ),
    (
        ("metadata", "cat"),
        "trimaran.cli.metadata_state:cat",
        "Print a file of the state, with Kafka's paths.",
    ),
    (
        ("metadata", "find"),
        "trimaran.cli.metadata_state:find",
        "List everything below a path of the state.",
    ),
    (
        ("metadata", "verify"),
        "trimaran.cli.metadata_state:verify",
        "Compare the metadata logs of several controllers byte by byte.",
    ),
    (
        ("wire", "decode"),
        "trimaran.cli.wire:decode",
        "Print captured frames as JSON, and check that we write the same bytes.",
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
        "Leaders, replicas and ISR of a topic's partitions.",
    ),
    (("topics", "alter"), "trimaran.cli.topics:alter", "Give a topic more partitions."),
    (("topics", "delete"), "trimaran.cli.topics:delete", "Delete a topic."),
    (
        ("partitions", "list"),
        "trimaran.cli.partitions:list_partitions",
        "List partitions: all, or those with a problem: under-replicated, offline, at or under min.insync.replicas, "
        "not led by the preferred replica.",
    ),
    (
        ("partitions", "elect-leader"),
        "trimaran.cli.partitions:elect_leader",
        "Have preferred leaders elected, or unclean ones.",
    ),
    (
        ("reassign", "plan"),
        "trimaran.cli.reassign_plan:plan",
        "Propose where the replicas of topics should be.",
    ),
    (("reassign", "apply"), "trimaran.cli.reassign:apply", "Begin the moves of a plan."),
    (("reassign", "list"), "trimaran.cli.reassign:list_moves", "List the moves that go on."),
    (
        ("reassign", "verify"),
        "trimaran.cli.reassign:verify",
        "Say whether the partitions of a plan are where they should be.",
    ),
    (("reassign", "cancel"), "trimaran.cli.reassign:cancel", "End the moves of a plan."),
    (("configs", "get"), "trimaran.cli.configs:get", "Show the configs of a resource."),
    (("configs", "set"), "trimaran.cli.configs:set_configs", "Set configs of a resource."),
    (("configs", "delete"), "trimaran.cli.configs:delete", "Reset configs to default."),
    (
        ("features", "list"),
        "trimaran.cli.features:list_features",
        "Show the levels of the cluster's features.",
    ),
    (("features", "upgrade"), "trimaran.cli.features:upgrade", "Raise features to levels."),
    (("features", "downgrade"), "trimaran.cli.features:downgrade", "Lower features to levels."),
    (("brokers", "list"), "trimaran.cli.brokers:list_brokers", "List brokers."),
    (("groups", "list"), "trimaran.cli.groups:list_groups", "List consumer groups."),
    (
        ("groups", "describe"),
        "trimaran.cli.groups:describe",
        "Members, committed offsets and lag of a group.",
    ),
    (
        ("groups", "reset-offsets"),
        "trimaran.cli.groups_change:reset_offsets",
        "Have a group consume again, or skip; a dry run without --execute.",
    ),
    (("groups", "delete"), "trimaran.cli.groups_change:delete", "Delete groups."),
    (
        ("groups", "delete-offsets"),
        "trimaran.cli.groups_change:delete_offsets",
        "Delete what a group has committed of a topic.",
    ),
    (
        ("groups", "migrate-offsets"),
        "trimaran.cli.groups_migrate:migrate_offsets",
        "Commit offsets that old consumers kept in ZooKeeper to Kafka; a dry run without --execute.",
    ),
    (("users", "list"), "trimaran.cli.users:list_users", "List who may log in by SCRAM."),
    (("users", "add"), "trimaran.cli.users:add", "Add a user, or change the password of one."),
    (("users", "remove"), "trimaran.cli.users:remove", "Remove a user."),
    (("acls", "list"), "trimaran.cli.acls:list_acls", "List who may do what."),
    (("acls", "add"), "trimaran.cli.acls:add", "Allow or forbid a principal something."),
    (("acls", "remove"), "trimaran.cli.acls:remove", "Remove ACLs."),
    (("acls", "explain"), "trimaran.cli.acls:explain", "Say which ACL decides."),
    (("tokens", "list"), "trimaran.cli.tokens:list_tokens", "List delegation tokens."),
    (("tokens", "create"), "trimaran.cli.tokens:create", "Make a delegation token."),
    (("tokens", "renew"), "trimaran.cli.tokens:renew", "Let a delegation token live on."),
    (("tokens", "expire"), "trimaran.cli.tokens:expire", "End the life of a delegation token."),
    (("quotas", "list"), "trimaran.cli.quotas:list_quotas", "List how much clients may use."),
    (("quotas", "set"), "trimaran.cli.quotas:set_quotas", "Limit what clients may use."),
    (("quotas", "delete"), "trimaran.cli.quotas:delete", "Take limits of clients away."),
    (
        ("transactions", "list"),
        "trimaran.cli.transactions:list_transactions",
        "List transactional ids.",
    ),
    (
        ("transactions", "describe"),
        "trimaran.cli.transactions:describe",
        "Producer, state and partitions of a transactional id.",
    ),
    (
        ("transactions", "hanging"),
        "trimaran.cli.transactions:hanging",
        "List open transactions that no coordinator will end.",
    ),
    (
        ("transactions", "abort"),
        "trimaran.cli.transactions:abort",
        "Abort a hanging transaction in one partition.",
    ),
    (("produce",), "trimaran.cli.produce:produce", "Produce the lines of stdin or of a file."),
    (("consume",), "trimaran.cli.records:consume", "Print the records of a topic."),
    (("zk", "start"), "trimaran.cli.zk:start", "Run a real ZooKeeper in this process group."),
    (("zk", "mirror"), "trimaran.cli.zk:mirror", "Mirror a quorum's metadata into a ZooKeeper."),
    (
        ("zk", "status"),
        "trimaran.cli.zk:status",
        "Show the last image mirrored, and which mirror is active.",
    ),
    (("zk", "tree"), "trimaran.cli.zk:tree", "Print the znode tree."),
    (("zk", "get"), "trimaran.cli.zk:get", "Print one znode."),
    (
        ("zk", "verify"),
        "trimaran.cli.zk_check:verify",
        "Compare every mirrored znode with the metadata image.",
    ),
    (
        ("zk", "diff"),
        "trimaran.cli.zk_check:diff",
        "Compare the tree with the metadata at an offset.",
    ),
    (
        ("zk", "resync"),
        "trimaran.cli.zk_check:resync",
        "Have the mirror compare everything now; --dry-run prints what it would write.",
    ),
    (
        ("analyze",),
        "trimaran.cli.analyze:analyze",
        "Read the logs with Spark: verdicts, and a report with plots.",
    ),
    (
        ("sql",),
        "trimaran.cli.sql:sql",
        "Ask the logs in SQL.",
    ),
    (
        ("doctor",),
        "trimaran.cli.doctor:doctor",
        "Check what this machine has, and how to get what is missing.",
    ),
    (
        ("generate", "prometheus"),
        "trimaran.cli.generate:prometheus",
        "Print a configuration of Prometheus.",
    ),
    (("generate", "alerts"), "trimaran.cli.generate:alerts", "Print alerts for Prometheus."),
    (("generate", "grafana"), "trimaran.cli.generate:grafana", "Print a dashboard for Grafana."),
    (("generate", "systemd"), "trimaran.cli.generate:systemd", "Print a unit of systemd."),
    (("generate", "compose"), "trimaran.cli.generate:compose", "Print a compose file."),
    (("generate", "k8s"), "trimaran.cli.generate:k8s", "Print a manifest of Kubernetes."),
    (
        ("metrics",),
        "trimaran.cli.metrics:metrics",
        "What nodes count and measure, as they tell Prometheus.",
    ),
    (
        ("version",),
        "trimaran.cli.version:version",
        "Print our version and the Apache Kafka version we match.",
    ),
)
NOUNS = {
    "chaos": "Break nodes of the local cluster.",
    "controller": "Controllers of the quorum.",
    "broker": "One broker process.",
    "server": "A node in all its roles.",
    "storage": "Directories of a node.",
    "quorum": "The quorum of controllers.",
    "quorum voters": "Who votes in it.",
    "metadata": "The metadata log.",
    "wire": "The protocol's frames.",
    "logs": "Log directories on disk.",
    "topics": "Topics.",
    "partitions": "Partitions.",
    "reassign": "Move partitions between brokers.",
    "configs": "Configs of topics, brokers, groups and client metrics.",
    "features": "Cluster feature levels.",
    "brokers": "Brokers of a cluster.",
    "groups": "Consumer groups.",
    "users": "Users who log in by SCRAM.",
    "acls": "Who may do what.",
    "tokens": "Delegation tokens.",
    "quotas": "How much clients may use.",
    "transactions": "Transactions of producers.",
    "zk": "ZooKeeper and the mirror in it.",
    "generate": "Files for who watches or runs a cluster.",
}
# Set to anything: unforeseen errors keep their traceback.
TRACEBACK_VARIABLE = "TRIMARAN_TRACEBACK"
INTERRUPTED = 130  # 128 + SIGINT, as shells say it
EPILOGUE = (
    "Exit codes: 0 yes, 1 no, 2 usage, 3 cannot connect, 4 timeout, 5 refused by the cluster."
)


def build() -> App:
    """The whole command tree."""
    app = App(
        name="trimaran",
        help="A Kafka-compatible broker with a KRaft quorum, a ZooKeeper mirror and Spark sources.",
        help_epilogue=EPILOGUE,
        version=_version,
        version_flags=["--version"],
    )
    nouns: dict[tuple[str, ...], App] = {(): app}
    for name, text in NOUNS.items():
        path = tuple(name.split())
        nouns[path] = App(name=path[-1], help=text)
    for words, where, text in COMMANDS:
        nouns[words[:-1]].command(where, name=words[-1], help=text)
    for path, noun in nouns.items():
        if path:
            nouns[path[:-1]].command(noun)
    return app


def _version() -> str:
    from importlib.metadata import version

    return version("trimaran")


def _exit_by(number: int, _frame: object) -> None:
    sys.exit(128 + number)


def _end_like_ctrl_c() -> None:
    """SIGTERM and SIGHUP unwind as Ctrl-C does, so that what a command started ends with it; nohup is respected.

    Servers have handlers of their own.
    """
    signal.signal(signal.SIGTERM, _exit_by)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, _exit_by)


def run(arguments: list[str] | None = None) -> None:
    """Runs a command and exits with its code; a `UserError` is shown in three lines."""
    _end_like_ctrl_c()
    try:
        result = build()(
            arguments, exit_on_error=False, print_error=True, result_action="return_value"
        )
    except UserError as error:
        sys.exit(_show(error))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(Exit.OK)
    except Exception as error:
        if type(error).__module__.startswith("cyclopts"):
            sys.exit(Exit.USAGE)
        if os.environ.get(TRACEBACK_VARIABLE):
            raise
        sys.exit(_show(_unforeseen(error)))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    sys.exit(result if isinstance(result, int) else Exit.OK)


def _unforeseen(error: Exception) -> UserError:
    """What no command has an error of its own for: the machine's refusals, and our mistakes."""
    from trimaran.failures import explain

    return explain(error) or UserError(
        f"trimaran failed: {type(error).__name__}",
        " ".join(str(error).split()) or "it says no more",
        f"this is a mistake of trimaran; {TRACEBACK_VARIABLE}=1 shows where, please report it",
    )


def _show(error: UserError) -> int:
    print(error, file=sys.stderr)
    return error.exit_code
