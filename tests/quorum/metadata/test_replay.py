"""Replay of logs: any offset, snapshots, transactions, voters, unknown records; and the state as JSON."""

from __future__ import annotations

import json

import pytest

from tests.quorum.metadata.build import broker, features, image_of, uid
from tests.spark.directories import leader_change, metadata_batch
from trimaran.log.batches.batch import iter_batches
from trimaran.log.batches.records import NewRecord, build_batch
from trimaran.quorum.metadata.as_json import state_as_json
from trimaran.quorum.metadata.epochs import epochs_of
from trimaran.quorum.metadata.records import image_to_records
from trimaran.quorum.metadata.replay import LoggedVoter, MetadataState, Replay
from trimaran.quorum.raft.types import OffsetAndEpoch
from trimaran.quorum.raft_log.snapshot_format import encode_snapshot
from trimaran.wire.errors import RemoteProtocolError
from trimaran.wire.messages.control import (
    ControlType,
    Endpoint,
    KRaftVersionFeature,
    KRaftVersionRecord,
    VotersRecord,
    VotersRecordVoter,
    encode_control_key,
    encode_control_value,
)
from trimaran.wire.records.configs import ConfigRecord
from trimaran.wire.records.metadata import UnknownRecord, encode_metadata_record
from trimaran.wire.records.quotas import ClientQuotaRecord, EntityData
from trimaran.wire.records.security import (
    AccessControlEntryRecord,
    DelegationTokenRecord,
    UserScramCredentialRecord,
)
from trimaran.wire.records.topics import PartitionRecord, TopicRecord
from trimaran.wire.records.transactions import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)
from trimaran.wire.text.as_json import HIDDEN

CONFIG = ConfigRecord(resource_type=2, resource_name="t1", name="retention.ms", value="1")


def topic(number):
    return TopicRecord(name=f"t{number}", topic_id=uid(number))


def log(*parts):
    """Returns batches of an epoch of leader 1: each part is a list of records, or the bytes of a finished batch."""
    batches = [leader_change(0, 1, 1, (1, 2, 3), 500)]
    offset = 1
    for part in parts:
        data = part(offset) if callable(part) else metadata_batch(offset, 1, part, 1000 + offset)
        batches.append(data)
        offset = next(iter_batches(memoryview(data))).next_offset
    return list(iter_batches(memoryview(b"".join(batches))))


def replayed(batches, upto=None) -> Replay:
    replay = Replay()
    replay.apply_all(batches, upto)
    return replay


def names(replay):
    return sorted(replay.state.image.topics.by_name)


def test_replay_stops_at_any_offset():
    batches = log([topic(1), topic(2)], [topic(3)])
    found = {upto: names(replayed(batches, upto)) for upto in range(5)}
    assert found == {0: [], 1: [], 2: ["t1"], 3: ["t1", "t2"], 4: ["t1", "t2", "t3"]}
    replay = replayed(batches, 2)
    assert (replay.next_offset, replay.state.image.provenance.offset) == (2, 1)
    replay.apply_all(batches)
    assert names(replay) == ["t1", "t2", "t3"]


def test_snapshot_replaces_the_log_before_it():
    batches = log([topic(1), CONFIG], [topic(2)], [topic(3)])
    whole = replayed(batches, 4).state.image
    values = [encode_metadata_record(r, 0) for r in image_to_records(whole)]
    pieces = list(encode_snapshot(OffsetAndEpoch(4, 1), values, appended_at_ms=9, now_ms=10))
    data = b"".join(pieces)
    replay = Replay()
    replay.load_snapshot(4, 1, data)
    assert replay.state.image.same_content(whole)
    assert replay.state.image.provenance == (3, 1, 9)
    replay.apply_all(batches)  # the content of the snapshot is skipped
    assert names(replay) == ["t1", "t2", "t3"]
    with pytest.raises(RemoteProtocolError, match="footer"):
        Replay().load_snapshot(4, 1, b"".join(pieces[:-1]))


@pytest.mark.parametrize(
    ("end", "seen"), [(EndTransactionRecord(), ["t1", "t2"]), (AbortTransactionRecord(), ["t1"])]
)
def test_record_transactions_become_visible_at_their_end(end, seen):
    batches = log([topic(1)], [BeginTransactionRecord(name="x"), topic(2)], [end])
    assert names(replayed(batches, 4)) == ["t1"]
    assert names(replayed(batches)) == seen


def test_branch_advances_independently():
    batches = log([topic(1)], [topic(2)])
    replay = replayed(batches, 2)
    branch = replay.branch()
    branch.apply_all(batches)
    assert (names(replay), names(branch)) == (["t1"], ["t1", "t2"])
    in_transaction = replayed(log([BeginTransactionRecord(name="x"), topic(1)]))
    assert in_transaction.branch() is None


def control(kind, value):
    def make(offset):
        record = NewRecord(encode_control_key(kind), encode_control_value(value, 0), 2000)
        return build_batch([record], base_offset=offset, leader_epoch=1, is_control=True)

    return make


def voters(*ids):
    return VotersRecord(
        version=0,
        voters=[
            VotersRecordVoter(
                voter_id=id_,
                voter_directory_id=uid(id_),
                endpoints=[Endpoint(name="CONTROLLER", host="h", port=9090 + id_)],
                kraft_version_feature=KRaftVersionFeature(
                    min_supported_version=0, max_supported_version=1
                ),
            )
            for id_ in ids
        ],
    )


def test_voters_are_those_of_the_last_control_record():
    static = replayed(log()).state
    assert [voter.id for voter in static.voters] == [1, 2, 3]
    assert (static.kraft_version, static.leader_id) == (0, 1)
    upgrade = KRaftVersionRecord(version=0, kraft_version=1)
    batches = log(
        control(ControlType.KRAFT_VERSION, upgrade),
        control(ControlType.KRAFT_VOTERS, voters(1, 2)),
        lambda offset: leader_change(offset, 2, 2, (1, 2), 3000),
    )
    state = replayed(batches).state
    assert state.voters[1] == LoggedVoter(2, uid(2), (("CONTROLLER", "h", 9092),), (0, 1))
    assert (state.kraft_version, state.leader_id, len(state.voters)) == (1, 2, 2)


def unknown(offset):
    return build_batch(
        [NewRecord(None, b"\x01\xe7\x07\x00", 1)], base_offset=offset, leader_epoch=1
    )


def test_records_of_later_kafka_are_counted_and_skipped():
    replay = replayed(log(unknown, [topic(1)]))
    unknown_ = replay.state.image.unknown
    assert (unknown_.count, names(replay), replay.next_offset) == (1, ["t1"], 3)
    assert unknown_.kinds == (UnknownRecord(999, 0, 1),)
    assert state_as_json(replay.state)["unknown_records"]["count"] == 1


def test_epochs_have_ranges_and_gaps():
    batches = log([topic(1)], lambda offset: leader_change(offset, 3, 2, (1, 2, 3), 4000))
    first, second = epochs_of(batches)
    assert (first.epoch, first.leader_id, first.first_offset, first.last_offset) == (1, 1, 0, 1)
    assert (first.from_ms, first.to_ms, first.records) == (500, 1001, 2)
    assert (second.epoch, second.leader_id, second.gap_before_ms) == (3, 2, 2999)
    cut = list(epochs_of(batches[1:]))
    assert cut[0].leader_id is None


def test_the_whole_state_as_json_has_no_secret():
    image = image_of(
        features(),
        broker(11, rack="r"),
        topic(1),
        PartitionRecord(
            partition_id=0,
            topic_id=uid(1),
            replicas=[11],
            isr=[11],
            removing_replicas=[],
            adding_replicas=[],
            leader=11,
            leader_epoch=2,
            partition_epoch=3,
        ),
        ConfigRecord(resource_type=2, resource_name="t1", name="retention.ms", value="1"),
        ConfigRecord(resource_type=4, resource_name="", name="ssl.key.password", value="sesame"),
        ConfigRecord(resource_type=4, resource_name="", name="retention.ms", value="sesame"),
        UserScramCredentialRecord(
            name="u",
            mechanism=1,
            salt=b"pepper",
            stored_key=b"sk",
            server_key=b"vk",
            iterations=8192,
        ),
        DelegationTokenRecord(
            owner="User:o",
            requester="User:r",
            renewers=[],
            issue_timestamp=1,
            max_timestamp=2,
            expiration_timestamp=3,
            token_id="id",
        ),
        ClientQuotaRecord(
            entity=[EntityData(entity_type="user", entity_name=None)],
            key="producer_byte_rate",
            value=1024.0,
            remove=False,
        ),
        AccessControlEntryRecord(
            id=uid(9),
            resource_type=2,
            resource_name="*",
            pattern_type=3,
            principal="User:a",
            host="*",
            operation=3,
            permission_type=3,
        ),
    )
    shown = json.loads(json.dumps(state_as_json(MetadataState(image, (LoggedVoter(1),), 1))))
    partition = shown["topics"]["t1"]["partitions"][0]
    assert (partition["partition"], partition["leader"], partition["isr"]) == (0, 11, [11])
    assert (partition["leader_epoch"], partition["partition_epoch"]) == (2, 3)
    assert shown["configs"] == [
        {"resource_type": "TOPIC", "resource_name": "t1", "config": {"retention.ms": "1"}},
        {
            "resource_type": "BROKER",
            "resource_name": "",
            # The second is the name of a topic, unknown to brokers.
            "config": {"ssl.key.password": HIDDEN, "retention.ms": HIDDEN},
        },
    ]
    assert shown["scram"] == {"u": ["SCRAM-SHA-256:8192"]}
    assert shown["client_quotas"] == [
        {"entity": {"user": None}, "values": {"producer_byte_rate": 1024.0}}
    ]
    assert shown["features"] == {"kraft.version": 1, "metadata.version": 30}
    assert (shown["acls"][0]["operation"], shown["acls"][0]["permission_type"]) == ("READ", "ALLOW")
    assert shown["brokers"]["11"]["rack"] == "r"
    assert shown["delegation_tokens"][0]["owner"] == "User:o"
    assert shown["voters"][0]["directory_id"] is None
    assert not any(secret in json.dumps(shown) for secret in ("sesame", "pepper", "cGVwcGVy"))
