"""Heartbeats as decisions: a broker is unfenced, fenced, released, and loses directories."""

import pytest

from tests.quorum.controller.nodes.test_brokers import register, registration
from tests.quorum.controller.states import state_of
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
from trimaran.quorum.controller.handlers.broker_heartbeat import BrokerControlState, heartbeat
from trimaran.quorum.controller.nodes.leases import Lease
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from trimaran.wire.records.metadata import encode_metadata_record, metadata_record_version


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


def test_caught_up_broker_is_unfenced_and_leads_again():
    image = image_of(
        features(), broker(1, fenced=True), topic("t", 1), partition(1, 0, [1], leader=-1)
    )
    result = beat(image)
    assert result.response.state is BrokerControlState.UNFENCED
    assert result.records == [changed_broker(1, fenced=-1), change(1, 0, leader=1)]


def test_broker_behind_its_registration_stays_fenced():
    result = beat(image_of(features(), broker(1, fenced=True)), offset=100)
    assert (result.response.is_caught_up, result.response.is_fenced, result.records) == (
        False,
        True,
        [],
    )


def test_broker_has_caught_up_with_own_registration():
    image = image_of(features(), broker(1, fenced=True))
    caught_up = [
        beat(image, registered_at=101, offset=item).response.is_caught_up for item in (100, 101)
    ]
    assert caught_up == [False, True]


def test_changes_of_heartbeat_need_not_be_atomic():
    assert not beat(image_of(features(), broker(1))).atomic


def test_broker_stays_fenced_on_request():
    assert beat(image_of(features(), broker(1, fenced=True)), want_fence=True).records == []


def test_heartbeat_of_live_broker_changes_nothing():
    result = beat(image_of(features(), broker(1)))
    assert (result.records, result.response.state, result.response.is_fenced) == (
        [],
        BrokerControlState.UNFENCED,
        False,
    )


def test_broker_is_fenced_on_request():
    image = image_of(features(), broker(1), broker(2), topic("t", 1), partition(1, 0, [1, 2]))
    result = beat(image, want_fence=True)
    assert result.records == [change(1, 0, isr=[2], leader=2), changed_broker(1, fenced=1)]


def test_fenced_broker_may_stop_at_once():
    result = beat(image_of(features(), broker(1, fenced=True)), want_shut_down=True)
    assert (result.response.should_shut_down, result.records) == (True, [])


def test_broker_without_leaderships_may_stop_at_once():
    image = image_of(features(), broker(1), broker(2), topic("t", 1), partition(1, 0, [2, 1]))
    result = beat(image, want_shut_down=True)
    assert result.response.should_shut_down
    assert result.records == [change(1, 0, isr=[2]), changed_broker(1, fenced=1)]


def test_stopping_leader_hands_over_first():
    image = image_of(features(), broker(1), broker(2), topic("t", 1), partition(1, 0, [1, 2]))
    result = beat(image, want_shut_down=True)
    assert result.response.shutting_down
    assert result.records == [
        changed_broker(1, in_controlled_shutdown=1),
        change(1, 0, isr=[2], leader=2),
    ]
    image = image_of(*result.records, base=image)
    # the broker waits until all brokers have applied that it no longer leads anything
    lease = Lease(1, 101, 10.0, shutdown_offset=600)
    assert beat(image, lease=lease, lowest=599, want_shut_down=True).response.shutting_down
    result = beat(image, lease=lease, lowest=600, want_shut_down=True)
    assert result.response.should_shut_down
    assert result.records == [changed_broker(1, fenced=1)]


def following(broker_1, *, lease=None, led=False, in_sync=1, **more):
    """Returns the state after a heartbeat of broker 1, a follower of `in_sync` partitions."""
    image = image_of(
        features(),
        broker(1),
        broker(2),
        broker_1,
        topic("t", 1),
        *(partition(1, i, [1, 2] if led else [2, 1]) for i in range(in_sync)),
    )
    return beat(image, lease=lease, **more).response.state


LEAVING = changed_broker(1, in_controlled_shutdown=1)


@pytest.mark.parametrize(
    ("lease", "more", "state"),
    [
        (
            {"shutdown_offset": 0},
            {},
            BrokerControlState.SHUTDOWN_NOW,
        ),  # a broker that began to stop continues
        ({"shutdown_offset": 600, "draining": True}, {}, BrokerControlState.CONTROLLED_SHUTDOWN),
        ({"shutdown_offset": 600}, {"led": True}, BrokerControlState.CONTROLLED_SHUTDOWN),
    ],
)
def test_stopping_broker_may_go_after_handover(lease, more, state):
    assert following(LEAVING, lease=Lease(1, 101, 10.0, **lease), **more) is state


def test_broker_fenced_while_stopping_may_return():
    image = image_of(features(), broker(1), LEAVING, changed_broker(1, fenced=1))
    result = beat(image, lease=Lease(1, 101, 10.0, shutdown_offset=600))
    assert result.response.state is BrokerControlState.UNFENCED


@pytest.mark.parametrize(
    ("more", "state"),
    [
        ({"in_sync": 500}, BrokerControlState.SHUTDOWN_NOW),
        # More partitions than one step handles
        ({"in_sync": 501}, BrokerControlState.CONTROLLED_SHUTDOWN),
        ({"led": True}, BrokerControlState.CONTROLLED_SHUTDOWN),
        ({"led": True, "want_fence": True}, BrokerControlState.SHUTDOWN_NOW),  # no wait
    ],
)
def test_stopping_broker_reaches_expected_state(more, state):
    assert following(broker(1), want_shut_down=True, **more) is state


def test_leader_without_successor_keeps_its_partition():
    image = image_of(features(), broker(1), topic("t", 1), partition(1, 0, [1]))
    result = beat(image, want_shut_down=True)
    found = image_of(*result.records, base=image).topics.by_name["t"].partitions[0]
    assert (found.leader, found.isr) == (-1, (1,))


def test_heartbeat_of_another_incarnation_is_refused():
    for image in (image_of(features(), broker(1)), image_of(features())):
        with pytest.raises(KafkaError) as caught:
            beat(image, epoch=7)
        assert caught.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_failed_directory_removes_its_replicas_from_isrs():
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


def test_directory_failed_before_unfencing_gets_no_leaderships():
    """Otherwise its only replicas would get leaders that serve no client, until the broker is fenced again."""
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


def test_failed_directory_does_not_delay_shutdown():
    image = image_of(features(), broker(1, fenced=True, log_dirs=[uid(501), uid(601)]))
    result = beat(image, offline_log_dirs=[uid(601)], want_shut_down=True)
    assert result.response.should_shut_down


def test_cordoned_directories_are_written_when_they_change():
    image = image_of(features(), broker(1))
    assert beat(image, cordoned_log_dirs=[]).records == [changed_broker(1, cordoned_log_dirs=[])]
    image = image_of(changed_broker(1, cordoned_log_dirs=[]), base=image)
    assert beat(image, cordoned_log_dirs=[]).records == []


def test_only_directories_that_the_broker_has_are_cordoned():
    """Unknown directory ids would stay in the log and in the image forever."""
    image = image_of(features(), broker(1, log_dirs=[uid(501), uid(601)]))
    named = [uid(601), uid(900), uid(601)]
    records = beat(image, cordoned_log_dirs=named).records
    assert records == [changed_broker(1, cordoned_log_dirs=[uid(601)])]
    image = image_of(*records, base=image)
    assert beat(image, cordoned_log_dirs=named).records == []
    assert beat(image, cordoned_log_dirs=[uid(501)]).records == [
        changed_broker(1, cordoned_log_dirs=[uid(501)])
    ]


@pytest.mark.parametrize("level", [7, 12, 16, 17, 29, 30])
def test_record_fields_fit_each_metadata_version(level):
    """Directories came with 3.7-IV2, cordoned ones with 4.3-IV0; a record that cannot be encoded would cost the
    controller its leadership.
    """
    image = image_of(features(level))
    made = register(image, registration(log_dirs=[uid(501), uid(601)])).records
    image = image_of(*made, changed_broker(1, epoch=900, fenced=-1), base=image)
    assert image.cluster.brokers[1].directories == ((uid(501), uid(601)) if level >= 17 else ())
    wishes = {"offline_log_dirs": [uid(601)], "cordoned_log_dirs": []}
    changed = beat(image, epoch=900, **wishes).records
    assert [(record.log_dirs, record.cordoned_log_dirs) for record in changed] == (
        [([uid(501)], None)] * (level >= 17) + [([], [])] * (level >= 30)
    )
    for record in (*made, *changed):
        encode_metadata_record(record, metadata_record_version(type(record), level))
