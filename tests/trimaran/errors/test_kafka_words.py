"""Each flag of Kafka's tools is an option here, or is answered."""

import pytest

from trimaran.cli.app import build, run
from trimaran.cli.commands import COMMANDS
from trimaran.errors.kafka_words import ANSWERS, answer

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
}


def options(words):
    app = build(words, words[0])
    for word in words:
        app = app[word]
    return {name for argument in app.assemble_argument_collection() for name in argument.names}


OWN = {words: options(words) for words, *_ in COMMANDS if words[0] in ANSWERS}


@pytest.mark.parametrize("noun", FLAGS)
def test_flag_is_an_option_or_answered(noun):
    own = set.union({"--help"}, *(names for words, names in OWN.items() if words[0] == noun))
    flags = {f"--{name}" for name in FLAGS[noun].split()}
    assert {flag for flag in flags - own if answer(noun, flag) is None} == set()


@pytest.mark.parametrize(
    ("line", "fix"),
    [
        ("groups delete-offsets g --topic t --all-topics", "that is the default"),
        ("groups delete-offsets --topic t", "trimaran groups delete-offsets --help explains it"),
        ("configs history --bootstrap-controller a:1 --zookeeper a:1", "brokers are asked: use -b"),
        ("topics create --config a=b", "trimaran topics create --help explains it"),
        ("consume --from-beginnin t", "trimaran consume --help explains it"),
    ],
)
def test_own_option_is_not_answered(line, fix, capsys):
    with pytest.raises(SystemExit):
        run(line.split())
    assert f"fix: {fix}" in capsys.readouterr().err
