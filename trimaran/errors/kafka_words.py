"""Flags of Apache Kafka's tools that users type here, and what to write in their place.

The flags are those of `bin/kafka-*.sh --help` of Kafka 4.4. Flags of the same name and meaning are not listed.
"""

from __future__ import annotations

from collections.abc import Mapping

_SETTINGS = {
    "--broker-list": "use -b HOST:PORT",
    "--command-property": "use -X KEY=VALUE",
    "--consumer-property": "use -X KEY=VALUE",
    "--producer-property": "use -X KEY=VALUE",
    "--consumer.config": "use --command-config FILE",
    "--producer.config": "use --command-config FILE",
    "--bootstrap-controller": "brokers are asked: use -b HOST:PORT",
    "--zookeeper": "brokers are asked: use -b HOST:PORT",
}
_RECORDS = {**_SETTINGS, "--topic": "the topic is an argument without a flag"}
_AS_IS = "records are printed as they are; -o json escapes what is not text"
# By the first word of a command, or by two: each flag, and what to write in its place.
ANSWERS: Mapping[str, Mapping[str, str]] = {
    "consume": {
        **_RECORDS,
        "--from-beginning": "that is the default, and can be written as --offset start",
        "--max-messages": "use -n COUNT",
        "--timeout-ms": "use -e to stop at the end",
        "--group": "no offsets are committed; -g GROUP joins a share group",
        "--isolation-level": "use --isolation",
        "--formatter": "use -f FORMAT, or -o json",
        "--formatter-property": "use -k SEPARATOR to print keys, or -f FORMAT",
        "--formatter-config": "use -k SEPARATOR to print keys, or -f FORMAT",
        "--include": "name one topic",
        "--whitelist": "name one topic",
        "--skip-message-on-error": _AS_IS,
        "--key-deserializer": _AS_IS,
        "--value-deserializer": _AS_IS,
        "--enable-systest-events": "use -o json",
    },
    "produce": {
        **_RECORDS,
        "--reader-property": "use -k SEPARATOR for lines with keys",
        "--reader-config": "use -k SEPARATOR for lines with keys",
        "--line-reader": "each line is a record",
        "--sync": "produce ends when all records are acknowledged",
        "--request-required-acks": "records are always written with acks=all",
        "--request-timeout-ms": "use --timeout SECONDS",
        "--timeout": "use --timeout SECONDS",
        **dict.fromkeys(
            (
                "--batch-size",
                "--compression-codec",
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
    "groups": {
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
        "--validate-regex": "a regular expression is checked when a member subscribes to it",
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
        **dict.fromkeys(
            (
                "--client",
                "--client-defaults",
                "--ip",
                "--ip-defaults",
                "--user",
                "--user-defaults",
            ),
            "use trimaran quotas for quotas, and trimaran users for passwords",
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
}


def answer(command: str, flag: str) -> str | None:
    """Returns what to write in place of a flag of Kafka's tools, for a command such as `topics create`; None for a word
    that is none of their flags.
    """
    of_noun = ANSWERS.get(command.partition(" ")[0], {})
    return ANSWERS.get(command, {}).get(flag) or of_noun.get(flag)
