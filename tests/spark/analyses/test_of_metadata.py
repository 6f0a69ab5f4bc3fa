"""M1 to M18 on histories with known properties."""

from datetime import UTC, datetime

import pytest

from tests.spark.analyses.given import analysed, at

pytestmark = pytest.mark.filterwarnings("ignore")

LONG_NAME = "n" * 249


def test_controller_epochs_and_gaps_are_listed(engine):
    epochs = [
        (1, 1, at(0), at(100), 100.0, 200, None),
        (2, 2, at(104), at(200), 96.0, 190, 4000),
    ]
    told = analysed(engine, "controller_timeline", quorum_epochs=epochs)
    assert "2 epochs; controller 2 leads at the end" in told.text
    assert "longest gap between the records of two epochs 4.0 s" in told.text
    assert told.levels == ["warn"]


def test_controller_with_slow_clock_is_reported(engine):
    epochs = [(1, 1, at(100), at(110), 10.0, 9, None), (2, 2, at(50), at(60), 10.0, 9, -60_000)]
    told = analysed(engine, "controller_timeline", quorum_epochs=epochs)
    assert "clocks are not in step" in told.text
    assert "longest gap" not in told.text


def test_controller_silence_is_found(engine):
    batches = [("f", i, 1, at(i * 0.5), at(i * 0.5)) for i in range(20)]
    batches.append(("f", 20, 1, at(19.5), at(19.5)))
    told = analysed(engine, "controller_silence", metadata_batches=batches)
    assert (
        "1 interval longer than 1.5 s; the longest, 10.0 s, began at 2026-01-01 00:00:09"
        in told.text
    )
    assert sum(row["intervals"] for row in told.rows()) == 20


def test_leader_changes_have_their_causes(engine):
    changes = [(at(i), "orders", 11, "fenced") for i in range(5)] + [(at(9), "x", 12, "preferred")]
    told = analysed(engine, "leadership_churn", leader_changes=changes)
    assert "6 leader changes: 5 × fenced, 1 × preferred; most away from broker 11" in told.text


STATE = '{"controller_epoch":1,"leader":%d,"version":1,"leader_epoch":4,"isr":%s}'


def znodes(*more):
    """Returns the rows of a mirror at offset 50, as `zk tree -o json` prints them: path, text, created_ms,
    modified_ms.
    """
    began, later = at(0).timestamp() * 1000, at(20).timestamp() * 1000 + 30
    shown = [
        ("/migration", '{"version":0,"kraft_metadata_offset":50}'),
        ("/brokers/topics/orders/partitions/0/state", STATE % (11, "[12,11]")),
        ("/brokers/topics/orders/partitions/1/state", STATE % (-1, "[]")),
        ("/config/topics/orders", '{"version":1,"config":{"retention.ms":"5"}}'),
        ("/brokers/ids/11", "{}"),
        ("/brokers/topics", None),
        *more,
    ]
    return [(path, text, int(began), int(later)) for path, text in shown]


ZOOKEEPER_STORY = {
    "partition_history": [
        ("orders", 0, 10, 30, at(10), 12, 3, [11, 12], "ok"),
        ("orders", 0, 30, None, at(20), 11, 4, [11, 12], "ok"),
        ("orders", 1, 10, None, at(-5), None, 4, [], "offline"),
        ("later", 0, 51, None, at(60), 11, 0, [11], "ok"),
        ("gone", 0, 40, None, at(15), None, 0, [], "deleted"),
    ],
    "broker_history": [
        (11, 5, None, at(1), "active"),
        (12, 5, 29, at(1), "active"),
        (12, 29, None, at(19), "fenced"),
    ],
    "config_history": [
        (12, at(11), "topic", "orders", "retention.ms", "9"),
        (13, at(20), "topic", "orders", "retention.ms", "5"),
        (14, at(12), "topic", "orders", "cleanup.policy", "compact"),
        (15, at(12), "topic", "orders", "cleanup.policy", None),
        (60, at(70), "topic", "orders", "retention.ms", "7"),
    ],
}


def test_equal_znodes_have_no_difference(engine):
    told = analysed(engine, "zookeeper_parity", znodes=znodes(), **ZOOKEEPER_STORY)
    assert "4 znodes at offset 50, no difference" in told.text
    assert "written after the record: median 30 ms, longest 19.0 s" in told.text
    delays = {row["path"]: row["delay_seconds"] for row in told.rows()}
    assert delays["/config/topics/orders"] == 0.03
    assert delays["/brokers/ids/11"] == 19.03
    before = delays["/brokers/topics/orders/partitions/1/state"]
    assert before != before  # the record is older than the mirror


def test_different_znodes_are_reported(engine):
    wrong = [
        ("/brokers/ids/12", "{}"),
        ("/brokers/topics/orders/partitions/2/state", STATE % (11, "[11]")),
    ]
    story = {**ZOOKEEPER_STORY, "partition_history": [*ZOOKEEPER_STORY["partition_history"]]}
    story["partition_history"].append(("orders", 2, 10, None, at(10), 12, 4, [11, 12], "ok"))
    story["partition_history"].append(("orders", 3, 10, None, at(10), 12, 4, [11, 12], "ok"))
    told = analysed(engine, "zookeeper_parity", znodes=znodes(*wrong), **story)
    outcomes = {row["path"]: row["outcome"] for row in told.rows()}
    assert outcomes["/brokers/ids/12"] == "extra"
    assert outcomes["/brokers/topics/orders/partitions/2/state"] == "different"
    assert outcomes["/brokers/topics/orders/partitions/3/state"] == "missing"
    assert "3 differences in 7 znodes at offset 50" in told.text
    assert told.levels[0] == "bad"
    nothing = analysed(engine, "zookeeper_parity", znodes=[], **ZOOKEEPER_STORY)
    assert "not applicable: there are no znodes of a mirror" in nothing.text


def test_isr_storms_name_their_broker(engine):
    changes = []
    for i in range(12):
        changes.append((i, at(i), "orders", i, [], [13], "lag"))
        if i != 3:
            changes.append((i + 30, at(i + 30), "orders", i, [13], [], "caught_up"))
    for i in range(3):
        changes.append((100 + i * 2, at(100 + i * 2), LONG_NAME, 0, [], [12], "lag"))
        changes.append((101 + i * 2, at(101 + i * 2), LONG_NAME, 0, [12], [], "caught_up"))
    told = analysed(engine, "isr_storms", isr_changes=changes)
    assert "15 shrinks" in told.text
    assert "broker 12 left the ISR of nnn" in told.text
    assert "3 times, the most of all" in told.text
    assert "Out of the ISR and not back at the end: 1 replica (broker 13)" in told.text


def test_offline_and_underreplicated_partitions_are_listed(engine):
    history = [
        ("a", "orders", 0, 10, 10.0, "ok", False),
        ("a", "orders", 0, 15, 5.0, "offline", False),
        ("a", "orders", 0, None, 85.0, "ok", False),
        ("a", "orders", 1, None, 100.0, "ok", False),
        ("a", "orders", 2, 5, 5.0, "offline", False),
        ("b", "gone", 0, 20, 20.0, "under_min_isr", False),
        ("c", "down", 0, None, 50.0, "offline", False),
    ]
    told = analysed(engine, "partition_availability", partition_history=history)
    assert "2 of 5 partitions offline for a time; longest orders-0 and 1 more, 5.0 s" in told.text
    assert "1 partition below it for a time; longest gone-0, 20.0 s" in told.text
    assert "1 partition without a leader at the end of the log" in told.text
    first = told.rows()[0]
    assert (first["topic"], first["available_percent"]) == ("orders", 95.0)


def test_simultaneous_states_are_added_up(engine):
    """Three partitions in three bad states at the same time count as three."""
    states = ("offline", "under_min_isr", "under_replicated")
    history = [("t", i, at(0), at(10), "ok") for i in range(3)]
    history += [("t", i, at(10), at(20), states[i]) for i in range(3)]
    history += [("t", i, at(20), None, "ok") for i in range(3)]
    told = analysed(engine, "replication_timeline", partition_history=history)
    assert "at most 3 partitions at once under-replicated, or worse off" in told.text
    assert max(row["partitions"] for row in told.rows()) == 3


def test_equally_bad_moments_have_one_worst(engine):
    """Engines would take the first or the last one: the one with more partitions offline is."""
    states = ("under_replicated", "offline", "under_min_isr", "ok")
    history = [("t", 0, at(i), at(i + 1), state) for i, state in enumerate(states)]
    history += [("t", 0, at(4), at(100_000), "ok"), ("t", 0, at(100_000), None, "ok")]
    told = analysed(engine, "replication_timeline", partition_history=history)
    assert told.rows()[0]["worst"] == {"offline": 1, "under_min_isr": 0, "under_replicated": 0}


def test_wrong_clock_does_not_stretch_the_axis(engine):
    history = [("t", i, at(i), None, "ok") for i in range(200)]
    history.append(("t", 999, at(-300_000_000), None, "ok"))  # about nine years before
    told = analysed(engine, "replication_timeline", partition_history=history)
    assert "h" not in told.text.split("covers ")[1].split(";")[0]
    assert told.frame["ts"].min().year == 2026


def test_broker_restarts_and_absences_are_listed(engine):
    history = [
        (11, "r", 1, at(0), at(2), 2.0, "registered", "registered"),
        (11, "r", 2, at(2), at(100), 98.0, "active", "unfenced"),
        (11, "r", 5, at(100), at(140), 40.0, "registered", "restarted"),
        (11, "r", 6, at(140), None, 60.0, "active", "unfenced"),
        (12, "r", 3, at(0), at(50), 50.0, "active", "unfenced"),
        (12, "r", 4, at(50), None, 150.0, "fenced", "fenced"),
    ]
    told = analysed(engine, "broker_availability", broker_history=history)
    assert "2 brokers, active 52 % of the time; 1 restart, fenced once" in told.text
    assert "broker 11 took 40.0 s" in told.text
    assert "Not active at the end of the log: broker 12" in told.text


def test_brokers_of_year_2300_are_analysed(engine):
    """pandas stores times up to 2262; a controller's clock may show any time."""
    far = datetime(9999, 1, 1, tzinfo=UTC)
    history = [
        (11, "r", 1, at(0), far, 9e12, "active", "unfenced"),
        (12, "r", 2, at(0), None, 9e12, "active", "unfenced"),
        (13, "r", 3, far, None, 0.0, "fenced", "fenced"),
    ]
    told = analysed(engine, "broker_availability", broker_history=history)
    assert told.frame["to_ts"].isna().all()
    assert "3 brokers" in told.text


def test_recovery_after_broker_loss_is_measured(engine):
    brokers = [
        (11, 1, at(0), "active", "registered", "unfenced"),
        (11, 100, at(50), "fenced", "active", "fenced"),
        (11, 200, at(80), "active", "fenced", "unfenced"),
    ]
    leaders = [
        (98, at(50), "orders", 0, 11, 12, 5),
        (99, at(50), "orders", 1, 11, None, 7),
        (120, at(53), "orders", 1, None, 13, 8),
        (220, at(90), "orders", 2, 11, 12, 9),  # after the broker's return
        (500, at(900), "orders", 0, 12, 11, 6),
    ]
    isr = [(97, at(50), []), (210, at(95), [11]), (211, at(97), [11])]
    told = analysed(
        engine,
        "recovery_waterfall",
        broker_history=brokers,
        leader_changes=leaders,
        isr_changes=isr,
    )
    [row] = told.rows()
    assert (row["broker_id"], row["leaders"], row["without_leader"]) == (11, 2, 1)
    assert (row["first_leader_seconds"], row["all_leaders_seconds"]) == (0.0, 3.0)
    assert (row["back_seconds"], row["in_sync_seconds"], row["replicas"]) == (30.0, 47.0, 2)
    assert "1 broker loss; all their partitions had leaders again after at most 3.0 s" in told.text


def test_lost_broker_without_partitions_is_reported(engine):
    brokers = [(11, 1, at(0), "active", "registered", "unfenced")]
    brokers.append((11, 9, at(50), "fenced", "active", "fenced"))
    told = analysed(
        engine, "recovery_waterfall", broker_history=brokers, leader_changes=[], isr_changes=[]
    )
    assert "1 broker loss; no partition was led there" in told.text


def test_shutdown_is_one_loss_and_leaves_no_leader(engine):
    brokers = [
        (1, 1, at(0), "active", "registered", "unfenced"),
        (1, 50, at(50), "controlled_shutdown", "active", "controlled_shutdown"),
        (1, 60, at(51), "fenced", "controlled_shutdown", "fenced"),
    ]
    told = analysed(
        engine,
        "recovery_waterfall",
        broker_history=brokers,
        leader_changes=[(51 + i, at(50), "orders", i, 1, None, 7) for i in range(3)],
        isr_changes=[],
    )
    assert "1 broker loss; 3 partitions lost their leader up to the end" in told.text
    assert "Lost last and not back: broker 1" in told.text
    assert told.levels[0] == "info"


def test_leader_balance_is_shown_over_time(engine):
    history = [(at(0), at(50), 50, i % 2 + 1, [i % 2 + 1, 3], "ok") for i in range(10)]
    history += [(at(50), None, None, 2, [i % 2 + 1, 3], "ok") for i in range(10)]
    told = analysed(engine, "leader_balance", partition_history=history)
    assert (
        "broker 2 leads 10 of 10 partitions, 3.00 × the mean; 50 % are led by their preferred"
        in told.text
    )
    early = [row for row in told.rows() if row["ts"] == told.frame["ts"].min()]
    assert {row["broker"]: row["leaders"] for row in early} == {1: 5, 2: 5, 3: 0}


def image(kind, **cells):
    names = ("topic", "partition", "replicas", "broker_id", "rack")
    return (kind, *(cells.get(name) for name in names))


def test_partitions_in_too_few_racks_are_counted(engine):
    rows = [image("broker", broker_id=i, rack="ab"[i % 2]) for i in range(4)]
    rows.append(image("partition", topic="good", partition=0, replicas=[0, 1]))
    rows.append(image("partition", topic="bad", partition=0, replicas=[0, 2]))
    told = analysed(engine, "rack_exposure", metadata_image=rows)
    assert "1 of 2 partitions in fewer racks than they could be; bad has the most, 1" in told.text
    racks = {row["name"]: (row["partitions"], row["exposed"]) for row in told.rows("rack")}
    assert racks == {"a": (2, 1), "b": (1, 0)}
    without = [
        image("broker", broker_id=0),
        image("partition", topic="t", partition=0, replicas=[0]),
    ]
    told = analysed(engine, "rack_exposure", metadata_image=without)
    assert "not applicable: no broker has a rack" in told.text


def test_config_changes_and_drift_are_listed(engine):
    configs = [
        (5, at(1), "topic", "orders", "retention.ms", None, "1", "set"),
        (6, at(2), "broker", "1", "log.retention.ms", None, "5", "set"),
        (7, at(3), "broker", "2", "log.retention.ms", None, "6", "set"),
    ]
    acls = [(8, at(4), "acl", "added", "id", "User:a", "TOPIC", "orders", "READ", "ALLOW", None)]
    told = analysed(engine, "config_log", config_history=configs, acl_history=acls)
    assert "2 × broker" in told.text
    assert "1 × acl" in told.text
    assert "Drift: brokers differ in 1 config: log.retention.ms" in told.text
    latest = told.rows("change", "row_kind")[0]
    assert (latest["subject"], latest["name"]) == ("User:a", "ALLOW READ TOPIC orders")


def test_created_and_short_lived_topics_are_counted(engine):
    history = [
        (at(0), "created", "a", 6, None, None),
        (at(5), "partitions_added", "a", 8, 6, None),
        (at(60), "created", "brief", 1, None, None),
        (at(90), "deleted", "brief", 0, 1, 30.0),
    ]
    told = analysed(engine, "topic_lifecycle", topic_history=history)
    assert "2 topics created, 1 deleted, 9 partitions added" in told.text
    assert "1 topic lived less than an hour; brief lived for 30.0 s" in told.text


def test_reassignments_are_measured(engine):
    history = [
        (1, at(0), "reassignment_begun", "t", "orders", 0, None),
        (2, at(10), "reassignment_begun", "t", "orders", 1, None),
        (3, at(30), "reassignment_ended", "t", "orders", 0, 30.0),
    ]
    told = analysed(engine, "reassignments", topic_history=history)
    assert "2 partitions moved; median 30.0 s, longest 30.0 s" in told.text
    assert "1 partition still in progress" in told.text


def test_metadata_records_are_counted_by_type(engine):
    records = [("log", at(i), "NoOpRecord", 4) for i in range(9)]
    records.append(("log", at(9), "TopicRecord", 40))
    snapshots = [(5, at(4), 1000, 3, None), (9, at(8), 2048, 4, "damaged at position 7")]
    told = analysed(
        engine, "metadata_churn", metadata_records=records, metadata_snapshots=snapshots
    )
    assert "10 records, 76 B; most are NoOpRecord (90 %)" in told.text
    assert "2 snapshots, the latest of 2.0 KiB" in told.text
    assert "not whole: damaged at position 7" in told.text
    assert "later Kafka" not in told.text


def test_metadata_churn_counts_records_of_a_later_kafka(engine):
    types = ["NoOpRecord", "UNKNOWN_29", "UNKNOWN_29", "UNKNOWN_2"]
    records = [("log", at(i), name, 4) for i, name in enumerate(types)]
    told = analysed(engine, "metadata_churn", metadata_records=records, metadata_snapshots=[])
    assert "3 records of a later Kafka (UNKNOWN_2, UNKNOWN_29); what they change" in told.text
    assert "warn" in told.levels


def test_unclean_elections_are_reported(engine):
    def change(offset, second, prev, leader, isr, *, elr=(), unclean=False, number=0):
        place = (offset, at(second), "t", "orders", number, prev, leader, offset, isr, list(elr))
        return (*place, "returned" if prev is None else "fenced", unclean)

    changes = [
        change(1, 0, 11, None, [11]),
        change(2, 20, None, 12, [12], unclean=True),
        change(3, 0, 11, None, [], elr=[13], number=1),
        change(4, 5, None, 13, [13], number=1),
    ]
    told = analysed(engine, "unclean_elections", leader_changes=changes)
    assert (
        "1 leader elected out of sync: records may be lost in 1 partition, orders-0 among"
        in told.text
    )
    assert "1 leader came from the eligible replicas" in told.text
    assert told.rows()[0]["offline_seconds"] == 20.0
    assert told.levels[0] == "bad"


def test_differing_metadata_logs_are_reported(engine):
    rows = [(node, offset, 1, 7) for node in (1, 2, 3) for offset in range(5)]
    assert (
        "no difference in 15 batches compared, of 3 pairs of nodes"
        in analysed(engine, "log_matching", metadata_batches_all=rows).text
    )
    rows[-1] = (3, 4, 1, 8)
    told = analysed(engine, "log_matching", metadata_batches_all=rows)
    assert told.levels == ["bad"]
    assert "nodes 1 and 3 differ from offset 4 on" in told.text


def test_producer_id_blocks_are_counted(engine):
    payload = '{{"broker_id":11,"next_producer_id":{}}}'
    rows = [
        ("log", at(i * 60), "ProducerIdsRecord", payload.format(1000 * i)) for i in range(1, 31)
    ]
    told = analysed(engine, "producer_id_rate", metadata_records=rows)
    assert "30 blocks of 1,000 ids; the next free id is 30,000" in told.text
    assert told.levels == ["warn"]


def test_features_and_voters_are_listed(engine):
    features = [
        (1, at(0), "metadata.version", None, 30, "4.3-IV0", "set"),
        (9, at(9), "metadata.version", 30, 29, "4.2-IV1", "downgraded"),
    ]
    voters = [
        (2, at(1), "initial", 1, [1, 2, 3]),
        (5, at(5), "removed", 3, [1, 2]),
    ]
    told = analysed(engine, "features_and_voters", feature_history=features, voter_history=voters)
    assert "Features at the end: metadata.version 29 (4.2-IV1)" in told.text
    assert "Downgraded: metadata.version: 30 → 29" in told.text
    assert "Quorum: voters 1, 2 at the end; 1 change of the set" in told.text
    later = [(1, at(0), "metadata.version", None, 99, "99", "set")]  # a level without a name
    told = analysed(engine, "features_and_voters", feature_history=later, voter_history=voters)
    assert "Features at the end: metadata.version 99." in told.text
