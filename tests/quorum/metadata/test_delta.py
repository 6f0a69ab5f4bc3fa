"""IMAGE1 + RECORDS = IMAGE2, one part after another; and the queries of publishers."""

from dataclasses import replace

import pytest
from immutables import Map

from tests.quorum.metadata.build import (
    SOMEWHERE,
    broker,
    change,
    changed_broker,
    config,
    features,
    image_of,
    partition,
    replay,
    topic,
    uid,
)
from trimaran.quorum.metadata.delta import MetadataDelta
from trimaran.quorum.metadata.image import MIGRATING_DIRECTORY, PartitionImage
from trimaran.quorum.metadata.tokens import held_bytes
from trimaran.wire.errors import RemoteProtocolError
from trimaran.wire.records.brokers import (
    ControllerEndpoint,
    FenceBrokerRecord,
    RegisterControllerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    UnregisterControllerRecord,
)
from trimaran.wire.records.features import FeatureLevelRecord
from trimaran.wire.records.metadata import UnknownRecord
from trimaran.wire.records.misc import NoOpRecord, ZkMigrationStateRecord
from trimaran.wire.records.producer_ids import ProducerIdsRecord
from trimaran.wire.records.quotas import ClientQuotaRecord, EntityData
from trimaran.wire.records.registry import METADATA_RECORDS
from trimaran.wire.records.security import (
    AccessControlEntryRecord,
    DelegationTokenRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from trimaran.wire.records.topics import ClearElrRecord, RemoveTopicRecord


def test_every_record_type_of_the_log_is_known():
    from trimaran.quorum.metadata.delta import _REPLAYS

    assert {*METADATA_RECORDS.values(), UnknownRecord} == set(_REPLAYS)


def test_message_that_is_no_record_is_refused():
    from trimaran.wire.messages.fetch import FetchResponse

    with pytest.raises(RemoteProtocolError):
        replay([FetchResponse(responses=[])])


# --- topics


def test_topic_gets_its_partitions():
    image = image_of(topic("t", 1), partition(1, 0, [1, 2]), partition(1, 1, [2, 1]))
    found = image.topics.by_name["t"]
    assert image.topics.by_id[uid(1)] is found
    assert found.partitions[1] == PartitionImage(
        replicas=(2, 1), directories=(uid(502), uid(501)), isr=(2, 1), leader=2
    )


def test_partition_epoch_always_grows_leader_epoch_with_leader():
    image = image_of(topic("t", 1), partition(1, 0, [1, 2, 3], leader_epoch=4, partition_epoch=7))
    image = image_of(change(1, 0, isr=[1, 2]), base=image)
    assert (image.topics.by_name["t"].partitions[0].leader_epoch) == 4
    image = image_of(change(1, 0, leader=2, isr=[2]), base=image)
    found = image.topics.by_name["t"].partitions[0]
    assert (found.leader, found.isr, found.leader_epoch, found.partition_epoch) == (2, (2,), 5, 9)


def test_record_with_same_leader_begins_leader_epoch():
    image = image_of(topic("t", 1), partition(1, 0, [1, 2]), change(1, 0, leader=1))
    assert image.topics.by_name["t"].partitions[0].leader_epoch == 1


def test_replicas_and_directories_change_together():
    image = image_of(
        topic("t", 1),
        partition(1, 0, [1, 2]),
        change(
            1,
            0,
            replicas=[1, 3],
            directories=[uid(501), uid(503)],
            adding_replicas=[3],
            removing_replicas=[2],
        ),
    )
    found = image.topics.by_name["t"].partitions[0]
    assert found.replicas == (1, 3)
    assert found.directory_of(3) == uid(503)
    assert (found.adding, found.removing) == ((3,), (2,))


def test_log_without_directories_leaves_them_to_brokers():
    image = image_of(topic("t", 1), partition(1, 0, [1, 2], directories=[]))
    assert image.topics.by_name["t"].partitions[0].directories == (MIGRATING_DIRECTORY,) * 2


def test_directory_count_must_equal_replica_count():
    with pytest.raises(RemoteProtocolError):
        replay([topic("t", 1), partition(1, 0, [1, 2], directories=[uid(501)])])


def test_topic_created_and_deleted_leaves_no_trace():
    delta = replay(
        [
            topic("t", 1),
            config("retention.ms", "1"),
            partition(1, 0, [1]),
            RemoveTopicRecord(topic_id=uid(1)),
        ]
    )
    assert (delta.topics.created, delta.topics.deleted, delta.topics.changed) == ({}, {}, {})
    assert delta.configs.changed == {}
    assert delta.topics.touched_names() == []
    assert delta.apply(SOMEWHERE).topics == MetadataDelta(delta.image).apply(SOMEWHERE).topics


def test_recreated_topic_is_deleted_and_created():
    image = image_of(topic("t", 1), partition(1, 0, [1]), config("retention.ms", "1"))
    delta = replay([RemoveTopicRecord(topic_id=uid(1)), topic("t", 2), partition(2, 0, [2])], image)
    assert delta.topics.created == {uid(2): "t"}
    assert list(delta.topics.deleted) == [uid(1)]
    assert delta.topics.touched_names() == ["t"]
    after = delta.apply(SOMEWHERE)
    assert after.topics.by_name["t"].id == uid(2)
    assert list(after.topics.by_id) == [uid(2)]
    assert after.configs.of(2, "t") == Map()


def test_changed_topic_can_be_deleted():
    image = image_of(topic("t", 1), partition(1, 0, [1, 2]))
    delta = replay([change(1, 0, isr=[1]), RemoveTopicRecord(topic_id=uid(1))], image)
    assert delta.topics.changed == {}
    assert delta.topics.deleted[uid(1)] is image.topics.by_id[uid(1)]


def test_delta_holds_old_and_new_state():
    image = image_of(topic("t", 1), partition(1, 0, [1, 2]), partition(1, 1, [2, 1]))
    delta = replay([change(1, 1, leader=1)], image)
    (found,) = delta.topics.changed.values()
    assert (found.name, found.id, list(found.partitions)) == ("t", uid(1), [1])
    assert found.image.partitions[1].leader == 2
    assert found.partitions[1].leader == 1
    assert delta.topics.created == {}


@pytest.mark.parametrize(
    "record",
    [
        change(9, 0, isr=[1]),
        change(1, 5, isr=[1]),
        partition(9, 0, [1]),
        RemoveTopicRecord(topic_id=uid(9)),
    ],
)
def test_log_not_matching_image_is_detected(record):
    image = image_of(topic("t", 1), partition(1, 0, [1]))
    with pytest.raises(RemoteProtocolError):
        replay([record], image)


def test_change_of_deleted_topic_is_refused():
    image = image_of(topic("t", 1), partition(1, 0, [1]))
    with pytest.raises(RemoteProtocolError):
        replay([RemoveTopicRecord(topic_id=uid(1)), change(1, 0, isr=[1])], image)


def test_eligible_leaders_are_kept_and_cleared():
    image = image_of(
        topic("t", 1),
        partition(1, 0, [1, 2], isr=[1], eligible_leader_replicas=[2], last_known_elr=[2]),
        topic("u", 2),
        partition(2, 0, [1, 2], isr=[1], eligible_leader_replicas=[2]),
    )
    one = image_of(ClearElrRecord(topic_name="t"), base=image)
    assert (
        one.topics.by_name["t"].partitions[0].elr,
        one.topics.by_name["u"].partitions[0].elr,
    ) == ((), (2,))
    both = image_of(ClearElrRecord(topic_name=""), base=image)
    assert [t.partitions[0].elr for t in both.topics.by_id.values()] == [(), ()]


# --- cluster


def test_broker_is_registered_unfenced_fenced_and_removed():
    image = image_of(broker(1, fenced=True))
    assert not image.cluster.brokers[1].active
    image = image_of(changed_broker(1, fenced=-1), base=image)
    assert image.cluster.brokers[1].active
    image = image_of(changed_broker(1, fenced=1), base=image)
    assert image.cluster.brokers[1].fenced
    delta = replay([UnregisterBrokerRecord(broker_id=1, broker_epoch=101)], image)
    assert delta.cluster.changed_brokers == {1: None}
    assert delta.apply(SOMEWHERE).cluster.brokers == Map()


def test_old_fencing_records_are_applied():
    image = image_of(broker(1, fenced=True), UnfenceBrokerRecord(id=1, epoch=101))
    assert not image.cluster.brokers[1].fenced
    assert image_of(FenceBrokerRecord(id=1, epoch=101), base=image).cluster.brokers[1].fenced


def test_broker_change_sets_shutdown_and_directories():
    image = image_of(
        broker(1),
        changed_broker(1, in_controlled_shutdown=1, log_dirs=[uid(7)], cordoned_log_dirs=[]),
    )
    found = image.cluster.brokers[1]
    assert found.in_controlled_shutdown
    assert not found.active
    assert (found.directories, found.cordoned_directories) == ((uid(7),), ())


def test_ineffective_change_leaves_image_unchanged():
    delta = replay([changed_broker(1, fenced=-1)], image_of(broker(1, fenced=False)))
    assert delta.cluster.changed_brokers == {}


@pytest.mark.parametrize(
    "record", [changed_broker(1, epoch=7, fenced=1), changed_broker(2, fenced=1)]
)
def test_records_of_another_incarnation_are_refused(record):
    with pytest.raises(RemoteProtocolError):
        replay([record], image_of(broker(1)))


def controller(controller_id):
    return RegisterControllerRecord(
        controller_id=controller_id,
        incarnation_id=uid(controller_id),
        zk_migration_ready=False,
        end_points=[ControllerEndpoint(name="C", host="h", port=1, security_protocol=0)],
        features=[],
    )


def test_controller_registration_is_applied():
    image = image_of(controller(3))
    assert image.cluster.controllers[3].listeners[0].host == "h"


def test_unregistered_controller_leaves_the_image():
    image = image_of(*(controller(number) for number in (3, 4)))
    assert set(image.cluster.controllers) == {3, 4}
    gone = UnregisterControllerRecord(controller_id=3)
    assert set(image_of(gone, base=image).cluster.controllers) == {4}
    assert set(image_of(gone, gone, base=image).cluster.controllers) == {4}
    again = image_of(gone, controller(3), base=image)
    assert set(again.cluster.controllers) == {3, 4}


# --- the rest


def test_configs_are_set_and_deleted():
    image = image_of(config("a", "1"), config("b", "2"), config("a", "1", (4, "")))
    delta = replay([config("a", None), config("c", "3")], image)
    assert delta.configs.changed == {(2, "t"): {"a": None, "c": "3"}}
    after = delta.apply(SOMEWHERE)
    assert dict(after.configs.of(2, "t")) == {"b": "2", "c": "3"}
    assert dict(after.configs.of(4, "")) == {"a": "1"}


def test_a_resource_without_configs_has_no_entry():
    image = image_of(config("a", "1"))
    assert image_of(config("a", None), base=image).configs.by_resource == Map()


def test_feature_at_level_zero_is_removed():
    image = image_of(features(), FeatureLevelRecord(name="group.version", feature_level=1))
    assert (image.features.metadata_version, dict(image.features.levels)) == (
        30,
        {"group.version": 1},
    )
    image = image_of(FeatureLevelRecord(name="group.version", feature_level=0), base=image)
    assert image.features.levels == Map()


def test_quorum_level_is_no_feature_of_image():
    assert (
        image_of(FeatureLevelRecord(name="kraft.version", feature_level=1)).features.levels == Map()
    )


def test_next_producer_id_follows_its_record():
    assert image_of().producer_ids.next_producer_id == -1
    image = image_of(ProducerIdsRecord(broker_id=1, next_producer_id=1000))
    assert image.producer_ids.next_producer_id == 1000


ACL = AccessControlEntryRecord(
    id=uid(1), resource_type=2, resource_name="t", pattern_type=3, principal="User:a", host="*", operation=3,
    permission_type=3,
)  # fmt: skip
SCRAM = UserScramCredentialRecord(
    name="a", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096
)
TOKEN = DelegationTokenRecord(
    owner="User:a", requester="User:a", renewers=[], issue_timestamp=1, max_timestamp=2, expiration_timestamp=2,
    token_id="t",
)  # fmt: skip


def quota(value: float, *, remove: bool = False) -> ClientQuotaRecord:
    entity = [
        EntityData(entity_type="user", entity_name=None),
        EntityData(entity_type="client-id", entity_name="c"),
    ]
    return ClientQuotaRecord(entity=entity, key="producer_byte_rate", value=value, remove=remove)


@pytest.mark.parametrize(
    ("added", "removed", "part"),
    [
        (ACL, RemoveAccessControlEntryRecord(id=uid(1)), "acls"),
        (SCRAM, RemoveUserScramCredentialRecord(name="a", mechanism=1), "scram"),
        (TOKEN, RemoveDelegationTokenRecord(token_id="t"), "tokens"),
        (quota(1.0), quota(0.0, remove=True), "quotas"),
    ],
)
def test_stored_records_are_kept_until_removed(added, removed, part):
    image = image_of(added)
    assert list(getattr(image, part).values()) == [added]
    assert getattr(image_of(removed, base=image), part) == Map()


def test_bytes_of_tokens_follow_their_records():
    large = TOKEN.replace(renewers=["User:" + "b" * 100])
    other = TOKEN.replace(token_id="u")
    removal = RemoveDelegationTokenRecord(token_id="t")
    image = image_of(TOKEN, TOKEN)
    for records, held in (
        ([other], [TOKEN, other]),
        ([large], [large, other]),
        ([removal, large, removal, removal], [other]),
    ):
        image = image_of(*records, base=image)
        assert image.token_bytes == sum(map(held_bytes, held))
    snapshot = MetadataDelta(image)
    snapshot.replay(large)
    snapshot.finish_snapshot()
    assert snapshot.apply(image.provenance).token_bytes == held_bytes(large)


def test_no_op_records_change_nothing():
    image = image_of(topic("t", 1), partition(1, 0, [1]))
    after = image_of(NoOpRecord(), ZkMigrationStateRecord(zk_migration_state=3), base=image)
    assert after.topics is image.topics
    assert after.same_content(image)
    assert after.shares_content(image)


@pytest.mark.parametrize(
    "part",
    [
        "features",
        "cluster",
        "topics",
        "configs",
        "producer_ids",
        "acls",
        "scram",
        "tokens",
        "quotas",
    ],
)
def test_image_with_other_part_shares_no_content(part):
    image = image_of(topic("t", 1), partition(1, 0, [1]))
    other = replace(image, **{part: object()})
    assert not other.shares_content(image)
    assert not other.same_content(image)


def test_delta_does_not_change_its_image():
    image = image_of(topic("t", 1), partition(1, 0, [1, 2]), broker(1), config("a", "1"))
    before = (image.topics, image.cluster, image.configs)
    replay(
        [change(1, 0, isr=[1]), config("a", None), RemoveTopicRecord(topic_id=uid(1))], image
    ).apply(SOMEWHERE)
    assert (image.topics, image.cluster, image.configs) == before
    assert dict(image.configs.of(2, "t")) == {"a": "1"}


def test_equal_partition_parts_are_shared() -> None:
    """A large image takes little memory because its equal parts are the same objects."""
    image = image_of(
        topic("t", 1), *(partition(1, i, [1, 2, 3], directories=[uid(i) for i in (7, 8, 9)]) for i in (0, 1)),
        change(1, 1, isr=[1, 2]), change(1, 1, isr=[1, 2, 3]),
    )  # fmt: skip
    first, second = (image.topics.by_name["t"].partitions[i] for i in (0, 1))
    assert first.replicas is second.replicas is first.isr is second.isr
    assert first.directories is second.directories
