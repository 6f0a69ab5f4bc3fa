"""Kafka 4.4's verifiable and console clients print the same on our brokers as on Apache Kafka's."""

import json

from tests.interop import apache_kafka


def events(text):
    """Returns names and fields of the lines of a verifiable client."""
    lines = [json.loads(line) for line in text.splitlines()]
    return sorted((line["name"], sorted(line.keys() - {"timestamp"})) for line in lines)


def test_clients_print_the_same_on_both(ours, kafka):
    said = []
    for bootstrap in (ours.bootstrap, kafka.bootstrap):
        server = ("--bootstrap-server", bootstrap)
        topic = ("--topic", "same-clients")
        apache_kafka.tool("topics", *server, "--create", *topic, "--partitions", "1")
        produced = apache_kafka.tool(
            "verifiable-producer", *server, *topic, "--max-messages", "10", "--acks", "-1"
        )
        consumed = apache_kafka.tool(
            "verifiable-consumer", *server, *topic, "--group-id", "same-clients", "--max-messages", "10"
        )  # fmt: skip
        apache_kafka.tool("console-producer", *server, *topic, stdin="one\ntwo\n")
        printed = apache_kafka.tool(
            "console-consumer", *server, *topic, "--from-beginning", "--max-messages", "12",
            "--property", "print.partition=true", "--property", "print.offset=true", "--timeout-ms", "30000",
        )  # fmt: skip
        said.append(
            (events(produced.stdout), set(map(str, events(consumed.stdout))), printed.stdout)
        )
    assert said[0] == said[1]
