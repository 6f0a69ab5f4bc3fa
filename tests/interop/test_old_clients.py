"""Unmodified Java clients of Kafka 0.8.2 to 3.9 on our brokers: all of them read the records that each sends."""

import pytest

from tests.interop import old_clients

CODECS = ["none", "gzip", "snappy", "lz4"]
TOPIC = "old-clients"
LINES = 25


def lines_of(version, codec):
    return [
        f"{version}-{codec}-{i}:value {i} of {version} by {codec} {'x' * 40}" for i in range(LINES)
    ]


@pytest.fixture(scope="module")
def produced(ours):
    """Sends lines with every version and every codec into one partition; returns all lines."""
    ours.run("topics", "create", TOPIC, "--partitions", "1")
    expected = []
    for version in old_clients.VERSIONS:
        for codec in CODECS:
            lines = lines_of(version, codec)
            old_clients.produce(version, ours.bootstrap, TOPIC, codec, "\n".join(lines) + "\n")
            expected += lines
    return expected


@pytest.mark.client("Java", "records")
@pytest.mark.parametrize("version", old_clients.VERSIONS)
def test_each_version_reads_what_all_versions_sent(ours, produced, version):
    found = old_clients.consume(version, ours.bootstrap, ours.zookeeper, TOPIC, len(produced))
    assert found == produced


@pytest.mark.client("Java", "records", version="0.8.2.2")
@pytest.mark.parametrize("codec", CODECS)
def test_java_producer_of_0_8_is_served(ours, codec):
    topic = f"java-producer-of-0.8-{codec}"
    lines = lines_of("0.8.2.2", codec)
    arguments = ("0.8.2.2", ours.bootstrap, topic, codec, "\n".join(lines) + "\n", "--new-producer")
    old_clients.produce(*arguments)
    found = old_clients.consume("0.9.0.1", ours.bootstrap, ours.zookeeper, topic, LINES)
    assert found == lines


@pytest.mark.client("Java", "classic groups")
@pytest.mark.parametrize("version", ["0.10.2.2", "0.11.0.3", "1.1.1", "2.8.2", "3.9.1"])
def test_group_continues_at_its_committed_offset(ours, produced, version, tmp_path):
    settings = tmp_path / "consumer.properties"
    settings.write_text(f"group.id=old-{version}\nmax.poll.records=10\n")
    seen = []
    for _ in range(2):
        more = ("--consumer.config", str(settings))
        seen += old_clients.consume(version, ours.bootstrap, "", TOPIC, 100, *more)
    assert seen == produced[:200]


@pytest.mark.client("Java", "offsets")
@pytest.mark.parametrize(
    "version", ["0.8.2.2", "0.9.0.1", "0.10.2.2", "0.11.0.3", "1.1.1", "2.8.2"]
)
def test_old_clients_list_partition_offsets(ours, produced, version):
    for time, offset in [("-1", len(produced)), ("-2", 0)]:
        arguments = ("--broker-list", ours.bootstrap, "--topic", TOPIC, "--time", time)
        printed = old_clients.run(version, "kafka.tools.GetOffsetShell", *arguments)
        assert f"{TOPIC}:0:{offset}" in printed.splitlines()
