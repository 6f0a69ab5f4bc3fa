"""Registration, fencing and removal of brokers as decisions."""

import pytest

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
from trimaran.node.runtime.steps import at_once
from trimaran.quorum.controller.nodes.brokers import (
    ProcessedPartitions,
    changes_of_new_incarnation,
    check_registration,
    fence_broker,
    partitions_of_old_incarnation,
    register_broker,
    same_endpoints,
    unregister_broker,
)
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from trimaran.wire.records.brokers import UnregisterBrokerRecord
from trimaran.wire.records.features import FeatureLevelRecord

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


def test_broker_0_may_register():
    assert register(image_of(features()), registration(0)).response.broker_epoch == 900


def test_first_hundred_directory_ids_are_reserved():
    """KIP-858."""
    directories = [(100).to_bytes(16, "big")]
    assert register(image_of(features()), registration(log_dirs=directories)).records


def test_handovers_at_registration_may_span_batches():
    assert not register(image_of(features(), broker(1)), registration()).atomic


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
            registration(
                listeners=[
                    Listener(name="A", host="h", port=i, security_protocol=0) for i in (1, 2)
                ]
            ),
            ErrorCode.INVALID_REGISTRATION,
        ),
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
def test_invalid_registrations_are_refused(request_, code):
    image = image_of(features(), broker(2))
    assert refused(image, request_) is code


def test_broker_without_finalized_feature_is_refused():
    image = image_of(features(), FeatureLevelRecord(name="group.version", feature_level=1))
    assert refused(image, registration()) is ErrorCode.UNSUPPORTED_VERSION


def test_brokers_from_before_directories_name_none():
    image = image_of(features(16))
    assert register(image, registration(log_dirs=[])).response.broker_epoch == 900


def test_second_live_process_is_refused():
    image = image_of(features(), broker(1))
    assert refused(image, registration(), alive=True) is ErrorCode.DUPLICATE_BROKER_REGISTRATION


def test_two_processes_cannot_have_the_same_endpoints():
    known = image_of(features(), broker(1)).cluster.brokers[1]
    assert same_endpoints(known, registration())
    assert not same_endpoints(known, registration(2))
    assert not same_endpoints(known, registration(listeners=[]))
    nowhere = image_of(broker(1).replace(end_points=[])).cluster.brokers[1]
    assert not same_endpoints(nowhere, registration(listeners=[])), "that may be two processes"


# --- removal


def test_decided_partition_is_reexamined_only_if_changed():
    """A broker stays in the ISR of partitions whose only replica it is, and may have thousands of them."""
    image = image_of(
        features(), broker(1), topic("t", 1), *(partition(1, index, [1]) for index in range(3))
    )
    keys = [(uid(1), index) for index in range(3)]
    decided = ProcessedPartitions()
    assert decided.others(state_of(image), keys) == keys
    decided.note(state_of(image), keys[:2])
    assert decided.others(state_of(image), keys) == keys[2:]
    image = image_of(change(1, 1, leader=-1), base=image)
    assert decided.others(state_of(image), keys) == keys[1:]


def test_fenced_broker_leaves_isrs_and_leaderships():
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


def test_unregistered_broker_stays_in_assignments():
    image = image_of(features(), broker(1), broker(2), topic("t", 1), partition(1, 0, [1, 2]))
    result = at_once(unregister_broker(state_of(image), 1))
    assert not result.atomic, "it may have been in sync with very many partitions"
    records = result.records
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
def test_unclean_restart_removes_broker_from_isr_and_elr(previous, stays_eligible):
    """KIP-966, P4: the broker stays eligible only if it names the epoch of its last life, written after everything was
    flushed; it is in no ISR.
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
        assert [1 in state.elr for state in (found[1], found[2])] == [stays_eligible] * 2
