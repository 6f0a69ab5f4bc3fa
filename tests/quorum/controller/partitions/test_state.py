"""The state of a decision: the configs that govern leadership."""

from tests.quorum.controller.states import state_of
from tests.quorum.metadata.build import config, image_of, partition, topic, uid
from trimaran.quorum.controller.partitions.state import ControllerState
from trimaran.wire.identity import TopicIdPartition

MIN_ISR, UNCLEAN = "min.insync.replicas", "unclean.leader.election.enable"


def test_deleted_topics_and_partitions_are_omitted():
    image = image_of(topic("t", 1), partition(1, 0, [1]))
    keys = [TopicIdPartition(uid(number), index) for number in (1, 2) for index in (0, 1)]
    assert [ref.key for ref in state_of(image).partition_refs(keys)] == keys[:1]


def test_configs_of_topic_are_read_once_per_decision(monkeypatch):
    """A decision needs the configs for each of the topic's partitions."""
    found, read = ControllerState._config_of, []

    def noted(self, name, key):
        read.append((name, key))
        return found(self, name, key)

    monkeypatch.setattr(ControllerState, "_config_of", noted)
    image = image_of(
        topic("t", 1),
        topic("u", 2),
        partition(1, 0, [1, 2]),
        partition(2, 0, [1]),
        config(UNCLEAN, "true"),
    )
    state = state_of(image)
    asked = [image.topics.by_name[name] for name in ("t", "u", "t", "u")]
    assert [state.allows_unclean(one) for one in asked] == [True, False] * 2
    assert [state.min_isr(one) for one in asked] == [1] * 4
    assert read == [(name, key) for key in (UNCLEAN, MIN_ISR) for name in ("t", "u")]
