"""Each tool of Kafka, and each of its commands and flags, exists here or is answered with a replacement."""

import re

import pytest

from trimaran.cli.app import build, run
from trimaran.cli.commands import COMMANDS
from trimaran.errors.kafka_words import ANSWERS, TOOLS, answer, answer_for_tool

# The scripts in bin/ of Kafka 4.4.
SCRIPTS = """
connect-distributed connect-mirror-maker connect-plugin-path connect-standalone kafka-acls kafka-broker-api-versions
kafka-client-metrics kafka-cluster kafka-configs kafka-console-consumer kafka-console-producer
kafka-console-share-consumer kafka-consumer-groups kafka-consumer-perf-test kafka-delegation-tokens
kafka-delete-records kafka-dump-log kafka-e2e-latency kafka-features kafka-get-offsets kafka-groups kafka-jmx
kafka-leader-election kafka-log-dirs kafka-metadata-quorum kafka-metadata-shell kafka-producer-perf-test
kafka-reassign-partitions kafka-replica-verification kafka-run-class kafka-server-start kafka-server-stop
kafka-share-consumer-perf-test kafka-share-groups kafka-storage kafka-streams-application-reset kafka-streams-groups
kafka-topics kafka-transactions kafka-verifiable-consumer kafka-verifiable-producer kafka-verifiable-share-consumer
trogdor
"""
# The commands of the tools in Kafka 4.4, by our command.
KAFKAS_COMMANDS = {
    "features": "describe upgrade downgrade disable version-mapping feature-dependencies",
    "quorum": "describe add-controller remove-controller",
    "cluster": "cluster-id unregister unregister-controller list-endpoints api-versions",
    "storage": "info format version-mapping feature-dependencies random-uuid",
    "transactions": "list describe describe-producers abort find-hanging forceTerminateTransaction",
}
# The flags of the tools' --help in Kafka 4.4, by our command.
FLAGS = {
    "consume": "bootstrap-server command-config command-property consumer-property consumer.config "
    "enable-systest-events formatter formatter-config formatter-property from-beginning group help include "
    "isolation-level key-deserializer max-messages offset partition property skip-message-on-error timeout-ms topic "
    "value-deserializer",
    "produce": "batch-size bootstrap-server command-config command-property compression-codec help line-reader "
    "max-block-ms max-memory-bytes max-partition-memory-bytes message-send-max-retries metadata-expiry-ms "
    "producer-property producer.config property reader-config reader-property request-required-acks "
    "request-timeout-ms retry-backoff-ms socket-buffer-size sync timeout topic",
    "topics": "alter at-min-isr-partitions bootstrap-server command-config config create delete delete-config "
    "describe exclude-internal help if-exists if-not-exists list partition-size-limit-per-response partitions "
    "replica-assignment replication-factor topic topic-id topics-with-overrides unavailable-partitions "
    "under-min-isr-partitions under-replicated-partitions",
    "groups": "all-groups all-topics bootstrap-server by-duration command-config delete delete-offsets describe "
    "dry-run execute export from-file group help list members offsets reset-offsets shift-by state timeout "
    "to-current to-datetime to-earliest to-latest to-offset topic type validate-regex verbose",
    "configs": "add-config add-config-file all alter bootstrap-controller bootstrap-server broker broker-defaults "
    "broker-logger client client-defaults client-metrics command-config delete-config describe entity-default "
    "entity-name entity-type group help ip ip-defaults topic user user-defaults",
    "acls": "add allow-host allow-principal bootstrap-controller bootstrap-server cluster command-config consumer "
    "delegation-token deny-host deny-principal force group help idempotent list operation principal producer remove "
    "resource-pattern-type topic transactional-id user-principal",
    "client-metrics": "alter command-config delete describe generate-name interval list match metrics name",
    "tokens": "bootstrap-server command-config create describe expire expiry-time-period help hmac "
    "max-life-time-period owner-principal renew renew-time-period renewer-principal",
    "records": "bootstrap-server command-config help offset-json-file",
    "get-offsets": "command-config exclude-internal-topics partitions time topic topic-partitions",
    "share-groups": "all-groups all-topics delete delete-offsets describe export from-file group list members "
    "offsets reset-offsets state to-current to-datetime to-earliest to-latest to-offset topic verbose",
    "streams-groups": "all-groups all-input-topics by-duration delete delete-all-internal-topics "
    "delete-internal-topic delete-offsets describe export from-file group input-topic list members offsets "
    "reset-offsets shift-by state to-current to-datetime to-earliest to-latest to-offset topology verbose",
    "partitions": "admin.config all-topic-partitions bootstrap-server command-config election-type help partition "
    "path-to-json-file topic",
    "log-dirs": "bootstrap-server broker-list command-config describe help topic-list",
    "reassign": "additional bootstrap-controller bootstrap-server broker-list cancel command-config "
    "disable-rack-aware disallow-replication-factor-change execute generate help list preserve-throttles "
    "reassignment-json-file replica-alter-log-dirs-throttle throttle timeout topics-to-move-json-file verify",
    "logs": "cluster-metadata-decoder deep-iteration files help index-sanity-check key-decoder-class max-bytes "
    "max-message-size value-decoder-class offsets-decoder print-data-log "
    "remote-log-metadata-decoder share-group-state-decoder skip-record-metadata transaction-log-decoder "
    "verify-index-only",
    "quorum": "bootstrap-controller bootstrap-server command-config describe help human-readable replication status",
    "features": "bootstrap-controller bootstrap-server command-config dry-run feature help metadata release-version "
    "unsafe",
}
# Tools whose flags are answered as those of another command here.
ELSEWHERE = {
    "client-metrics": "configs",
    "get-offsets": "topics",
    "share-groups": "groups",
    "streams-groups": "groups",
}


def options(words):
    app = build(words, words[0])
    for word in words:
        app = app[word]
    return {name for argument in app.assemble_argument_collection() for name in argument.names}


OWN = {words: options(words) for words, *_ in COMMANDS if words[0] in ANSWERS}


@pytest.mark.parametrize("noun", FLAGS)
def test_flag_is_an_option_or_answered(noun):
    here = ELSEWHERE.get(noun, noun)
    own = set.union({"--help"}, *(names for words, names in OWN.items() if words[0] == here))
    flags = {f"--{name}" for name in FLAGS[noun].split()}
    assert {flag for flag in flags - own if answer(noun, flag) is None} == set()


@pytest.mark.parametrize("noun", KAFKAS_COMMANDS)
def test_command_of_kafka_exists_or_is_answered(noun):
    own = {words[1] for words, *_ in COMMANDS if words[0] == noun}
    asked = KAFKAS_COMMANDS[noun].split()
    assert [word for word in asked if word not in own and answer(noun, word) is None] == []


def test_every_script_of_kafka_is_answered():
    assert [name for name in SCRIPTS.split() if answer_for_tool(f"{name}.sh", []) is None] == []
    assert answer_for_tool("topcs", []) is None


def test_answers_name_commands_that_exist():
    said = [use for told in ANSWERS.values() for use in told.values()]
    said += [tool.use for tool in TOOLS.values()]
    nouns = {words[0] for words, *_ in COMMANDS}
    assert {noun for use in said for noun in re.findall(r"trimaran ([a-z][a-z-]+)", use)} <= nouns
    verbs = {words[:2] for words, *_ in COMMANDS if len(words) > 1}
    used = [
        found.groups()
        for use in said
        if (found := re.match(r"use trimaran ([a-z-]+) ([a-z-]+)", use))
    ]
    assert len(used) > len(TOOLS)
    assert set(used) <= verbs


@pytest.mark.parametrize(
    ("line", "fix"),
    [
        ("share-groups --list", "use trimaran groups list --type share"),
        ("kafka-share-groups.sh", "use trimaran groups list --type share"),
        ("kafka-share-groups.sh --group g --describe", "use trimaran groups describe GROUP"),
        (
            "bin/kafka-topics.sh --bootstrap-server=a:1 --topic t --create",
            "use trimaran topics create",
        ),
        ("kafka-console-consumer.bat --topic t", "use trimaran consume TOPIC"),
        ("kafka-configs.sh --entity-type topics", "use trimaran configs get or set TYPE/NAME"),
        ("kafka-cluster.sh cluster-id --config f", "use trimaran quorum status"),
        ("metadata-quorum describe --replication", "use trimaran quorum status"),
        ("quorum describe --status", "use trimaran quorum status"),
        ("quorum --bootstrap-controller a:1 --replication", "use trimaran quorum replication"),
        ("features --describe", "use trimaran features list"),
        ("configs --bootstrap-server a:1 --entity-type topics", "a resource is written TYPE/NAME"),
        ("configs describe topic/t", "use trimaran configs get TYPE/NAME"),
        ("storage version-mapping", "use trimaran storage format --dry-run --release-version"),
    ],
)
def test_word_of_kafka_is_answered(line, fix, capsys):
    with pytest.raises(SystemExit):
        run(line.split())
    assert f"fix: {fix}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("configs unset topic/t retention.ms", "did you mean delete?"),
        ("configs remove topic/t retention.ms", "did you mean delete?"),
        ("configs add topic/t retention.ms=1", "did you mean set?"),
        ("users delete u", "did you mean remove?"),
        ("acls show", "did you mean list?"),
        ("groups show", "did you mean list or describe?"),
        ("topics del t", "did you mean delete?"),
        ("configs st topic/t", "did you mean set?"),
        ("topics fly t", "the commands are list, create, describe, alter, delete"),
    ],
)
def test_word_for_same_action_is_suggested(line, why, capsys):
    with pytest.raises(SystemExit):
        run(line.split())
    assert f"why: {why}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "fix"),
    [
        ("groups delete-offsets g --topic t --all-topics", "that is the default"),
        (
            "groups delete-offsets --topic t",
            "name one or more; trimaran groups list shows all groups",
        ),
        (
            "configs history --bootstrap-controller a:1 --zookeeper a:1",
            "this request goes to brokers: use -b",
        ),
        ("topics create --config a=b", "trimaran topics create --help explains it"),
        ("consume --from-beginnin t", "trimaran consume --help explains it"),
    ],
)
def test_own_option_is_not_answered(line, fix, capsys):
    with pytest.raises(SystemExit):
        run(line.split())
    assert f"fix: {fix}" in capsys.readouterr().err
