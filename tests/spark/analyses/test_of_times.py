"""Logs with missing, constant or wildly wrong times: all rows count, and no verdict is false."""

from datetime import UTC, datetime

import pandas as pd
import pytest

from tests.spark.analyses.given import analysed, at
from trimaran.spark.analyses.clients import producer_anomalies

pytestmark = pytest.mark.filterwarnings("ignore")

NONE = datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)  # -1: a record without a time
ZERO = datetime(1970, 1, 1, tzinfo=UTC)
FAR = datetime(2500, 1, 1, tzinfo=UTC)
CLOCKS = pytest.mark.parametrize("clock", [None, NONE, ZERO, FAR], ids=["-", "-1", "0", "2500"])
UNKNOWN = pytest.mark.parametrize("clock", [None, NONE, FAR], ids=["-", "-1", "2500"])


@CLOCKS
def test_throughput_without_valid_times_has_no_rate(engine, clock):
    batches = [("orders", i % 2, 10, 100, clock) for i in range(100)]
    told = analysed(engine, "throughput", batches=batches)
    assert "1,000 records (9.8 KiB stored) in 2 partitions of 1 topic" in told.text
    assert "records/s" not in told.text
    assert "high watermark" not in told.text
    if clock is ZERO:
        assert "their times lie within 100 ms" in told.text
    else:
        assert "1,000 records are not in the figure" in told.text


@pytest.mark.parametrize(
    ("clock", "column"), [(None, "future"), (NONE, "without"), (ZERO, "far_past"), (FAR, "future")]
)
def test_timestamps_without_valid_times_count_as_broken(engine, clock, column):
    batches = [("orders", 0, i, 1, at(i), 0) for i in range(50)]
    batches += [("orders", 0, 50 + i, 2, clock, 0) for i in range(2)]
    batches += [("orders", 0, 52 + i, 1, at(50 + i), 0) for i in range(50)]
    told = analysed(engine, "timestamps", batches=batches)
    [row] = told.rows()
    assert (row[column], row["all_broken"], row["all_late"]) == (4, 4, 0)
    assert "behind" not in told.text


@CLOCKS
def test_lag_without_valid_times_is_counted(engine, clock):
    batches = [("orders", 0, 10 * i + 9, clock) for i in range(20)]
    commits = [(i, at(i * 10), "g", "orders", 0, 5 * i, at(i * 10)) for i in range(20)]
    told = analysed(engine, "consumer_lag", group_offsets=commits, batches=batches)
    assert "105 records in 1 group; the most, 105, g on orders-0" in told.text
    assert "how long the oldest record waits cannot be told" in told.text
    assert "20 batches without a time, or with one far from all others" in told.text
    assert told.levels == ["info", "info"]
    history = told.frame[told.frame["kind"] == "history"].sort_values("ts")
    assert history["ts"].min().year == 2026
    assert history["lag"].iloc[-1] == 105


def test_lag_ignores_records_without_time(engine):
    batches = [("orders", 0, 10 * i + 9, at(i * 10) if i % 2 else NONE) for i in range(20)]
    commits = [(i, at(i * 10), "g", "orders", 0, 10 * i, at(i * 10)) for i in range(10)]
    told = analysed(engine, "consumer_lag", group_offsets=commits, batches=batches)
    assert "110 records in 1 group" in told.text
    assert "has waited 100.0 s" in told.text  # offset 90, written at 90 s; the end is at 190 s
    history = told.frame[told.frame["kind"] == "history"].sort_values("ts")
    assert history["lag"].max() == 110


@CLOCKS
def test_rebalances_without_valid_times_are_counted(engine, clock):
    rows = [(clock, "g", "classic", "generation", i, 2) for i in range(1, 21)]
    told = analysed(engine, "rebalances", group_members=rows)
    assert "20 rebalances of 1 group; g had the most, 20, with up to 2 members" in told.text
    assert told.levels[0] == "info"  # the hourly rate is unknown
    assert sum(row["rebalances"] for row in told.rows("time")) == 20


def test_busy_group_is_judged_by_own_time(engine):
    rows = [(at(i), "busy", "classic", "generation", i, 2) for i in range(1, 21)]
    rows += [(at(i * 86_400), "calm", "classic", "generation", i, 2) for i in range(1, 3)]
    assert analysed(engine, "rebalances", group_members=rows).levels == ["warn"]


def test_transaction_ended_by_clock_of_another_age(engine):
    def step(offset, when, id_, *, start=None, is_open=False, state="Ongoing"):
        return (offset, when, id_, 1, 0, state, 60_000, ["t-0"], start, when, is_open)

    rows = [
        step(0, at(0), "a", start=at(0), is_open=True),
        step(1, FAR, "b", start=at(0), is_open=True),
        step(2, FAR, "b", state="CompleteCommit"),
    ]
    told = analysed(engine, "open_transactions", transactions=rows)
    assert "for an unknown time" in told.text
    assert "beyond its own timeout" not in told.text
    assert [row["seconds"] for row in told.rows("ended")] != [0.001]


@CLOCKS
def test_retention_without_valid_times_has_no_duration(engine, clock):
    rows = [("orders", 0, 1, 0, 100, 1000, 100, 0, clock, clock, False, False)]
    [row] = analysed(engine, "retention", segments=rows).rows()
    kept = row["kept_seconds"]
    assert kept == 0.0 if clock in (ZERO, FAR) else kept != kept


@UNKNOWN
def test_controllers_without_valid_times_are_counted(engine, clock):
    epochs = [(1, 1, clock, clock, None, 9, None), (2, 2, clock, clock, None, 9, None)]
    told = analysed(engine, "controller_timeline", quorum_epochs=epochs)
    assert "2 epochs; controller 2 leads at the end" in told.text
    assert "how long there was no leader in between is unknown" in told.text
    assert told.levels == ["info"]


def test_stopped_controller_clock_gives_no_gap(engine):
    epochs = [(1, 1, ZERO, ZERO, 0.0, 9, None), (2, 2, ZERO, ZERO, 0.0, 9, 0)]
    told = analysed(engine, "controller_timeline", quorum_epochs=epochs)
    assert "clocks are not in step, or stand still" in told.text
    assert "0 ms" not in told.text


def test_controllers_of_two_ages_are_measured_apart(engine):
    years = 56 * 365 * 86_400_000
    epochs = [
        (1, 1, ZERO, ZERO, 0.0, 9, None),
        (2, 2, at(0), at(9), 9.0, 9, years),
        (3, 1, at(11), at(20), 9.0, 9, 2000),
    ]
    told = analysed(engine, "controller_timeline", quorum_epochs=epochs)
    assert "longest gap between the records of two epochs 2.0 s" in told.text
    assert told.levels == ["ok"]


@CLOCKS
def test_silence_without_valid_times_is_unknown(engine, clock):
    batches = [("f", i, 1, clock, clock) for i in range(9)]
    told = analysed(engine, "controller_silence", metadata_batches=batches)
    assert "Controller silence: cannot be told" in told.text
    assert "never" not in told.text
    assert told.levels == ["info"]


def test_silence_ignores_batch_of_another_age(engine):
    batches = [("f", i, 1, at(i * 0.5), at(i * 0.5)) for i in range(9)]
    batches.append(("f", 9, 1, FAR, FAR))
    told = analysed(engine, "controller_silence", metadata_batches=batches)
    assert "never silent for more than 500 ms" in told.text
    assert "1 interval of unknown length" in told.text


def test_silence_needs_more_than_one_batch(engine):
    told = analysed(engine, "controller_silence", metadata_batches=[("f", 0, 1, at(0), at(0))])
    assert "not applicable: there are no batches of a metadata log that follow others" in told.text


@UNKNOWN
def test_leader_changes_without_valid_times_are_counted(engine, clock):
    changes = [(clock, "orders", 11, "fenced") for i in range(5)] + [(at(9), "x", 12, "preferred")]
    told = analysed(engine, "leadership_churn", leader_changes=changes)
    assert "6 leader changes: 5 × fenced, 1 × preferred; most away from broker 11" in told.text
    assert "Leaders: 5 changes are not in the figure" in told.text
    told = analysed(engine, "leadership_churn", leader_changes=changes[:5])
    assert "5 leader changes: 5 × fenced" in told.text


@UNKNOWN
def test_isr_changes_without_valid_times_are_counted(engine, clock):
    changes = [(i, clock, "orders", i, [], [13], "lag") for i in range(12)]
    changes += [(20 + i, clock, "orders", i, [13], [], "caught_up") for i in range(11)]
    told = analysed(engine, "isr_storms", isr_changes=changes)
    assert "12 shrinks" in told.text
    assert "at most" not in told.text
    assert "ISR: 12 shrinks are not in the figure" in told.text
    assert "Out of the ISR and not back at the end: 1 replica (broker 13)" in told.text


def test_isr_changes_outside_of_the_window_are_counted(engine):
    changes = [(i, at(i), "orders", i, [], [13], "lag") for i in range(200)]
    changes.append((200, at(400_000_000), "orders", 999, [], [13], "lag"))
    told = analysed(engine, "isr_storms", isr_changes=changes)
    assert "201 shrinks" in told.text
    assert "1 shrink is not in the figure" in told.text
    assert "not back at the end: 201 replicas" in told.text


@pytest.mark.parametrize("seconds", [None, 0.0])
def test_availability_without_valid_times_is_unknown(engine, seconds):
    def interval(number, end, state):
        return ("a", "orders", number, end, seconds, state, False)

    history = [
        interval(0, 5, "ok"),
        interval(0, 9, "offline"),
        interval(0, None, "ok"),
        interval(1, None, "offline"),
        interval(2, 4, "under_min_isr"),
    ]
    told = analysed(engine, "partition_availability", partition_history=history)
    assert "1 of 3 partitions offline for a time; how long cannot be told" in told.text
    assert "1 partition below it for a time; how long cannot be told" in told.text
    assert "1 partition without a leader at the end of the log" in told.text
    assert "%" not in told.text


@UNKNOWN
def test_replication_without_valid_times_is_not_drawn(engine, clock):
    history = [("t", i, clock, None, "offline") for i in range(3)]
    told = analysed(engine, "replication_timeline", partition_history=history)
    assert "Replication: no change of 3 partitions has a valid time" in told.text
    history += [("u", 0, at(0), at(5), "ok"), ("u", 0, at(5), None, "offline")]
    told = analysed(engine, "replication_timeline", partition_history=history)
    assert "3 changes are not in the figure" in told.text


@CLOCKS
def test_brokers_without_valid_times_are_counted(engine, clock):
    seconds = 0.0 if clock is ZERO else None
    history = [
        (11, "r", 1, clock, clock, seconds, "active", "unfenced"),
        (11, "r", 5, clock, None, seconds, "fenced", "fenced"),
    ]
    told = analysed(engine, "broker_availability", broker_history=history)
    assert "1 broker, active for an unknown part of the time; no restart, fenced once" in told.text
    assert "Not active at the end of the log: broker 11" in told.text


def test_recovery_without_valid_times_is_not_measured(engine):
    brokers = [
        (11, 1, None, "active", "registered", "unfenced"),
        (11, 100, None, "fenced", "active", "fenced"),
    ]
    leaders = [(99, None, "orders", 1, 11, None, 7)]
    told = analysed(
        engine,
        "recovery_waterfall",
        broker_history=brokers,
        leader_changes=leaders,
        isr_changes=[],
    )
    assert "1 broker loss; no clock shows when: how soon their partitions had leaders" in told.text
    assert "at once" not in told.text
    assert "Lost last and not back: broker 11" in told.text


@CLOCKS
def test_leader_balance_ignores_invalid_times(engine, clock):
    history = [(clock, clock, 9, 1, [1, 3], "ok") for i in range(10)]
    history += [(clock, None, None, 2, [i % 2 + 1, 3], "ok") for i in range(10)]
    told = analysed(engine, "leader_balance", partition_history=history)
    assert "broker 2 leads 10 of 10 partitions, 3.00 × the mean; 50 % are led by" in told.text


def test_topics_outside_of_the_window_are_counted(engine):
    history = [(at(i), "created", f"t{i}", 1, None, None) for i in range(200)]
    history += [(clock, "created", "late", 2, None, None) for clock in (None, NONE, FAR)]
    told = analysed(engine, "topic_lifecycle", topic_history=history)
    assert "203 topics created, 0 deleted, 206 partitions added" in told.text
    assert "Topics: 3 events are not in the figure" in told.text


def test_metadata_records_without_time_are_counted(engine):
    records = [("log", clock, "NoOpRecord", 4) for clock in (None, NONE, FAR)]
    told = analysed(engine, "metadata_churn", metadata_records=records, metadata_snapshots=[])
    assert "3 records, 12 B; most are NoOpRecord (100 %)" in told.text
    assert "Metadata log: 3 records are not in the figure" in told.text


def test_producer_ids_without_a_time_are_counted(engine):
    payload = '{{"broker_id":11,"next_producer_id":{}}}'
    clocks = (None, NONE, FAR, at(0))
    rows = [
        ("log", clock, "ProducerIdsRecord", payload.format(1000 * i))
        for i, clock in enumerate(clocks, 1)
    ]
    told = analysed(engine, "producer_id_rate", metadata_records=rows)
    assert "4 blocks of 1,000 ids; the next free id is 4,000" in told.text
    assert "Producer ids: 3 blocks are not in the figure" in told.text


# --- records of 2090 in a present cluster ---

LATER = 64 * 365 * 86_400


def test_throughput_of_two_ages_shows_most_records(engine):
    batches = [("now", 0, 1, 10, at(i)) for i in range(20)]
    batches += [("then", 0, 1, 10, at(LATER + i)) for i in range(100)]
    told = analysed(engine, "throughput", batches=batches)
    assert "over 99.5 s; 1 record in the busiest second" in told.text
    assert "20 records are not in the figure" in told.text
    assert set(told.frame["ts"].dropna().dt.year) == {2089}


def test_lag_is_drawn_by_the_clock_of_commits(engine):
    batches = [("orders", 0, 10 * i + 9, at(LATER + i)) for i in range(200)]
    commits = [(i, at(i * 10), "g", "orders", 0, 10 * i, at(i * 10)) for i in range(20)]
    told = analysed(engine, "consumer_lag", group_offsets=commits, batches=batches)
    assert "1,810 records in 1 group" in told.text
    assert "how long the oldest record waits cannot be told" in told.text
    assert "200 batches without a time, or with one far from all others" in told.text
    history = told.frame[told.frame["kind"] == "history"]
    assert set(history["ts"].dt.year) == {2026}


def test_anomalies_of_two_ages_keep_axis_short(engine):
    rows = [("now", 0, 10 * i, 10 * i + 9, 7, i, 0, 10, at(i), False) for i in range(5)]
    rows += [("then", 0, 10 * i, 10 * i + 9, 8, i, 0, 10, at(LATER + i), False) for i in range(3)]
    drawn = producer_anomalies.plot(analysed(engine, "producer_anomalies", batches=rows).frame)
    [points] = drawn.data
    assert {pd.Timestamp(x).year for x in points.x} == {2026}
    assert drawn.layout.xaxis.title.text == "UTC; 2 not shown: of a clock years off"
