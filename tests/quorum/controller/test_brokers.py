"""Registration, heartbeats, fencing and controlled shutdown as decisions."""

import pytest

from node.runtime.steps import at_once
from quorum.controller.brokers import (
    ProcessedPartitions,
    State,
    changes_of_new_incarnation,
    check_registration,
    fence_broker,
    heartbeat,
    partitions_of_old_incarnation,
    register_broker,
    same_endpoints,
    unregister_broker,
)
from quorum.controller.leases import Lease
from tests.quorum.controller.states import eligible_leaders, state_of
from tests.quorum.metadata.build import (
    broker,
    change,
    changed_broker,
    features,
    image_of,
    partition,
    topic,
    uid,
)
from wire.errors import ErrorCode, KafkaError
from wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from wire.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from wire.records.brokers import UnregisterBrokerRecord
from wire.records.features import FeatureLevelRecord
from wire.records.metadata import encode_metadata_record, metadata_record_version

CLUSTER_ID = "5L6g3nShT-eMCtK--X86sw"


def registration(broker_id=1, **changes):
    values = {
        "broker_id": broker_id,
        "cluster_id": CLUSTER_ID,
        "incarnation_id": uid(77),
        "listeners": [
            Listener(name="PLAINTEXT", host="localhost", port=9000 + broker_id, security_protocol=0)
        ],
        "features": [
            Feature(name="metadata.version", min_supported_version=7, max_supported_version=30)
        ],
        "rack": None,
        "log_dirs": [uid(500 + broker_id)],
    }
    return BrokerRegistrationRequest(**(values | changes))


def register(image, request, *, alive=False):
    check_registration(request, image, cluster_id=CLUSTER_ID, other_is_alive=alive)
    return register_broker(request, state_of(image), broker_epoch=900)


def refused(image, request, **more):
    with pytest.raises(KafkaError) as caught:
        register(image, request, **more)
    return caught.value.code


# --- registration


def test_a_new_broker_is_registered_fenced():
    image = image_of(features())
    result = register(image, registration())
    assert result.response.broker_epoch == 900
    found = image_of(*result.records, base=image).cluster.brokers[1]
    assert (found.fenced, found.epoch, found.directories) == (True, 900, (uid(501),))
    assert found.listeners[0].port == 9001


def test_the_same_incarnation_keeps_epoch_and_state():
    """C3, KAFKA-16952."""
    image = image_of(
        features(), broker(1, incarnation_id=uid(77)), changed_broker(1, in_controlled_shutdown=1)
    )
    result = register(image, registration(rack="r2"), alive=True)
    assert result.response.broker_epoch == 101
    found = image_of(*result.records, base=image).cluster.brokers[1]
    assert (found.epoch, found.fenced, found.in_controlled_shutdown, found.rack) == (
        101,
        False,
        True,
        "r2",
    )


def test_a_new_incarnation_is_out_of_sync_everywhere():
    """KAFKA-15495: it may have lost its disk."""
    image = image_of(
        features(),
        broker(1),
        broker(2),
        topic("t", 1),
        partition(1, 0, [1, 2]),
        partition(1, 1, [2, 1]),
    )
    result = register(image, registration())
    assert result.records[:2] == [change(1, 0, isr=[2], leader=2), change(1, 1, isr=[2])]
    found = image_of(*result.records, base=image)
    assert (found.cluster.brokers[1].epoch, found.cluster.brokers[1].fenced) == (900, True)


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (registration(cluster_id="another"), ErrorCode.INCONSISTENT_CLUSTER_ID),
        (registration(-1), ErrorCode.INVALID_REGISTRATION),
        (registration(is_migrating_zk_broker=True), ErrorCode.BROKER_ID_NOT_REGISTERED),
        (registration(log_dirs=[]), ErrorCode.INVALID_REGISTRATION),
        (registration(log_dirs=[uid(1), uid(1)]), ErrorCode.INVALID_REGISTRATION),
        (registration(log_dirs=[(99).to_bytes(16, "big")]), ErrorCode.INVALID_REGISTRATION),
        (registration(log_dirs=[uid(502)]), ErrorCode.INVALID_REGISTRATION),
        (registration(features=[]), ErrorCode.INVALID_REGISTRATION),
        (
            registration(listeners=[Listener(name="", host="h", port=1, security_protocol=0)]),
            ErrorCode.INVALID_REGISTRATION,
        ),
        (
            registration(
                features=[
                    Feature(
                        name="metadata.version", min_supported_version=7, max_supported_version=29
                    )
                ]
            ),
            ErrorCode.UNSUPPORTED_VERSION,
        ),
    ],
)
def test_what_cannot_register(request_, code):
    image = image_of(features(), broker(2))
    assert refused(image, request_) is code


def test_a_finalized_feature_that_the_broker_does_not_name():
    image = image_of(features(), FeatureLevelRecord(name="group.version", feature_level=1))
    assert refused(image, registration()) is ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize("level", [7, 12, 16, 17, 29, 30])
def test_at_every_metadata_version_records_say_what_it_has_room_for(level):
    """Directories came with 3.7-IV2, cordoned ones with 4.3-IV0; a record that cannot be written would cost the
    controller its leadership.
    """
    image = image_of(features(level))
    made = register(image, registration(log_dirs=[uid(501), uid(601)])).records
    image = image_of(*made, changed_broker(1, epoch=900, fenced=-1), base=image)
    assert image.cluster.brokers[1].directories == ((uid(501), uid(601)) if level >= 17 else ())
    wishes = {"offline_log_dirs": [uid(601)], "cordoned_log_dirs": []}
    changed = beat(image, epoch=900, **wishes).records
    assert [(one.log_dirs, one.cordoned_log_dirs) for one in changed] == (
        [([uid(501)], None)] * (level >= 17) + [([], [])] * (level >= 30)
    )
    for record in (*made, *changed):
        encode_metadata_record(record, metadata_record_version(type(record), level))


def test_brokers_from_before_directories_name_none():
    image = image_of(features(16))
    assert register(image, registration(log_dirs=[])).response.broker_epoch == 900


def test_another_process_while_the_first_is_alive():
    image = image_of(features(), broker(1))
    assert refused(image, registration(), alive=True) is ErrorCode.DUPLICATE_BROKER_REGISTRATION


def test_two_processes_cannot_have_the_same_endpoints():
    known = image_of(features(), broker(1)).cluster.brokers[1]
    assert same_endpoints(known, registration())
    assert not same_endpoints(known, registration(2))
    assert not same_endpoints(known, registration(listeners=[]))


# --- heartbeats


def beat(image, *, lease=None, registered_at=101, lowest=None, epoch=101, **wishes):
    request = BrokerHeartbeatRequest(
        broker_id=1,
        broker_epoch=epoch,
        current_metadata_offset=wishes.pop("offset", 500),
        want_fence=wishes.pop("want_fence", False),
        want_shut_down=wishes.pop("want_shut_down", False),
        **wishes,
    )
    lease = lease or Lease(1, 101, 10.0)
    return at_once(
        heartbeat(
            request,
            state_of(image),
            lease,
            registered_at=registered_at,
            lowest_active_offset=lowest,
        )
    )


def test_a_broker_that_has_caught_up_is_unfenced_and_leads_again():
    image = image_of(
        features(), broker(1, fenced=True), topic("t", 1), partition(1, 0, [1], leader=-1)
    )
    result = beat(image)
    assert result.response.state is State.UNFENCED
    assert result.records == [changed_broker(1, fenced=-1), change(1, 0, leader=1)]


def test_a_broker_that_has_not_seen_its_registration_stays_fenced():
    result = beat(image_of(features(), broker(1, fenced=True)), offset=100)
    assert (result.response.is_caught_up, result.response.is_fenced, result.records) == (
        False,
        True,
        [],
    )


def test_a_broker_that_wants_to_stay_fenced_does():
    assert beat(image_of(features(), broker(1, fenced=True)), want_fence=True).records == []


def test_a_live_broker_changes_nothing():
    result = beat(image_of(features(), broker(1)))
    assert (result.records, result.response.state, result.response.is_fenced) == (
        [],
        State.UNFENCED,
        False,
    )


def test_a_broker_can_ask_to_be_fenced():
    image = image_of(features(), broker(1), broker(2), topic("t", 1), partition(1, 0, [1, 2]))
    result = beat(image, want_fence=True)
    assert result.records == [change(1, 0, isr=[2], leader=2), changed_broker(1, fenced=1)]


def test_a_fenced_broker_may_go_at_once():
    result = beat(image_of(features(), broker(1, fenced=True)), want_shut_down=True)
    assert (result.response.should_shut_down, result.records) == (True, [])


def test_a_broker_that_leads_nothing_may_go_at_once():
    image = image_of(features(), broker(1), broker(2), topic("t", 1), partition(1, 0, [2, 1]))
    result = beat(image, want_shut_down=True)
    assert result.response.should_shut_down
    assert result.records == [change(1, 0, isr=[2]), changed_broker(1, fenced=1)]


def test_a_leader_hands_over_before_it_goes():
    image = image_of(features(), broker(1), broker(2), topic("t", 1), partition(1, 0, [1, 2]))
    result = beat(image, want_shut_down=True)
    assert result.response.shutting_down
    assert result.records == [
        changed_broker(1, in_controlled_shutdown=1),
        change(1, 0, isr=[2], leader=2),
    ]
    image = image_of(*result.records, base=image)
    # it waits until everybody has applied that it leads nothing any more
    lease = Lease(1, 101, 10.0, shutdown_offset=600)
    assert beat(image, lease=lease, lowest=599, want_shut_down=True).response.shutting_down
    result = beat(image, lease=lease, lowest=600, want_shut_down=True)
    assert result.response.should_shut_down
    assert result.records == [changed_broker(1, fenced=1)]


def test_a_leader_without_successor_keeps_its_partition():
    image = image_of(features(), broker(1), topic("t", 1), partition(1, 0, [1]))
    result = beat(image, want_shut_down=True)
    found = image_of(*result.records, base=image).topics.by_name["t"].partitions[0]
    assert (found.leader, found.isr) == (-1, (1,))


def test_a_heartbeat_of_another_incarnation():
    for image in (image_of(features(), broker(1)), image_of(features())):
        with pytest.raises(KafkaError) as caught:
            beat(image, epoch=7)
        assert caught.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_a_directory_that_failed_takes_its_replicas_out():
    image = image_of(
        features(),
        broker(1, log_dirs=[uid(501), uid(601)]),
        broker(2),
        topic("t", 1),
        partition(1, 0, [1, 2]),
        partition(1, 1, [1, 2], directories=[uid(601), uid(502)]),
    )
    result = beat(image, offline_log_dirs=[uid(601), uid(9)])
    assert result.records == [
        change(1, 1, isr=[2], leader=2),
        changed_broker(1, log_dirs=[uid(501)]),
    ]


def test_a_directory_that_failed_before_the_broker_serves_gets_no_leaderships():
    """Its only replicas would be led where nobody can read them, until the broker is fenced again."""
    image = image_of(
        features(),
        broker(1, fenced=True, log_dirs=[uid(501), uid(601)]),
        topic("t", 1),
        partition(1, 0, [1], leader=-1, directories=[uid(601)]),
        partition(1, 1, [1], leader=-1, directories=[uid(501)]),
    )
    first = beat(image, offline_log_dirs=[uid(601)])
    assert first.records == [changed_broker(1, log_dirs=[uid(501)])]
    assert first.response.is_fenced
    image = image_of(*first.records, base=image)
    second = beat(image, offline_log_dirs=[uid(601)])
    assert second.records == [changed_broker(1, fenced=-1), change(1, 1, leader=1)]


def test_cordoned_directories_are_written_when_they_change():
    image = image_of(features(), broker(1))
    assert beat(image, cordoned_log_dirs=[]).records == [changed_broker(1, cordoned_log_dirs=[])]
    image = image_of(changed_broker(1, cordoned_log_dirs=[]), base=image)
    assert beat(image, cordoned_log_dirs=[]).records == []


def test_only_directories_that_the_broker_has_are_cordoned():
    """What else it names would be in the log and in the image for good."""
    image = image_of(features(), broker(1, log_dirs=[uid(501), uid(601)]))
    named = [uid(601), uid(900), uid(601)]
    records = beat(image, cordoned_log_dirs=named).records
    assert records == [changed_broker(1, cordoned_log_dirs=[uid(601)])]
    assert beat(image_of(*records, base=image), cordoned_log_dirs=named).records == []


# --- the end


def test_fencing_takes_a_broker_out_of_everything():
    """C4."""
    image = image_of(
        features(),
        broker(1),
        broker(2),
        topic("t", 1),
        partition(1, 0, [1, 2]),
        partition(1, 1, [2, 1]),
    )
    found = image_of(*at_once(fence_broker(state_of(image), image.cluster.brokers[1])), base=image)
    assert found.cluster.brokers[1].fenced
    assert all(
        p.isr == (2,) and p.leader == 2 for p in found.topics.by_name["t"].partitions.values()
    )


def test_an_unregistered_broker_is_gone_and_stays_assigned():
    image = image_of(features(), broker(1), broker(2), topic("t", 1), partition(1, 0, [1, 2]))
    records = at_once(unregister_broker(state_of(image), 1)).records
    assert records[-1] == UnregisterBrokerRecord(broker_id=1, broker_epoch=101)
    found = image_of(*records, base=image)
    assert list(found.cluster.brokers) == [2]
    assert (
        found.topics.by_name["t"].partitions[0].replicas,
        found.topics.by_name["t"].partitions[0].isr,
    ) == ((1, 2), (2,))


def test_a_broker_that_never_registered_cannot_be_removed():
    with pytest.raises(KafkaError) as caught:
        at_once(unregister_broker(state_of(image_of(features())), 9))
    assert caught.value.code is ErrorCode.BROKER_ID_NOT_REGISTERED


@pytest.mark.parametrize(("previous", "stays_eligible"), [(101, True), (100, False), (-1, False)])
def test_who_may_have_lost_data_is_struck_wherever_it_was_in_sync_or_eligible(
    previous, stays_eligible
):
    """KIP-966, P4: only the epoch of its last life, noted when all was on disk, keeps it eligible; it is in sync
    nowhere.
    """
    image = image_of(
        features(),
        eligible_leaders(),
        broker(1),
        broker(2),
        broker(3),
        topic("t", 1),
        partition(1, 0, [1, 2, 3]),
        partition(1, 1, [2, 1, 3], isr=[2, 3], eligible_leader_replicas=[1]),
        partition(1, 2, [1, 2], isr=[], leader=-1, eligible_leader_replicas=[1]),
        partition(1, 3, [2, 1, 3], isr=[2, 3]),
        partition(1, 4, [2, 3]),
    )
    request = registration(previous_broker_epoch=previous)
    left = partitions_of_old_incarnation(request, state_of(image), ProcessedPartitions())
    struck = [(uid(1), 0)] + ([] if stays_eligible else [(uid(1), 1), (uid(1), 2)])
    assert sorted(left) == sorted(struck)
    for keys in (None, left):
        records = changes_of_new_incarnation(request, state_of(image), keys)
        changed = {record.partition_id for record in records}
        assert changed == {index for _, index in struck}
        found = image_of(*records, base=image).topics.by_name["t"].partitions
        assert 1 not in found[0].isr
        assert found[0].leader in (2, 3)
        assert [1 in one.elr for one in (found[1], found[2])] == [stays_eligible] * 2
