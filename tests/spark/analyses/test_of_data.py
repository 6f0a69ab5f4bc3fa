"""D1 to D14 on data with known properties."""

import random
from datetime import UTC, datetime

import pytest

from tests.spark.analyses.given import analysed, at
from trimaran.spark.analyses.records import key_skew

pytestmark = pytest.mark.filterwarnings("ignore")

LONG_NAME = "n" * 249


def test_throughput_counts_records_by_topic(engine):
    batches = [("orders", i % 2, 10, 100, at(i)) for i in range(100)]
    batches += [(f"{LONG_NAME[:-3]}{i:03}", 0, 1, 10, at(i % 100)) for i in range(200)]
    told = analysed(engine, "throughput", batches=batches)
    assert "1,200 records" in told.text
    assert "in 202 partitions of 201 topics" in told.text
    assert "12 records in the busiest second" in told.text
    topics = {row["topic"] for row in told.rows("topic")}
    assert len(topics) == 10  # nine topics and the rest, with a colour for each
    assert sum(row["records"] for row in told.rows("topic")) == 1200


def test_wrong_clock_is_omitted_from_throughput_figure(engine):
    batches = [("orders", 0, 1, 10, at(i)) for i in range(100)]
    batches.append(("orders", 0, 7, 10, at(300_000_000)))
    told = analysed(engine, "throughput", batches=batches)
    assert "107 records" in told.text
    assert "over 100.0 s" in told.text
    assert "7 records are not in the figure" in told.text


def test_throughput_counts_records_from_1970(engine):
    batches = [("orders", 0, 1, 10, at(i)) for i in range(100)]
    batches += [("orders", 0, 1, 10, datetime(1970, 1, 1, 0, 0, i, tzinfo=UTC)) for i in range(50)]
    told = analysed(engine, "throughput", batches=batches)
    assert "over 99.5 s" in told.text  # buckets of half a second
    assert "50 records are not in the figure" in told.text
    told = analysed(engine, "throughput", batches=batches[100:])
    assert "over 49.5 s" in told.text  # records with an unset clock count like any others


def test_throughput_of_one_record_needs_no_rate(engine):
    told = analysed(engine, "throughput", batches=[("orders", 0, 1, 10, at(0))])
    assert "1 record (10 B stored) in 1 partition of 1 topic" in told.text


def test_skew_names_the_largest_partition(engine):
    batches = [("orders", 0, 90, 900), ("orders", 1, 10, 100)]
    history = [("orders", i, None, "ok") for i in range(4)]
    told = analysed(engine, "partition_skew", batches=batches, partition_history=history)
    assert "orders-0 holds 3.60 × the mean of its topic" in told.text
    assert "2 of its 4 partitions are empty" in told.text
    assert told.rows()[0]["gini"] == pytest.approx(0.7)
    assert len(analysed(engine, "partition_skew", batches=batches).rows()) == 2


def test_keys_are_counted_and_shortened(engine):
    records = [(b"hot", "orders", 0)] * 50 + [
        (f"k{i}".encode(), "orders", i % 3) for i in range(40)
    ]
    records += [(b"k0", "orders", 2), (None, "orders", 0), (b"\xff\x00", "orders", 0)]
    told = analysed(engine, "key_skew", records=records)
    assert "the heaviest key, hot of orders, has 53.8 %" in told.text
    assert "1 key of orders in more than one partition" in told.text
    first = told.rows()[0]
    assert (first["distinct_keys"], first["null_keys"]) == (42, 1)
    names = [b"", "müßig".encode(), b"a\n", b"x" + "é".encode() * 25]
    told = analysed(engine, "key_skew", records=[(name, "t", 0) for name in (*names, None)])
    keys = {row["key"] for row in told.rows()}
    assert keys == {"(empty key)", "müßig", "0x610A", "x" + "é" * 19 + "…"}
    assert "t: (no key)" in key_skew.plot(told.frame).data[0].y
    long = [(b"k" * 40 + bytes([65 + i]), "orders", 0) for i in range(5)]
    told = analysed(engine, "key_skew", records=long)
    assert {row["key"] for row in told.rows()} == {"k" * 40 + "…"}
    [drawn] = key_skew.plot(told.frame).data
    assert len(set(drawn.y)) == 5  # each key has its own bar
    assert (
        "not applicable: no record has a key"
        in analysed(engine, "key_skew", records=[(None, "t", 0)]).text
    )


def test_compression_ratios_are_estimated_by_codec(engine):
    text = b'{"user": "somebody", "action": "click", "page": "/index.html"}'
    records = [(None, text, "orders", 0, i) for i in range(600)]
    records += [(None, random.Random(1).randbytes(200), "noise", 0, i) for i in range(50)]
    batches = [("orders", 0, 599, "none", 40_000, 600), ("noise", 0, 49, "none", 12_000, 50)]
    told = analysed(engine, "compression", batches=batches, records=records)
    ratios = {(row["topic"], row["codec"]): row["ratio"] for row in told.rows()}
    assert ratios["orders", "none"] == 1.0
    assert ratios["orders", "zstd"] < 0.05
    assert len(ratios) == 10
    assert "% of what it takes uncompressed (sample of 500 records)" in told.text
    sampled = {row["topic"]: row["sampled_records"] for row in told.rows()}
    assert sampled == {"orders": 500, "noise": 50}


def test_batch_sizes_are_averaged(engine):
    told = analysed(engine, "batch_sizes", batches=[("zstd", 1, 80)] * 9 + [("none", 100, 8000)])
    assert "10.9 records each on average (none, zstd)" in told.text


def test_impossible_and_late_timestamps_are_counted(engine):
    batches = [("orders", 0, i, 1, at(i), 0) for i in range(50)]
    batches.append(("orders", 0, 50, 3, at(-300), 0))
    batches.append(("odd", 0, 0, 2, at(2_000_000_000), 0))
    batches.append(("odd", 0, 1, 4, at(-1_767_000_000), 0))
    told = analysed(engine, "timestamps", batches=batches)
    assert "6 records in the future, before 2000 or without a time, most in odd" in told.text
    assert "more than a minute behind earlier ones" in told.text
    odd = told.rows()[0]
    assert (odd["topic"], odd["future"], odd["far_past"]) == ("odd", 2, 4)
    orders = told.rows()[1]
    assert (orders["late"], orders["late_max_seconds"]) == (3, 349.0)


def batch(offset, count, producer, epoch, sequence, *, second=0, topic="orders"):
    place = (topic, 0, offset, offset + count - 1, producer, epoch, sequence)
    return (*place, count, at(second), False)


def test_gaps_and_repeats_of_producers_are_found(engine):
    batches = [
        batch(0, 5, 7, 0, 0),
        batch(5, 5, 7, 0, 5),
        batch(10, 5, 7, 0, 20),  # ten are missing
        batch(15, 5, 7, 0, 20),  # again
        batch(20, 5, 7, 1, 0),  # the next epoch
        batch(25, 75, -1, -1, -1),
        batch(100, 10, 8, 0, (1 << 31) - 10),
        batch(110, 10, 8, 0, 0),  # sequences begin again
    ]
    told = analysed(engine, "producer_anomalies", batches=batches)
    assert "1 × gap, 1 × repeat" in told.text
    assert (
        "62.5 % of the records come from producers that are not idempotent; 1 take-over"
        in told.text
    )


def test_duplicate_batches_are_found(engine):
    batches = [("orders", 0, 7, 0, 0, 5, False), ("orders", 0, 7, 0, 0, 5, False)]
    batches += [("orders", 1, 7, 0, 0, 5, False), ("orders", 0, -1, -1, -1, 9, False)]
    records = [(b"k", b"v", "orders")] * 3 + [(None, b"v", "orders"), (b"", b"v", "orders")]
    told = analysed(engine, "duplicates", batches=batches, records=records)
    assert "1 batch twice in a partition" in told.text
    [row] = told.rows()
    assert (row["repeated_records"], row["same_content"]) == (5, 2)


def test_transactions_are_counted_by_outcome(engine):
    def step(offset, second, id_, state, *, start=None, timeout=60_000, is_open=False):
        place = (offset, at(second), id_, 1, 0, state, timeout, ["t-0", "t-1"])
        return (*place, None if start is None else at(start), at(second), is_open)

    rows = [
        step(0, 0, "a", "Ongoing", start=0, is_open=True),
        step(1, 1, "a", "PrepareCommit", start=0, is_open=True),
        step(2, 2, "a", "CompleteCommit"),
        step(3, 3, "b", "Ongoing", start=3, is_open=True),
        step(4, 4, "b", "CompleteAbort"),
        step(5, 5, "stuck", "Ongoing", start=5, is_open=True),
        step(6, 100, "a", "Empty"),
    ]
    told = analysed(engine, "open_transactions", transactions=rows)
    assert "2 transactions of 3 ids ended, 50 % aborted" in told.text
    assert (
        "1 transaction open at the end of the log; stuck for 95.0 s (Ongoing, 2 partitions)"
        in told.text
    )
    assert "beyond its own timeout" in told.text
    ended = {row["state"]: row["seconds"] for row in told.rows("ended")}
    assert ended == {"CompleteCommit": 2.0, "CompleteAbort": 1.0}


def test_lag_is_listed_and_drawn_by_group(engine):
    batches = [("orders", p, 10 * i + 9, at(i * 10)) for p in (0, 1) for i in range(20)]
    commits = []
    for i in range(19):
        commits.append((2 * i, at(i * 10 + 1), "g", "orders", 0, 10 * i, at(i * 10 + 1)))
        stuck = min(10 * i, 50)
        commits.append((2 * i + 1, at(i * 10 + 1), "g", "orders", 1, stuck, at(i * 10 + 1)))
    commits.append((99, at(5), "gone", "orders", 0, None, None))
    commits.append(
        (100, at(5), "reset", "orders", 0, -2, at(5))
    )  # to the earliest offset, as KafkaJS sends it
    told = analysed(engine, "consumer_lag", group_offsets=commits, batches=batches)
    now = {(row["group"], row["partition"]): row for row in told.rows("now")}
    assert {key: row["lag"] for key, row in now.items()} == {("g", 0): 20, ("g", 1): 150}
    assert now["g", 1]["still_seconds"] == 130.0
    assert "170 records in 1 group; the most, 150, g on orders-1" in told.text
    assert (
        "Stuck: 1 partition with a lag and without new commits: g on orders-1 for 2.2 min"
        in told.text
    )
    history = told.frame[told.frame["kind"] == "history"].sort_values("ts")
    assert history["lag"].iloc[-1] == 170
    assert history["lag"].is_monotonic_increasing or history["lag"].max() == 170


def test_consumed_groups_have_no_lag(engine):
    batches = [("orders", 0, 9, at(0))]
    commits = [(0, at(1), "g", "orders", 0, 10, at(1))]
    told = analysed(engine, "consumer_lag", group_offsets=commits, batches=batches)
    assert told.text == "Lag: all 1 group consumed everything."


def test_lag_without_logs_is_unknown(engine):
    batches = [("orders", 0, 9, at(0))]
    commits = [(0, at(1), "g", "orders", 0, 10, at(1)), (1, at(1), "g", "gone", 0, 5, at(1))]
    told = analysed(engine, "consumer_lag", group_offsets=commits, batches=batches)
    assert "1 group consumed everything that is there" in told.text
    assert "of 1 partition with commits no records are there" in told.text
    assert told.levels == ["info", "info"]
    commits[1] = (1, at(1), "g", "empty", 0, 0, at(1))  # a partition without records
    told = analysed(engine, "consumer_lag", group_offsets=commits, batches=batches)
    assert told.levels == ["ok"]


def test_rebalances_are_counted_by_group(engine):
    rows = [
        (at(60 * i), "busy", "classic", "generation", i, members)
        for i in range(1, 21)
        for members in (2, 2)
    ]
    rows.append((at(0), "calm", "consumer", "epoch", 1, None))
    told = analysed(engine, "rebalances", group_members=rows)
    assert "21 rebalances of 2 groups; busy had the most, 20, with up to 2 members" in told.text
    assert told.levels == ["warn"]


def test_retention_is_compared_by_topic(engine):
    def segment(topic, base, end, size, records, *, active=False, cleaned=False):
        missing = end - base - records
        times = (at(base), at(end))
        return (topic, 0, 1, base, end, size, records, missing, *times, active, cleaned)

    rows = [
        segment("orders", 0, 100, 1 << 20, 100),
        segment("orders", 100, 150, 1 << 10, 50, active=True),
        segment("users", 0, 100, 100, 20, cleaned=True),
        segment("users", 100, 200, 900, 100),
        segment("users", 200, 210, 10, 10, active=True),
    ]
    told = analysed(engine, "retention", segments=rows)
    assert "in 5 segments of 2 topics; orders largest, 1.0 MiB" in told.text
    assert "took 38.1 % of the offsets of users" in told.text
    assert "behind in 1 topic; 90 % of users not cleaned" in told.text


def test_record_sizes_are_counted_by_topic(engine):
    records = [(b"k" * 10, b"v" * 90, "orders", [("h", b"x")])] * 9
    records += [(None, b"v" * (2 << 20), "orders", None), (b"k", None, "orders", None)]
    told = analysed(engine, "record_sizes", records=records)
    assert "the largest, 2.0 MiB, in orders" in told.text
    assert "9.09 % without a key, 9.09 % without a value, 81.8 % with headers" in told.text
    [topic] = told.rows("topic")
    assert (topic["records"], topic["p50"], topic["p99"]) == (11, 100, 2 << 20)
    assert [(row["bytes_from"], row["records"]) for row in told.rows("size")] == [
        (2 << 20, 1),
        (64, 9),
        (1, 1),
    ]
    assert told.levels[0] == "warn"
