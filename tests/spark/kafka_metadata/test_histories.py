"""Tables of events and intervals on logs with a known history."""

import json

import pytest

from tests.spark.directories import metadata_batch
from tests.spark.kafka_metadata.test_reading import (
    TOPIC_ID,
    Log,
    change,
    min_isr,
    partition,
    rows,
    standard,
    store,
)
from trimaran.spark.options import OptionError
from trimaran.spark.origins.origin import DataUnreadable
from trimaran.wire.records.brokers import (
    BrokerEndpoint,
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from trimaran.wire.records.configs import ConfigRecord
from trimaran.wire.records.features import FeatureLevelRecord
from trimaran.wire.records.misc import NoOpRecord
from trimaran.wire.records.quotas import ClientQuotaRecord, EntityData
from trimaran.wire.records.security import (
    AccessControlEntryRecord,
    DelegationTokenRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    UserScramCredentialRecord,
)
from trimaran.wire.records.topics import RemoveTopicRecord, TopicRecord
from trimaran.wire.records.transactions import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)


def broker(broker_id, epoch=1, incarnation=1, *, rack="r1", fenced=True):
    return RegisterBrokerRecord(
        broker_id=broker_id,
        incarnation_id=bytes(15) + bytes([incarnation]),
        broker_epoch=epoch,
        end_points=[BrokerEndpoint(name="PLAIN", host="h", port=9092, security_protocol=0)],
        features=[],
        rack=rack,
        fenced=fenced,
    )


def fence(broker_id, epoch=1, *, fenced=0, shutdown=0):
    return BrokerRegistrationChangeRecord(
        broker_id=broker_id, broker_epoch=epoch, fenced=fenced, in_controlled_shutdown=shutdown
    )


def cluster():
    """Returns three brokers and a topic; 12 is lost, 13 lags, 11 shuts down."""
    log = Log().lead(1, 1000)
    log.write(1000, broker(11), broker(12), broker(13))
    log.write(2000, fence(11, fenced=-1), fence(12, fenced=-1), fence(13, fenced=-1))
    log.write(3000, TopicRecord(name="orders", topic_id=TOPIC_ID), partition(), min_isr("2"))
    log.write(4000, change(isr=[11, 13]), fence(12, fenced=1))
    log.write(5000, change(isr=[11]))
    log.write(6000, change(isr=[11, 13]))
    log.write(7000, change(leader=13, isr=[13]), fence(11, shutdown=1))
    log.write(8000, change(leader=-1, isr=[13]), fence(13, fenced=1))
    log.write(9000, fence(12, fenced=-1), change(leader=12, isr=[12], leader_recovery_state=1))
    return log.write(10_000, NoOpRecord())


@pytest.fixture
def told(tmp_path):
    store(tmp_path, 1, cluster().batches)
    return tmp_path


def test_isr_changes_have_their_causes(told):
    found = rows(told, "isr_changes")
    assert [(r["removed"], r["added"], r["cause"]) for r in found] == [
        ([12], [], "fenced"),
        ([13], [], "lag"),
        ([], [13], "caught_up"),
        ([11], [], "controlled_shutdown"),
        ([13], [12], "fenced"),
    ]
    assert [r["offset"] for r in found] == [10, 12, 13, 14, 19]
    assert (found[0]["topic"], found[0]["partition"], found[0]["isr"]) == ("orders", 0, [11, 13])


def test_leader_changes_have_their_causes(told):
    found = rows(told, "leader_changes")
    assert [(r["prev_leader"], r["leader"], r["cause"], r["unclean"]) for r in found] == [
        (11, 13, "controlled_shutdown", False),
        (13, None, "fenced", False),
        (None, 12, "returned", True),
    ]
    assert [r["leader_epoch"] for r in found] == [1, 2, 3]


def test_interval_without_time_has_no_length(tmp_path):
    log = Log().lead(1, 1000)
    log.write(2000, broker(11), TopicRecord(name="orders", topic_id=TOPIC_ID), partition())
    log.write(-1, fence(11, fenced=-1), change(isr=[11]))
    log.lead(2, 5000)
    log.write(6000, fence(11, fenced=1), change(isr=[11, 12]))
    log.write(8000, RemoveTopicRecord(topic_id=TOPIC_ID))
    log.lead(3, -1)
    store(tmp_path, 1, log.batches)
    found = {table: rows(tmp_path, table) for table in ("broker_history", "partition_history")}
    assert [row["seconds"] for row in found["broker_history"]] == [None, None, None]
    lengths = [(row["state"], row["seconds"]) for row in found["partition_history"]]
    assert lengths[-1] == ("deleted", 0.0)
    assert [seconds for _, seconds in lengths[:-1]] == [None, None, 2.0]
    epochs = rows(tmp_path, "quorum_epochs")
    assert [row["seconds"] for row in epochs] == [1.0, 3.0, None]
    assert [row["gap_before_ms"] for row in epochs] == [None, 3000, None]
    assert [row["silence_max_ms"] for row in epochs] == [1000, 2000, None]
    deleted = [row for row in rows(tmp_path, "topic_history") if row["event"] == "deleted"]
    assert [row["seconds"] for row in deleted] == [6.0]


def test_fence_in_later_batch_is_the_cause(tmp_path):
    """Our controllers write it this way, because they fence in steps."""
    log = cluster()
    log.write(11_000, fence(13, fenced=-1))
    log.write(12_000, change(isr=[12, 13], leader_recovery_state=0))
    log.write(20_000, change(leader=13, isr=[13]))
    log.write(20_004, fence(12, fenced=1))
    log.write(30_000, fence(12, fenced=-1))
    log.write(31_000, change(isr=[13, 12]))
    log.write(32_000, change(isr=[13]))  # the follower lags; its next change is much later
    log.write(40_000, change(isr=[13, 12]))
    store(tmp_path, 1, log.write(41_000, fence(12, fenced=1)).batches)
    assert rows(tmp_path, "leader_changes")[-1]["cause"] == "fenced"
    found = rows(tmp_path, "isr_changes")[5:]
    causes = ["caught_up", "fenced", "caught_up", "lag", "caught_up"]
    assert [row["cause"] for row in found] == causes
    offsets = [row["offset"] for row in found]
    assert offsets == sorted(offsets)


def test_topics_are_chosen_and_options_without_effect_refused(told):
    assert rows(told, "isr_changes", topics="other") == []
    assert len(rows(told, "isr_changes", topics="orders,other")) == 5
    with pytest.raises(OptionError, match="recordTypes: it has no effect on the table isr_changes"):
        rows(told, "isr_changes", recordTypes="TopicRecord")
    with pytest.raises(OptionError, match="not one of RegisterBrokerRecord"):
        rows(told, recordTypes="TopicRecrd")
    with pytest.raises(OptionError, match="not both"):
        rows(told, "image", asOfOffset="3", asOfTimestamp="5")


def test_broker_history_has_states_and_causes(told):
    found = [r for r in rows(told, "broker_history") if r["broker_id"] == 12]
    assert [(r["state"], r["cause"], r["seconds"]) for r in found] == [
        ("registered", "registered", 1.0),
        ("active", "unfenced", 2.0),
        ("fenced", "fenced", 5.0),
        ("active", "unfenced", 1.0),
    ]
    assert found[0]["endpoints"] == ["PLAIN://h:9092"]
    assert found[-1]["to_ts"] is None
    stopped = [r["state"] for r in rows(told, "broker_history") if r["broker_id"] == 11]
    assert stopped == ["registered", "active", "controlled_shutdown"]


def test_restarted_and_unregistered_brokers_end_intervals(tmp_path):
    log = Log().lead(1, 0).write(0, broker(11)).write(1000, fence(11, fenced=-1))
    log.write(3000, broker(11, 2, 2)).write(4000, fence(11, 2, fenced=-1))
    log.write(6000, UnregisterBrokerRecord(broker_id=11, broker_epoch=2))
    store(tmp_path, 1, log.batches)
    found = rows(tmp_path, "broker_history")
    assert [(r["state"], r["cause"], r["broker_epoch"]) for r in found] == [
        ("registered", "registered", 1),
        ("active", "unfenced", 1),
        ("registered", "restarted", 2),
        ("active", "unfenced", 2),
        ("unregistered", "unregistered", 2),
    ]


def config(name, value, *, kind=4, resource="1"):
    return ConfigRecord(resource_type=kind, resource_name=resource, name=name, value=value)


def test_config_history_has_old_and_new_values(tmp_path):
    log = Log().lead(1, 0)
    log.write(1000, TopicRecord(name="orders", topic_id=TOPIC_ID), partition(), min_isr("2"))
    log.write(2000, min_isr("3"), config("ssl.key.password", "open sesame"))
    log.write(3000, config("x", "1"), config("x", None), config("retention.ms", "1"))
    log.write(3500, config("interval.ms", "1", kind=16, resource="c"))
    entity = [EntityData(entity_type="user", entity_name=None)]
    quota = {"entity": entity, "key": "producer_byte_rate"}
    log.write(4000, ClientQuotaRecord(value=1024.0, remove=False, **quota))
    log.write(5000, ClientQuotaRecord(value=0.0, remove=True, **quota))
    log.write(6000, RemoveTopicRecord(topic_id=TOPIC_ID))
    store(tmp_path, 1, log.batches)
    found = rows(tmp_path, "config_history")
    assert [
        (r["resource_type"], r["resource_name"], r["name"], r["old_value"], r["new_value"])
        for r in found
    ] == [
        ("topic", "orders", "min.insync.replicas", None, "2"),
        ("topic", "orders", "min.insync.replicas", "2", "3"),
        ("broker", "1", "ssl.key.password", None, "(hidden)"),
        ("broker", "1", "x", None, "(hidden)"),  # undeclared, so it may be a plug-in's secret
        ("broker", "1", "x", "(hidden)", None),
        (
            "broker",
            "1",
            "retention.ms",
            None,
            "(hidden)",
        ),  # a key of topics, which brokers do not know
        ("client-metrics", "c", "interval.ms", None, "1"),
        ("client-quota", "user=<default>", "producer_byte_rate", None, "1024"),
        ("client-quota", "user=<default>", "producer_byte_rate", "1024", None),
        ("topic", "orders", "min.insync.replicas", "3", None),
    ]
    assert [r["event"] for r in found] == [
        *(
            "set",
            "changed",
            "set",
            "set",
            "deleted",
            "set",
            "set",
            "set",
            "deleted",
            "topic_deleted",
        )
    ]


def test_topic_history_has_each_change(tmp_path):
    log = Log().lead(1, 0)
    created = TopicRecord(name="orders", topic_id=TOPIC_ID)
    log.write(1000, created, partition(0), partition(1))
    log.write(3000, partition(2), partition(3))
    log.write(4000, change(replicas=[11, 12, 13, 14], adding_replicas=[14]))
    log.write(6000, change(isr=[11, 12, 13, 14], adding_replicas=[]))
    log.write(9000, RemoveTopicRecord(topic_id=TOPIC_ID))
    store(tmp_path, 1, log.batches)
    found = rows(tmp_path, "topic_history")
    assert [
        (r["event"], r["partition"], r["prev_partitions"], r["partitions"], r["seconds"])
        for r in found
    ] == [
        ("created", None, None, 2, None),
        ("partitions_added", None, 2, 4, None),
        ("reassignment_begun", 0, None, 4, None),
        ("reassignment_ended", 0, None, 4, 2.0),
        ("deleted", None, 4, 0, 8.0),
    ]
    assert {r["topic"] for r in found} == {"orders"}
    assert [r["offset"] for r in found][:2] == [1, 4]


def test_feature_and_voter_changes_are_listed(tmp_path):
    log = Log().lead(1, 0)
    log.write(1000, FeatureLevelRecord(name="metadata.version", feature_level=29))
    log.write(2000, FeatureLevelRecord(name="metadata.version", feature_level=30))
    log.write(3000, FeatureLevelRecord(name="group.version", feature_level=1))
    store(tmp_path, 1, log.batches)
    found = rows(tmp_path, "feature_history")
    assert [
        (r["name"], r["old_level"], r["new_level"], r["release"], r["event"]) for r in found
    ] == [
        ("metadata.version", None, 29, "4.2-IV1", "set"),
        ("metadata.version", 29, 30, "4.3-IV0", "upgraded"),
        ("group.version", None, 1, None, "set"),
    ]
    voters = rows(tmp_path, "voter_history")
    assert [(r["event"], r["voter_id"], r["voters"]) for r in voters] == [
        ("initial", voter, [1, 2, 3]) for voter in (1, 2, 3)
    ]


def acl(number, principal="User:a"):
    return AccessControlEntryRecord(
        id=bytes(15) + bytes([number]),
        resource_type=2,
        resource_name="orders",
        pattern_type=3,
        principal=principal,
        host="*",
        operation=3,
        permission_type=3,
    )


def test_acl_history_hides_secrets(tmp_path):
    scram = {"name": "u", "mechanism": 1, "salt": b"pepper", "stored_key": b"s", "server_key": b"k"}
    token = {
        "owner": "User:o",
        "requester": "User:o",
        "renewers": ["User:r"],
        "issue_timestamp": 1,
        "max_timestamp": 9,
        "expiration_timestamp": 5,
        "token_id": "sesame",
    }
    log = Log().lead(1, 0).write(1000, acl(1), acl(2))
    log.write(2000, RemoveAccessControlEntryRecord(id=acl(1).id))
    log.write(3000, UserScramCredentialRecord(iterations=4096, **scram))
    log.write(4000, UserScramCredentialRecord(iterations=8192, **scram))
    log.write(5000, DelegationTokenRecord(**token), RemoveDelegationTokenRecord(token_id="sesame"))
    store(tmp_path, 1, log.batches)
    found = rows(tmp_path, "acl_history")
    assert [(r["kind"], r["event"], r["principal"]) for r in found] == [
        ("acl", "added", "User:a"),
        ("acl", "added", "User:a"),
        ("acl", "removed", "User:a"),
        ("scram", "added", "User:u"),
        ("scram", "changed", "User:u"),
        ("token", "added", "User:o"),
        ("token", "removed", "User:o"),
    ]
    assert (found[0]["resource_type"], found[0]["operation"]) == ("TOPIC", "READ")
    everything = json.dumps([found, rows(tmp_path), rows(tmp_path, "image")], default=str)
    for secret in ("sesame", "pepper"):
        assert secret not in everything
    assert found[5]["id"] == found[6]["id"]


def test_record_transaction_counts_when_it_has_ended(tmp_path):
    log = Log().lead(1, 0)
    log.write(1000, BeginTransactionRecord(), acl(1))
    log.write(2000, acl(2), EndTransactionRecord())
    log.write(3000, BeginTransactionRecord(), acl(3), AbortTransactionRecord(reason="no"))
    log.write(4000, BeginTransactionRecord(), acl(4))
    store(tmp_path, 1, log.batches)
    assert [r["offset"] for r in rows(tmp_path, "acl_history")] == [2, 3]
    assert len([r for r in rows(tmp_path, "image") if r["kind"] == "acl"]) == 2


def test_tasks_cut_at_snapshots_return_same_rows(tmp_path):
    log = cluster()
    directory = store(tmp_path, 1, log.batches)
    plain = {name: rows(tmp_path, name) for name in ("isr_changes", "leader_changes")}
    state = [broker(11), broker(12, fenced=True), broker(13)]
    state += [TopicRecord(name="orders", topic_id=TOPIC_ID), partition(isr=[11, 13])]
    unfenced = [fence(11, fenced=-1), fence(13, fenced=-1)]
    whole = metadata_batch(0, 1, [*state, *unfenced], 4000)
    (directory / f"{12:020d}-{1:010d}.checkpoint").write_bytes(whole)
    for name, expected in plain.items():
        assert rows(tmp_path, name, splitBytes="1") == expected
        assert len(expected) > 2


# --- as of


def kinds(found):
    return {kind: sum(r["kind"] == kind for r in found) for kind in {r["kind"] for r in found}}


def test_image_has_the_current_state(told):
    found = rows(told, "image")
    one = next(r for r in found if r["kind"] == "partition")
    assert (one["name"], one["leader"], one["isr"], one["leader_epoch"]) == (
        "orders-0",
        12,
        [12],
        3,
    )
    brokers = {r["broker_id"]: r["fenced"] for r in found if r["kind"] == "broker"}
    assert brokers == {11: False, 12: False, 13: True}
    configs = [(r["topic"], r["name"], r["value"]) for r in found if r["kind"] == "config"]
    assert configs == [("orders", "min.insync.replicas", "2")]
    assert {r["offset"] for r in found} == {20}


def test_image_is_that_of_offset_or_time(told):
    for how in (
        {"asOfOffset": "12"},
        {"asOfTimestamp": "5999"},
        {"asOfTimestamp": "1970-01-01T00:00:05Z"},
    ):
        [one] = [r for r in rows(told, "image", **how) if r["kind"] == "partition"]
        assert (one["leader"], one["isr"], one["offset"]) == (11, [11], 12)
        assert len(rows(told, "isr_changes", **how)) == 2
    with pytest.raises(DataUnreadable, match="asOfOffset 99"):
        rows(told, "image", asOfOffset="99")


def test_batches_and_control_records_are_listed(told):
    log = cluster()
    found = rows(told, "batches")
    assert [r["batch_bytes"] for r in found] == [len(b) for b in log.batches]
    assert all(r["crc_valid"] for r in found)
    [control] = rows(told, "control")
    assert (control["type"], control["leader_id"], control["voters"]) == (
        "LEADER_CHANGE",
        1,
        [1, 2, 3],
    )
    assert rows(told, "snapshots") == []
    (told / "node-1" / "__cluster_metadata-0" / f"{5:020d}-{1:010d}.checkpoint").write_bytes(
        log.batches[3]
    )
    [snapshot] = rows(told, "snapshots")
    assert (snapshot["topics"], snapshot["partitions"], snapshot["records"]) == (1, 1, 3)
    assert "no foot" in snapshot["error"]


def test_missing_records_are_an_error(tmp_path):
    directory = store(tmp_path, 1, standard().batches, segment_bytes=200)
    segments = sorted(directory.glob("*.log"))
    assert len(segments) > 2
    segments[1].unlink()
    with pytest.raises(DataUnreadable, match="are missing"):
        rows(tmp_path, "partition_history")
