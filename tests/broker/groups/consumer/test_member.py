"""Members are encoded as records and decoded again."""

from __future__ import annotations

from dataclasses import replace

from trimaran.broker.groups.consumer.member import ConsumerMember, MemberState
from trimaran.broker.groups.consumer.migration import classic_metadata
from trimaran.wire.records.consumer_groups import (
    ConsumerGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)

T, U = b"t" * 16, b"u" * 16


def test_member_size_counts_its_metadata():
    classic = classic_metadata(1, (("range", b"12345"), ("sticky", b"")))
    assert ConsumerMember("a").bytes == 0
    assert ConsumerMember("a", subscribed_names=("t", "uu"), regex="x.*").bytes == 6
    assert ConsumerMember("a", subscribed_names=("t",), classic=classic).bytes == 1 + 10 + 6


def test_member_round_trips_through_records():
    classic = classic_metadata(1, (("range", b"12345"),))
    for regex in "", "t.*":
        written = ConsumerMember(
            "a",
            instance_id="i",
            rack_id="r",
            client_id="c",
            client_host="h",
            rebalance_timeout_ms=7,
            subscribed_names=("t",),
            regex=regex,
            assignor="range",
            classic=classic,
            epoch=3,
            previous_epoch=2,
            state=MemberState.UNREVOKED_PARTITIONS,
            assigned={T: {0: 1, 1: 3}},
            revoking={U: {2: 2}},
        )
        found = ConsumerMember("a").with_metadata(written.metadata_value())
        assert found.with_current(written.current_value()) == written
    no_pattern = replace(written, regex="").metadata_value()
    assert no_pattern.subscribed_topic_regex is None


def test_partitions_without_epochs_have_the_members():
    """Brokers before 4.3 write no epochs, and a list of another length counts as none."""
    for epochs in (None, [], [1]):
        value = ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=7,
            previous_member_epoch=6,
            state=99,
            assigned_partitions=[
                TopicPartitions(topic_id=T, partitions=[0, 1], assignment_epochs=epochs),
                TopicPartitions(topic_id=U, partitions=[], assignment_epochs=None),
            ],
            partitions_pending_revocation=[],
        )
        found = ConsumerMember("a").with_current(value)
        assert found.assigned == {T: {0: 7, 1: 7}}
        assert found.state is MemberState.UNKNOWN
