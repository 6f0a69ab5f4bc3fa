"""`partitions list|elect-leader`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from trimaran.cli.connect import BROKERS, Brokers
from trimaran.cli.output import Format, say, show_rows
from trimaran.client.connect import check
from trimaran.errors import Exit

if TYPE_CHECKING:
    from wire.blocking import BlockingClient
    from wire.messages.metadata import MetadataResponseTopic

TIMEOUT_MS = 30_000
COLUMNS = ("topic", "partition", "leader", "replicas", "isr")
Row = Mapping[str, Any]
Test = Callable[[Row], bool]


def list_partitions(
    *,
    topic: Annotated[list[str] | None, Parameter(name=["-t", "--topic"])] = None,
    under_replicated: bool = False,
    offline: bool = False,
    at_min_isr: bool = False,
    under_min_isr: bool = False,
    not_preferred: bool = False,
    brokers: Brokers = BROKERS,
    output: Format = "table",
) -> int:
    """Lists partitions, all or those that need a look; exit code 1 when some do that were asked for."""
    tests = (
        (under_replicated, is_under_replicated),
        (offline, is_offline),
        (at_min_isr, is_at_min_isr),
        (under_min_isr, is_under_min_isr),
        (not_preferred, is_not_preferred),
    )
    wanted = [test for given, test in tests if given]
    with brokers.connected() as client:
        rows = partitions_of(client, topics_of(client, topic), wanted)
    show_rows(rows, output, columns=COLUMNS)
    return Exit.NO if wanted and rows else Exit.OK


def topics_of(
    client: BlockingClient, names: Sequence[str] | None
) -> Sequence[MetadataResponseTopic]:
    """What the brokers know of the topics named, None: of all; errors are in it."""
    from wire.messages.metadata import MetadataRequest, MetadataRequestTopic

    named = None if names is None else [MetadataRequestTopic(name=name) for name in names]
    answer = client.call(None, MetadataRequest(topics=named, allow_auto_topic_creation=False))
    topics: Sequence[MetadataResponseTopic] = answer.topics
    return topics


def partitions_of(
    client: BlockingClient, topics: Sequence[MetadataResponseTopic], wanted: Sequence[Test]
) -> list[dict[str, Any]]:
    """See `rows_of`."""
    for one in topics:
        check(one.error_code, one.name)
    minimums: dict[str, int] = {}
    if is_at_min_isr in wanted or is_under_min_isr in wanted:
        minimums = _min_insync_replicas(client, [one.name or "" for one in topics])
    return rows_of(topics, wanted, minimums)


def _min_insync_replicas(client: BlockingClient, topics: Sequence[str]) -> dict[str, int]:
    from quorum.metadata.image import TOPIC_RESOURCE
    from wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

    if not topics:
        return {}
    asked = [
        DescribeConfigsResource(
            resource_type=TOPIC_RESOURCE,
            resource_name=name,
            configuration_keys=["min.insync.replicas"],
        )
        for name in topics
    ]
    found = {}
    for result in client.call(None, DescribeConfigsRequest(resources=asked)).results:
        check(result.error_code, result.error_message)
        found[result.resource_name] = int(result.configs[0].value)
    return found


def rows_of(
    topics: Sequence[MetadataResponseTopic],
    wanted: Sequence[Test],
    minimums: Mapping[str, int] | None = None,
) -> list[dict[str, Any]]:
    """A row of each partition for which any of `wanted` holds, or of all. `minimums`: min.insync.replicas by topic,
    where that is asked.
    """
    rows = [
        {
            "topic": topic.name,
            "partition": one.partition_index,
            "leader": one.leader_id,
            "replicas": list(one.replica_nodes),
            "isr": list(one.isr_nodes),
            "min_isr": (minimums or {}).get(topic.name or ""),
        }
        for topic in sorted(topics, key=lambda topic: topic.name or "")
        for one in sorted(topic.partitions, key=lambda one: one.partition_index)
    ]
    return [row for row in rows if not wanted or any(test(row) for test in wanted)]


def is_under_replicated(row: Row) -> bool:
    return len(row["isr"]) < len(row["replicas"])


def is_offline(row: Row) -> bool:
    return bool(row["leader"] < 0)


def _min_isr(row: Row) -> int:
    """More than there are replicas cannot be wanted, as Kafka counts it."""
    return min(int(row["min_isr"]), len(row["replicas"]))


def is_at_min_isr(row: Row) -> bool:
    return len(row["isr"]) == _min_isr(row)


def is_under_min_isr(row: Row) -> bool:
    return len(row["isr"]) < _min_isr(row)


def is_not_preferred(row: Row) -> bool:
    return bool(row["leader"] >= 0 and row["leader"] != row["replicas"][0])


def elect_leader(
    topic: str | None = None,
    partition: Annotated[list[int] | None, Parameter(name=["-p", "--partition"])] = None,
    *,
    unclean: bool = False,
    brokers: Brokers = BROKERS,
) -> int:
    """Elects preferred leaders, of one topic or of all.

    `--unclean`: any replica where there is no leader, at the price of records.
    """
    from wire.client.answers import the_one
    from wire.errors import ErrorCode
    from wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions

    asked = None
    with brokers.connected() as client:
        if topic is not None:
            found = the_one(topics_of(client, [topic]), "topic")
            check(found.error_code, topic)
            indexes = partition or sorted(one.partition_index for one in found.partitions)
            asked = [TopicPartitions(topic=topic, partitions=indexes)]
        answer = client.call(
            None,
            ElectLeadersRequest(
                election_type=int(unclean), topic_partitions=asked, timeout_ms=TIMEOUT_MS
            ),
        )
    check(answer.error_code, None)
    failed = False
    for result in answer.replica_election_results:
        for one in result.partition_result:
            code = ErrorCode.of(one.error_code)
            if code is ErrorCode.ELECTION_NOT_NEEDED:
                continue
            failed = failed or code is not ErrorCode.NONE
            said = "elected" if code is ErrorCode.NONE else one.error_message or code.name
            say(f"{result.topic}-{one.partition_id}: {said}")
    return Exit.NO if failed else Exit.OK
