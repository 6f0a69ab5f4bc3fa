"""`bench produce|consume`: measures a cluster under load, as Kafka's producer and consumer perf tests do."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from cyclopts import Parameter, validators

from trimaran.cli.app import INTERRUPTED
from trimaran.cli.connect import BROKERS, Brokers
from trimaran.cli.output import Format, say, show_data, show_fields
from trimaran.client import bench, offsets, topic_partitions
from trimaran.errors.user_error import Exit, UserError
from trimaran.log.codecs import compression as codecs_compression
from trimaran.node.text.wording import counted
from trimaran.wire import identity

REPORT_SECONDS = 1.0
POSITIVE = validators.Number(gte=1)
# The most bytes of a record in a batch besides its value: lengths and deltas.
RECORD_OVERHEAD_BYTES = 12
BATCH_BYTES = 16 * 1024  # batch.size of the Java producer
Codec = Literal["none", "gzip", "snappy", "lz4", "zstd"]
Clients = Annotated[
    int,
    Parameter(
        name=["-c", "--clients"],
        validator=validators.Number(gte=1, lte=100),
        help="Number of clients, each with one request in flight.",
    ),
]


def produce(
    topic: str,
    *,
    records: Annotated[int, Parameter(name=["-n", "--records"], validator=POSITIVE)] = 100_000,
    size: Annotated[int, Parameter(validator=validators.Number(gte=0, lte=1 << 20))] = 100,
    batch_bytes: Annotated[int, Parameter(validator=POSITIVE)] = BATCH_BYTES,
    acks: Literal["all", "1"] = "all",
    compression: Codec = "none",
    rate: Annotated[float | None, Parameter(validator=validators.Number(gt=0))] = None,
    clients: Clients = 4,
    brokers: Brokers = BROKERS,
    output: Format = "table",
) -> int:
    """Produces records as fast as the cluster takes them, or at a rate, and shows throughput and latency.

    The records stay in the topic, so use a separate one. Each second a line shows the last second. Latency is that of a
    request: from the time at which it was sent, or with --rate from the time at which it was due, to its response. 1 MB
    is 10^6 bytes of values.

    Args:
        topic: The topic to produce to; created if the brokers create topics automatically.
        records: Number of records.
        size: Bytes of each value; the values are random and do not compress.
        batch_bytes: Bytes of a batch, like batch.size; at least one record is sent.
        acks: all (all in-sync replicas have the record) or 1 (the leader has it).
        compression: Compression of the batches.
        rate: The most records per second; by default as many as the cluster takes.
    """
    with brokers.connected() as client:
        partitions = list(range(len(topic_partitions.leaders_of(client, topic, create=True))))
    batch_records = max(1, batch_bytes // (size + RECORD_OVERHEAD_BYTES))
    producing = bench.Producing(
        topic,
        size,
        batch_records,
        -1 if acks == "all" else 1,
        codecs_compression.Compression[compression.upper()],
        int(brokers.timeout * 1000),
    )
    jobs = []
    for index in range(clients):
        share = records // clients + (index < records % clients)
        mine = partitions[index % len(partitions) :: clients] or partitions
        its_rate = None if rate is None else rate / clients
        jobs.append(bench.produce(producing, brokers.connected, mine, share, its_rate))
    return _run(jobs, output, {"topic": topic, "clients": clients})


def consume(
    topic: str,
    *,
    records: Annotated[int | None, Parameter(name=["-n", "--records"], validator=POSITIVE)] = None,
    clients: Clients = 4,
    brokers: Brokers = BROKERS,
    output: Format = "table",
) -> int:
    """Consumes a topic from its start to its end as fast as the brokers serve it, and shows throughput and latency.

    Each second a line shows the last second. Latency is that of a Fetch of up to 1 MiB. 1 MB is 10^6 bytes as stored.

    Args:
        topic: The topic to consume; no offsets are committed.
        records: Stop after this many records; by default at the end of the topic.
    """
    with brokers.connected() as client:
        ranges = {
            index: (
                offsets.end_offset(client, where, offsets.EARLIEST_TIMESTAMP),
                offsets.end_offset(client, where, offsets.LATEST_TIMESTAMP),
            )
            for index in range(len(topic_partitions.leaders_of(client, topic)))
            for where in [identity.TopicPartition(topic, index)]
        }
    if all(begin >= end for begin, end in ranges.values()):
        raise UserError(
            f"topic {topic} is empty",
            "there is nothing to read",
            f"trimaran bench produce {topic} fills it",
        )
    jobs = [
        bench.consume(topic, brokers.connected, mine, records)
        for index in range(clients)
        if (mine := {p: ranges[p] for p in ranges if p % clients == index})
    ]
    return _run(jobs, output, {"topic": topic, "clients": len(jobs)})


def _run(jobs: list[Any], output: str, about: dict[str, Any]) -> int:
    load = bench.Load()
    code = int(Exit.OK)
    load.begin(jobs)
    try:
        _report_until_over(load)
    except KeyboardInterrupt:
        load.stop()
        load.wait(REPORT_SECONDS)
        code = INTERRUPTED
    if load.error is not None:
        raise load.error
    found = about | load.figures()
    if not show_data(found, output):
        latency = found.pop("latency_ms")
        show_fields(found | {f"latency_ms_{key}": value for key, value in latency.items()}, output)
    return code


def _report_until_over(load: bench.Load) -> None:
    before, size_before, began_before = 0, 0, 0.0
    while not load.wait(REPORT_SECONDS):
        now, recent = load.figures(), load.recent().as_ms()
        seconds = now["seconds"] - began_before
        each = round((now["records"] - before) / seconds)
        mb = (now["bytes"] - size_before) / 1e6 / seconds
        say(
            f"{now['seconds']:6.1f} s  {counted(each, 'record')}/s  {mb:,.1f} MB/s  "
            f"p50 {recent['p50']} ms  p99 {recent['p99']} ms"
        )
        before, size_before, began_before = now["records"], now["bytes"], now["seconds"]
