"""Our source returns the rows of Spark's own Kafka connector for each option, on Apache Kafka and on our cluster, with
aborted transactions.
"""

import json
import subprocess
import sys

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewTopic

from tests.cluster.processes import until
from tests.librdkafka import AdminClient, Producer

TOPIC, PARTITIONS = "beside-the-connector", 3
START = 1_700_000_000_000
LATE = (
    START + 9_999_999
)  # later than the records with times of their own, and earlier than the markers
NEVER = 4_102_444_800_000  # in the year 2100
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
EACH = 300
READ_COMMITTED = {"kafka.isolation.level": "read_committed"}


def offsets(*numbers):
    return json.dumps({TOPIC: {str(i): number for i, number in enumerate(numbers)}})


CASES = {
    "all": {},
    "an end beyond the log, without fail": {
        "endingOffsets": offsets(9000, -1, 90_000),
        "failOnDataLoss": "false",
    },
    "a start at its end": {
        "startingOffsets": offsets(100, -2, -2),
        "endingOffsets": offsets(100, 50, -1),
    },
    "edges in capitals": {"startingOffsets": "EARLIEST", "endingOffsets": "Latest"},
    "headers": {"includeHeaders": "true"},
    "pattern": {"subscribePattern": "beside.*"},
    "assign": {"assign": json.dumps({TOPIC: [0, 2]})},
    "offsets": {"startingOffsets": offsets(7, -2, 100), "endingOffsets": offsets(400, 33, -1)},
    "from an offset, in many tasks": {"startingOffsets": offsets(50, 60, -2), "minPartitions": "9"},
    "times": {"startingTimestamp": str(START + 400), "endingTimestamp": str(START + 900)},
    "times by partition": {
        "startingOffsetsByTimestamp": offsets(START + 100, START + 200, START),
        "endingOffsetsByTimestamp": offsets(START + 1000, START + 700, START + 9_999_999),
    },
    "a time that no record has reached": {
        "startingOffsetsByTimestamp": offsets(START + 9_999_999, START + 300, START),
        "startingOffsetsByTimestampStrategy": "latest",
    },
}
COMMITTED_CASES = {
    "committed": READ_COMMITTED,
    "committed, in many tasks": {**READ_COMMITTED, "minPartitions": "12", "includeHeaders": "true"},
    "committed, from inside a transaction": {
        **READ_COMMITTED,
        "startingOffsets": offsets(1503 // 3, -2, 510),
    },
    # Two records and the markers of all transactions have the time of the test.
    "a time that only markers have in some partitions": {"startingTimestamp": str(LATE)},
}


LENIENT = {"failOnDataLoss": "false"}
FROM_400, TO_33 = {"startingOffsets": offsets(400, -2, -2)}, {"endingOffsets": offsets(33, -1, -1)}
BEYOND = {"startingOffsets": offsets(9000, -2, -2)}
# Options that both sources refuse, each with a part of our error text.
REFUSED = {
    "a start above its end": ({**FROM_400, **TO_33}, "behind offset 33, where endingOffsets ends"),
    "the same, without fail": ({**FROM_400, **TO_33, **LENIENT}, "behind offset 33"),
    "a start beyond the log": (BEYOND, "begins at offset 9000, behind offset"),
    "the same, without fail ": ({**BEYOND, **LENIENT}, "begins at offset 9000, behind offset"),
    "both beyond the log": (
        {**BEYOND, "endingOffsets": offsets(9001, -1, -1)},
        "9000 is outside of them",
    ),
    "an end beyond the log": ({"endingOffsets": offsets(9000, -1, -1)}, "9000 is outside of them"),
    "a time above its end": (
        {"startingTimestamp": str(START + 900), "endingTimestamp": str(START + 400)},
        "where endingTimestamp ends",
    ),
    "times above their ends": (
        {
            "startingOffsetsByTimestamp": offsets(START, START + 2, START),
            "endingOffsetsByTimestamp": offsets(LATE, START + 1, LATE),
        },
        f"startingOffsetsByTimestamp {START + 2} is later than",
    ),
    "times behind all records": (
        {
            "startingOffsetsByTimestamp": offsets(LATE + 1, START, START),
            "endingOffsetsByTimestamp": offsets(LATE, LATE, LATE),
            "startingOffsetsByTimestampStrategy": "latest",
        },
        f"{LATE + 1} is later than endingOffsetsByTimestamp {LATE}",
    ),
    "a time behind an offset": ({"startingTimestamp": str(START + 900), **TO_33}, "behind offset 33"),
    "an offset behind a time": ({**FROM_400, "endingTimestamp": str(START + 300)}, "endingTimestamp ends"),
    "a time that no record has": ({"startingTimestamp": str(NEVER)}, f"no record of {NEVER} ms or later"),
    "an offset below -2": ({"startingOffsets": offsets(-3, -2, -2)}, "option startingOffsets"),
    "an end below -2": ({"endingOffsets": offsets(-3, -1, -1)}, "option endingOffsets"),
    "a start at the latest": ({"startingOffsets": "latest"}, "'latest' is not earliest"),
    "one start at the latest": ({"startingOffsets": offsets(-1, -2, -2)}, "option startingOffsets"),
    "an end at the earliest": ({"endingOffsets": "earliest"}, "'earliest' is not latest"),
    "one end at the earliest": ({"endingOffsets": offsets(-2, -1, -1)}, "option endingOffsets"),
    "a time before 1970": ({"startingTimestamp": "-5"}, "milliseconds since 1970"),
    "a partition left out": ({"startingOffsets": offsets(1, 2)}, f"{TOPIC}-2 is missing"),
    "an end left out": ({"endingOffsets": offsets(1, 2)}, f"{TOPIC}-2 is missing"),
    "a time left out": ({"startingOffsetsByTimestamp": offsets(START)}, f"{TOPIC}-1, {TOPIC}-2 are missing"),
    "an unknown partition": ({"startingOffsets": offsets(1, 2, 3, 4)}, f"{TOPIC}-3 is not among"),
    "an unknown partition's end": ({"endingOffsets": offsets(1, 2, 3, 4)}, f"{TOPIC}-3 is not among"),
    "an unknown partition's time": (
        {"endingOffsetsByTimestamp": offsets(LATE, LATE, LATE, LATE)},
        f"{TOPIC}-3 is not among",
    ),
    "a topic that is not subscribed": (
        {"startingOffsets": json.dumps({**json.loads(offsets(1, 2, 3)), "u": {"0": 1}})},
        "u-0 is not among",
    ),
    "another partition than assigned": (
        {"assign": json.dumps({TOPIC: [0]}), "startingOffsets": offsets(1, 2)},
        f"{TOPIC}-1 is not among",
    ),
    "no offsets": ({"startingOffsets": "{}"}, "option startingOffsets"),
    "no JSON": ({"startingOffsets": "soon"}, "option startingOffsets"),
    "an offset as text": ({"startingOffsets": f'{{"{TOPIC}":{{"0":"5"}}}}'}, "option startingOffsets"),
    "an unknown topic": ({"subscribe": "absent"}, "there is no absent"),
    "an unknown topic among others": ({"subscribe": f"{TOPIC},absent"}, "there is no absent"),
    "no topic": ({"subscribe": " , "}, "topics parted by commas"),
    "no pattern": ({"subscribePattern": " "}, "regular expression"),
    "two choices of topics": (
        {"subscribePattern": ".*", "assign": json.dumps({TOPIC: [0]})},
        "only one of assign, subscribe and subscribePattern",
    ),
    "no JSON of partitions": ({"assign": TOPIC}, "option assign"),
    "no task": ({"minPartitions": "0"}, "option minPartitions"),
}  # fmt: skip
# Options that only our source refuses: the connector reads the other partitions, or takes the wrong time for the end.
ONLY_OURS = {
    "an unknown partition assigned": ({"assign": json.dumps({TOPIC: [0, 7]})}, f"there is no {TOPIC}-7"),
    "a start beyond the log, in many tasks": ({**BEYOND, "minPartitions": "9"}, "behind offset"),
    "an end before 1970": ({"endingTimestamp": "-5"}, "milliseconds since 1970"),
}  # fmt: skip


def fill(bootstrap):
    admin = AdminClient({"bootstrap.servers": bootstrap})
    # The records have old timestamps, so retention would delete them during the test.
    config = {"segment.bytes": str(1 << 20), "retention.ms": "-1"}
    topic = NewTopic(TOPIC, PARTITIONS, 2, config=config)
    admin.create_topics([topic])[TOPIC].result(60)
    until(lambda: TOPIC in admin.list_topics(timeout=20).topics, "the topic is known")
    number = 0
    for codec in CODECS:
        producer = Producer(
            {"bootstrap.servers": bootstrap, "compression.type": codec, "acks": "all"}
        )
        for _ in range(EACH):
            producer.produce(
                TOPIC,
                None if number % 50 == 7 else f"{codec} {number} ".encode() * (number % 7),
                None if number % 5 == 0 else f"key {number % 100}".encode(),
                partition=number % PARTITIONS,
                timestamp=START + number,
                headers=[("h", b"x"), ("null", None)] if number % 3 == 0 else None,
            )
            number += 1
        assert producer.flush(60) == 0


def commit_and_abort(bootstrap):
    """Writes pairs of interleaved transactions, and one that stays open."""
    producers = []
    for name in ("a", "b", "open"):
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": f"connector-{name}",
                "transaction.timeout.ms": 900_000,  # one stays open during the comparison
            }
        )
        producer.init_transactions(60)
        producers.append(producer)
    first, second, last = producers
    for turn in range(6):
        for producer in (first, second):
            producer.begin_transaction()
            for i in range(9):
                producer.produce(
                    TOPIC, b"t%d" % i, partition=i % PARTITIONS, timestamp=START + 5000
                )
            producer.flush(60)
        ends = (Producer.commit_transaction, Producer.abort_transaction)
        ends[turn % 2](first)
        ends[turn % 3 == 0](second)
    last.begin_transaction()
    last.produce(TOPIC, b"undecided", partition=1)
    last.flush(60)
    first.begin_transaction()
    first.produce(TOPIC, b"behind", partition=1)
    first.flush(60)
    first.commit_transaction()
    return last


def compared(bootstrap, directory, cases):
    command = [sys.executable, "-m", "tests.interop.spark_connector", bootstrap, TOPIC]
    given = [{"name": name, "options": options} for name, options in cases.items()]
    done = subprocess.run(
        [*command, *([str(directory)] if directory else [])],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=False,
        timeout=1500,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-5000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def assert_equal(found, count):
    assert len(found) == count
    for item in found:
        assert item["rows"] > 0, item
        assert item["columns"], item
        assert (item["only_theirs"], item["only_ours"]) == (0, 0), item


def test_on_apache_kafka(kafka):
    fill(kafka.bootstrap)
    undecided = commit_and_abort(kafka.bootstrap)
    found = compared(kafka.bootstrap, kafka.directory, {**CASES, **COMMITTED_CASES})
    assert_equal(found, 2 * (len(CASES) + len(COMMITTED_CASES)))
    rows = {item["case"]: item["rows"] for item in found}
    assert (
        rows["committed"] < rows["all"] - 12
    )  # besides markers, aborted and undecided records are omitted
    undecided.abort_transaction()


@pytest.mark.parametrize("cases", [CASES], ids=["all"])
def test_on_ours(ours, cases):
    fill(ours.bootstrap)
    assert_equal(compared(ours.bootstrap, None, cases), len(cases))


def assert_refused(bootstrap, directory):
    cases = {**REFUSED, **ONLY_OURS}
    found = compared(bootstrap, directory, {name: options for name, (options, _) in cases.items()})
    assert len(found) == len(cases) * (1 if directory is None else 2)
    for item in found:
        assert cases[item["case"]][1] in (item["ours"] or ""), item
        assert (item["theirs"] is None) == (item["case"] in ONLY_OURS), item


def test_both_refuse_the_same_bounds(kafka, ours):
    """The topic is that of the tests above."""
    assert_refused(kafka.bootstrap, kafka.directory)
    assert_refused(ours.bootstrap, None)


def test_offsets_are_known_to_be_those_of_kafka(kafka):
    """The compared end offsets are those of the cluster; otherwise two empty frames would be equal."""
    from tests.librdkafka import Consumer

    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "none"})
    ends = [consumer.get_watermark_offsets(TopicPartition(TOPIC, p)) for p in range(PARTITIONS)]
    consumer.close()
    assert all(high > 500 for _, high in ends)
