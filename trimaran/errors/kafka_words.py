"""Words of Apache Kafka's tools that users type here, and what to write in their place: the tools themselves, their
commands and their flags.

They are those of `bin/*.sh` and of each `--help` of Kafka 4.4. Words of the same meaning here are not listed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Tool(NamedTuple):
    """A tool of Kafka: what to use in its place, and the command here whose `ANSWERS` explain the tool's commands and
    flags.
    """

    use: str
    commands: str = ""


_SETTINGS = {
    "--broker-list": "use -b HOST:PORT",
    "--command-property": "use -X KEY=VALUE",
    "--consumer-property": "use -X KEY=VALUE",
    "--producer-property": "use -X KEY=VALUE",
    "--consumer.config": "use --command-config FILE",
    "--producer.config": "use --command-config FILE",
    "--bootstrap-controller": "this request goes to brokers: use -b HOST:PORT",
    "--zookeeper": "this request goes to brokers: use -b HOST:PORT",
}
_OF_CONTROLLERS = {
    **{flag: text for flag, text in _SETTINGS.items() if flag != "--bootstrap-controller"},
    "--bootstrap-server": "this request goes to controllers: use -B HOST:PORT",
}
_MAPPINGS = {
    "version-mapping": "use trimaran storage format --dry-run --release-version RELEASE",
    "feature-dependencies": "use trimaran features upgrade FEATURE=LEVEL --dry-run, which names what it needs",
}
_OFFSETS = dict.fromkeys(
    ("--topic", "--time", "--partitions", "--topic-partitions", "--exclude-internal-topics"),
    "use trimaran topics describe TOPIC; trimaran groups reset-offsets finds the offsets of a time",
)
_RECORDS = {**_SETTINGS, "--topic": "the topic is an argument without a flag"}
_GROUPS = {
    **_SETTINGS,
    "--list": "use trimaran groups list",
    "--describe": "use trimaran groups describe GROUP, or trimaran groups lag GROUP",
    "--delete": "use trimaran groups delete GROUP",
    "--reset-offsets": "use trimaran groups reset-offsets GROUP",
    "--delete-offsets": "use trimaran groups delete-offsets GROUP",
    "--group": "the group is an argument without a flag",
    "--all-groups": "name the groups; trimaran groups list shows all",
    "--all-topics": "that is the default",
    "--offsets": "use trimaran groups describe GROUP",
    "--members": "use trimaran groups describe GROUP --members",
    "--state": "use trimaran groups describe GROUP --state",
    "--verbose": "use -o wide",
    "--to-earliest": "use --to start",
    "--to-latest": "use --to end",
    "--to-offset": "use --to OFFSET",
    "--to-datetime": "use --to @2026-11-23T12:00",
    "--by-duration": "use --to @-15m",
    "--to-current": "a position is written as --to OFFSET",
    "--shift-by": "a position is written as --to OFFSET",
    "--from-file": "a position is written as --to OFFSET, and its partitions as -t TOPIC:0,1",
    "--export": "use -o json",
    "--topology": "use trimaran groups describe GROUP --topology",
    "--all-input-topics": "that is the default",
    "--input-topic": "use -t TOPIC, or -t TOPIC:0,1",
    "--delete-all-internal-topics": "use --delete-internal-topics",
    "--delete-internal-topic": "all are deleted: use --delete-internal-topics",
    "--group-type": "use --type",
    "--protocol": "use --type",
    "--consumer": "use trimaran groups list --type classic --type consumer",
    "--share": "use trimaran groups list --type share",
    "--streams": "use trimaran groups list --type streams",
    "--validate-regex": "a regular expression is checked when a member subscribes to it",
}
_USE = "use trimaran "  # an answer with a command to copy
# By the first word of a command, or by two: each command and flag of Kafka, and what to write in its place.
ANSWERS: Mapping[str, Mapping[str, str]] = {
    "consume": {
        **_RECORDS,
        "--from-beginning": "that is the default, and can be written as --offset start",
        "--max-messages": "use -n COUNT",
        "--timeout-ms": "use -e to stop at the end",
        "--isolation-level": "use --isolation",
        "--formatter": "use -f FORMAT, or -o json",
        "--formatter-property": "use -k SEPARATOR to print keys, or -f FORMAT",
        "--formatter-config": "use -k SEPARATOR to print keys, or -f FORMAT",
        "--whitelist": "use --include PATTERN",
        "--skip-message-on-error": "use --on-error null",
        "--key-deserializer": "use --key-schema, or -f FORMAT: keys are printed as they are",
        "--value-deserializer": "use --value-schema, or -f FORMAT: values are printed as they are",
        "--enable-systest-events": "use -o json",
    },
    "produce": {
        **_RECORDS,
        "--reader-property": "use -k SEPARATOR for lines with keys, and --format for lines with headers",
        "--reader-config": "use -k SEPARATOR for lines with keys, and --format for lines with headers",
        "--line-reader": "use --format FORMAT, or --input json",
        "--sync": "produce ends when all records are acknowledged",
        "--request-required-acks": "use --acks all or --acks 1",
        "--compression-codec": "use -z CODEC",
        "--request-timeout-ms": "use --timeout SECONDS",
        "--timeout": "use --timeout SECONDS",
        **dict.fromkeys(
            (
                "--batch-size",
                "--max-block-ms",
                "--max-memory-bytes",
                "--max-partition-memory-bytes",
                "--message-send-max-retries",
                "--metadata-expiry-ms",
                "--retry-backoff-ms",
                "--socket-buffer-size",
            ),
            "this is not adjustable here",
        ),
    },
    "topics": {
        **_SETTINGS,
        "--list": "use trimaran topics list",
        "--describe": "use trimaran topics describe NAME",
        "--create": "use trimaran topics create NAME",
        "--delete": "use trimaran topics delete NAME",
        "--alter": "use trimaran topics alter NAME -p COUNT",
        "--topic": "the topic is an argument without a flag",
        "--topic-id": "the topic is named; describe shows its id",
        "--delete-config": "use trimaran configs delete topic/NAME KEY",
        "--exclude-internal": "internal topics are only listed with --internal",
        "--under-replicated-partitions": "use --under-replicated",
        "--unavailable-partitions": "use --unavailable",
        "--under-min-isr-partitions": "use --under-min-isr",
        "--at-min-isr-partitions": "use --at-min-isr",
        "--topics-with-overrides": "use trimaran configs list topic",
        "--replica-assignment": "brokers are chosen by the cluster; trimaran reassign moves partitions",
        "--partition-size-limit-per-response": "all partitions are shown",
        "--if-exists": "a topic that does not exist ends the command with exit code 5",
        "--if-not-exists": "a topic that exists ends the command with exit code 5",
    },
    "topics alter": {"--config": "use trimaran configs set topic/NAME KEY=VALUE"},
    "groups": _GROUPS,
    **{
        f"{kind}-groups": {**_GROUPS, "--list": f"use trimaran groups list --type {kind}"}
        for kind in ("share", "streams")
    },
    "configs": {
        **_SETTINGS,
        "--describe": "use trimaran configs get TYPE/NAME",
        "--alter": "use trimaran configs set TYPE/NAME KEY=VALUE",
        "--add-config": "use trimaran configs set TYPE/NAME KEY=VALUE",
        "--add-config-file": "use trimaran configs set TYPE/NAME KEY=VALUE",
        "--delete-config": "use trimaran configs delete TYPE/NAME KEY",
        "--entity-type": "a resource is written TYPE/NAME, such as topic/orders",
        "--entity-name": "a resource is written TYPE/NAME, such as topic/orders",
        "--entity-default": "the configs of all brokers are those of the resource broker",
        "--broker-defaults": "the configs of all brokers are those of the resource broker",
        "--topic": "a resource is written TYPE/NAME: topic/orders",
        "--broker": "a resource is written TYPE/NAME: broker/11",
        "--broker-logger": "a resource is written TYPE/NAME: broker-logger/11",
        "--group": "a resource is written TYPE/NAME: group/readers",
        "--client-metrics": "a resource is written TYPE/NAME: client-metrics/m",
        "describe": "use trimaran configs get TYPE/NAME",
        "alter": "use trimaran configs set TYPE/NAME KEY=VALUE",
        **dict.fromkeys(
            (
                "--client",
                "--client-defaults",
                "--ip",
                "--ip-defaults",
                "--user",
                "--user-defaults",
            ),
            "trimaran quotas has the quotas, and trimaran users the passwords",
        ),
    },
    "acls": {
        **_SETTINGS,
        "--list": "use trimaran acls list",
        "--add": "use trimaran acls add PRINCIPAL OPERATION RESOURCE",
        "--remove": "use trimaran acls remove",
        "--allow-principal": "the principal is an argument without a flag, such as User:alice",
        "--deny-principal": "the principal is an argument without a flag; --deny denies",
        "--principal": "the principal is an argument without a flag, such as User:alice",
        "--user-principal": "write a resource as user/User:alice",
        "--allow-host": "use --host",
        "--deny-host": "use --host with --deny",
        "--operation": "the operation is an argument without a flag, such as read",
        "--resource-pattern-type": "a prefix is written topic/orders*",
        "--topic": "a resource is written topic/orders",
        "--group": "a resource is written group/readers",
        "--cluster": "the resource is written cluster",
        "--transactional-id": "a resource is written transactional-id/t",
        "--delegation-token": "a resource is written delegation-token/ID",
        "--producer": "use trimaran acls add PRINCIPAL write,describe,create topic/NAME",
        "--consumer": "use trimaran acls add PRINCIPAL read,describe topic/NAME, and read for group/NAME",
        "--idempotent": "producers may be idempotent without an ACL",
        "--force": "ACLs are changed without a question",
    },
    "client-metrics": {
        **_SETTINGS,
        "--list": "use trimaran configs list client-metrics",
        "--describe": "use trimaran configs get client-metrics/NAME",
        "--alter": "use trimaran configs set client-metrics/NAME interval.ms=1000",
        "--delete": "use trimaran configs delete client-metrics/NAME KEY",
        "--name": "a resource is written client-metrics/NAME",
        "--generate-name": "choose a name: trimaran configs set client-metrics/NAME interval.ms=1000",
        "--interval": "use trimaran configs set client-metrics/NAME interval.ms=1000",
        "--match": "use trimaran configs set client-metrics/NAME match=client_id=a",
        "--metrics": "use trimaran configs set client-metrics/NAME metrics=org.apache.kafka.",
    },
    "features": {
        **_SETTINGS,
        **dict.fromkeys(("describe", "--describe"), "use trimaran features list"),
        **dict.fromkeys(("disable", "--disable"), "use trimaran features downgrade FEATURE=0"),
        **_MAPPINGS,
        "--metadata": "use trimaran features upgrade metadata.version=4.4",
        "--release-version": "use trimaran features upgrade metadata.version=4.4",
        "--feature": "a level is an argument without a flag: trimaran features upgrade share.version=2",
    },
    "quorum": {
        **_OF_CONTROLLERS,
        **dict.fromkeys(("describe", "--describe"), "use trimaran quorum status"),
        "--status": "use trimaran quorum status",
        "--replication": "use trimaran quorum replication",
        "--re": "use trimaran quorum replication",
        "--human-readable": "use trimaran quorum replication",
        "--hr": "use trimaran quorum replication",
        "add-controller": "use trimaran quorum voters add -c FILE",
        "remove-controller": "use trimaran quorum voters remove ID",
        "unregister-controller": "use trimaran quorum unregister ID",
        "--controller-id": "the id is an argument without a flag",
        "--controller-directory-id": "use --directory-id",
    },
    "cluster": {
        **_SETTINGS,
        "cluster-id": "use trimaran quorum status",
        "unregister": "brokers are unregistered by Kafka's own kafka-cluster.sh unregister",
        "unregister-controller": "use trimaran quorum unregister ID",
        "list-endpoints": "use trimaran brokers list",
        "api-versions": "Kafka's own kafka-cluster.sh api-versions shows them",
        "--config": "use --command-config FILE",
    },
    "brokers": {
        **_SETTINGS,
        "unregister": "brokers are unregistered by Kafka's own kafka-cluster.sh unregister",
        "list-endpoints": "use trimaran brokers list",
        "api-versions": "Kafka's own kafka-cluster.sh api-versions shows them",
    },
    "storage": {
        **_MAPPINGS,
        "--feature": "use -f FEATURE=LEVEL",
    },
    "tokens": {
        **_SETTINGS,
        **dict.fromkeys(("describe", "--describe"), "use trimaran tokens list"),
        "--create": "use trimaran tokens create",
        "--renew": "use trimaran tokens renew HMAC",
        "--expire": "use trimaran tokens expire HMAC",
        "--hmac": "the HMAC is an argument without a flag",
        "--owner-principal": "use --owner User:NAME",
        "--renewer-principal": "use --renewer User:NAME",
        "--max-life-time-period": "use --days DAYS",
        "--renew-time-period": "use trimaran tokens renew HMAC --days DAYS",
        "--expiry-time-period": "use trimaran tokens expire HMAC --days DAYS",
    },
    "records": {
        **_SETTINGS,
        "--offset-json-file": "use trimaran records delete TOPIC -p PARTITION --before OFFSET",
    },
    "get-offsets": {**_SETTINGS, **_OFFSETS},
    "partitions": {
        **_SETTINGS,
        "--admin.config": "use --command-config FILE",
        "--election-type": "use trimaran partitions elect-leader TOPIC, with --unclean for the other type",
        "--all-topic-partitions": "use trimaran partitions elect-leader",
        "--path-to-json-file": "use trimaran partitions elect-leader TOPIC -p PARTITION",
    },
    "log-dirs": {
        **_SETTINGS,
        "--describe": "that is the default",
        "--broker-list": "use --broker ID for each",
        "--topic-list": "use --topic NAME for each",
    },
    "reassign": {
        **_SETTINGS,
        "--generate": "use trimaran reassign plan TOPIC --to BROKER",
        "--execute": "use trimaran reassign apply FILE",
        "--verify": "use trimaran reassign verify FILE",
        "--cancel": "use trimaran reassign cancel FILE",
        "--list": "use trimaran reassign list",
        "--reassignment-json-file": "the file is an argument without a flag",
        "--topics-to-move-json-file": "topics are arguments: trimaran reassign plan TOPIC --to BROKER",
        "--broker-list": "use --to BROKER for each",
        "--disable-rack-aware": "use --ignore-racks",
        **dict.fromkeys(
            ("--throttle", "--replica-alter-log-dirs-throttle"),
            "use trimaran configs set broker KEY=VALUE, with the keys *.replication.throttled.rate",
        ),
        "--preserve-throttles": "throttles are configs, and stay as they are",
        "--additional": "an apply adds to the reassignments in progress",
        "--disallow-replication-factor-change": "trimaran reassign apply FILE --dry-run shows the change",
    },
    "transactions": {
        **_SETTINGS,
        "find-hanging": "use trimaran transactions hanging",
        "describe-producers": "use trimaran transactions hanging TOPIC --older-than-minutes 0",
        "forceTerminateTransaction": "Kafka's own kafka-transactions.sh does it; trimaran transactions abort ends"
        " a transaction in one partition",
        "--transactional-id": "the transactional id is an argument without a flag",
        "--duration-filter": "use --open-longer-than-ms",
        "--max-transaction-timeout": "use --older-than-minutes",
    },
    "users": {
        **_SETTINGS,
        **dict.fromkeys(("describe", "--describe"), "use trimaran users list"),
        **dict.fromkeys(("alter", "--alter"), "use trimaran users add NAME"),
        "--entity-type": "use trimaran users list NAME",
        "--entity-name": "the name is an argument without a flag",
        "--add-config": "use trimaran users add NAME; the password is read from a prompt",
        "--delete-config": "use trimaran users remove NAME",
    },
    "quotas": {
        **_SETTINGS,
        **dict.fromkeys(("describe", "--describe"), "use trimaran quotas list"),
        **dict.fromkeys(("alter", "--alter"), "use trimaran quotas set user=NAME KEY=NUMBER"),
        "--add-config": "use trimaran quotas set user=NAME KEY=NUMBER",
        "--delete-config": "use trimaran quotas delete user=NAME KEY",
        "--entity-type": "an entity is written user=NAME, client-id=NAME or ip=ADDRESS",
        "--entity-name": "an entity is written user=NAME, client-id=NAME or ip=ADDRESS",
        "--entity-default": "an entity is written without =NAME: user, client-id or ip",
    },
    "logs": {
        "--files": "segments are arguments without a flag: trimaran logs dump PATH",
        "--print-data-log": "that is the default",
        "--deep-iteration": "that is the default",
        "--index-sanity-check": "use --verify",
        "--verify-index-only": "use --verify",
        "--skip-record-metadata": "use -o json",
        "--key-decoder-class": "use --decode for internal topics; keys are printed as text or base64",
        "--value-decoder-class": "use --decode for internal topics; values are printed as text or base64",
        "--max-bytes": "all of a segment is printed: pipe it into head",
        "--max-message-size": "records of every size are read",
        "--cluster-metadata-decoder": "use trimaran metadata dump PATH",
        **dict.fromkeys(
            (
                "--offsets-decoder",
                "--transaction-log-decoder",
                "--share-group-state-decoder",
                "--remote-log-metadata-decoder",
            ),
            "use --decode",
        ),
    },
}
_CONNECT = Tool("Connect has no broker in it: Kafka's own connect-*.sh work with this cluster")
_VERIFIABLE = Tool(
    "use trimaran produce, or trimaran consume; Kafka's own tool works with this cluster"
)
_SHARES = Tool("use trimaran consume TOPIC -g GROUP", "consume")
_ELECTION = Tool("use trimaran partitions elect-leader", "partitions")
# By the name of a script without `kafka-` and `.sh`.
TOOLS: Mapping[str, Tool] = {
    "acls": Tool("use trimaran acls list, add or remove", "acls"),
    "broker-api-versions": Tool("Kafka's own kafka-cluster.sh api-versions shows them"),
    "client-metrics": Tool("use trimaran configs list client-metrics", "client-metrics"),
    "cluster": Tool("use trimaran quorum status, or trimaran brokers list", "cluster"),
    "configs": Tool("use trimaran configs get or set TYPE/NAME", "configs"),
    "connect-distributed": _CONNECT,
    "connect-mirror-maker": _CONNECT,
    "connect-plugin-path": _CONNECT,
    "connect-standalone": _CONNECT,
    "console-consumer": Tool("use trimaran consume TOPIC", "consume"),
    "console-producer": Tool("use trimaran produce TOPIC", "produce"),
    "console-share-consumer": _SHARES,
    "consumer-groups": Tool("use trimaran groups list --type classic --type consumer", "groups"),
    "consumer-perf-test": Tool("use trimaran bench consume TOPIC"),
    "delegation-tokens": Tool("use trimaran tokens list, create, renew or expire", "tokens"),
    "delete-records": Tool("use trimaran records delete TOPIC --before OFFSET", "records"),
    "dump-log": Tool("use trimaran logs dump PATH, or trimaran metadata dump PATH", "logs"),
    "e2e-latency": Tool("use trimaran bench produce TOPIC, which shows latencies"),
    "features": Tool("use trimaran features list, upgrade or downgrade", "features"),
    "get-offsets": Tool("use trimaran topics describe TOPIC", "get-offsets"),
    "groups": Tool("use trimaran groups list", "groups"),
    "jmx": Tool("use trimaran metrics; there is no JMX here"),
    "leader-election": _ELECTION,
    "log-dirs": Tool("use trimaran log-dirs", "log-dirs"),
    "metadata-quorum": Tool("use trimaran quorum status, or trimaran quorum replication", "quorum"),
    "metadata-shell": Tool("use trimaran metadata shell"),
    "mirror-maker": _CONNECT,
    "preferred-replica-election": _ELECTION,
    "producer-perf-test": Tool("use trimaran bench produce TOPIC"),
    "reassign-partitions": Tool("use trimaran reassign plan, apply, verify or cancel", "reassign"),
    "replica-verification": Tool("use trimaran partitions list --under-replicated"),
    "run-class": Tool("there is no Java here; trimaran --help shows all commands"),
    "server-start": Tool("use trimaran server start -c FILE, or trimaran up for a local cluster"),
    "server-stop": Tool("a server ends at SIGTERM; trimaran down stops a local cluster"),
    "share-consumer-perf-test": _SHARES,
    "share-groups": Tool("use trimaran groups list --type share", "share-groups"),
    "simple-consumer-shell": Tool("use trimaran consume TOPIC", "consume"),
    "storage": Tool("use trimaran storage format, info or random-uuid", "storage"),
    "streams-application-reset": Tool(
        "use trimaran groups reset-offsets GROUP --to start --delete-internal-topics"
    ),
    "streams-groups": Tool("use trimaran groups list --type streams", "streams-groups"),
    "topics": Tool("use trimaran topics list", "topics"),
    "transactions": Tool("use trimaran transactions list", "transactions"),
    "trogdor": Tool("use trimaran bench produce, or trimaran chaos kill"),
    "verifiable-consumer": _VERIFIABLE,
    "verifiable-producer": _VERIFIABLE,
    "verifiable-share-consumer": _VERIFIABLE,
    "zookeeper-security-migration": Tool(
        "use trimaran zk mirror, which sets the ACLs of its znodes"
    ),
    "zookeeper-server-start": Tool("use trimaran zk start"),
    "zookeeper-server-stop": Tool("a server ends at SIGTERM or Ctrl-C"),
    "zookeeper-shell": Tool("use trimaran zk tree, or trimaran zk get"),
}


def answer(command: str, word: str) -> str | None:
    """Returns what to write in place of a command or flag of Kafka's tools, for a command such as `topics create`; None
    for a word that is none of theirs.
    """
    of_noun = ANSWERS.get(command.partition(" ")[0], {})
    return ANSWERS.get(command, {}).get(word) or of_noun.get(word)


def answers(command: str, words: Sequence[str]) -> list[str]:
    """Returns the answers for the words that have one, those with a command to copy first."""
    told = (answer(command, word.partition("=")[0]) for word in words)
    return sorted((use for use in told if use is not None), key=_is_no_command)


def _is_no_command(use: str) -> bool:
    return not use.startswith(_USE)


def answer_for_tool(word: str, rest: Sequence[str]) -> str | None:
    """Returns what to use in place of a tool of Kafka, such as `kafka-topics.sh`: the command for the action among the
    words after it, if they name one. None for a word that is not a tool.
    """
    name = word.rpartition("/")[2].removesuffix(".sh").removesuffix(".bat").removeprefix("kafka-")
    tool = TOOLS.get(name)
    if tool is None:
        return None
    (first,) = answers(tool.commands, rest)[:1] or [tool.use]
    return tool.use if _is_no_command(first) else first
