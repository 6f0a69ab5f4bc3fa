"""The progress of share partitions: each change affects only the partitions that it names."""

from trimaran.broker.groups.share.state_partitions import StatePartitions, TopicState

T, U, V = (bytes([number]) * 16 for number in range(3))


def topics(**partitions):
    ids = {"t": T, "u": U, "v": V}
    return {ids[name]: TopicState(name, frozenset(mine)) for name, mine in partitions.items()}


def test_beginning_adds_partitions_and_ends_deletion():
    states = StatePartitions(topics(t=[0]), topics(u=[0]), {T: "t", V: "v"})
    found = states.beginning(topics(t=[1], u=[1]))
    assert found == StatePartitions(topics(t=[0, 1], u=[1]), topics(u=[0]), {V: "v"})


def test_finished_partitions_are_initialized():
    states = StatePartitions(topics(t=[0, 1, 2], u=[0]), topics(t=[2, 5]), {V: "v"})
    found = states.finished({T: {0}}, {T: {1, 2}, U: {0}})
    assert found == StatePartitions(topics(t=[1], u=[0]), topics(t=[0, 2, 5]), {V: "v"})


def test_outcome_of_other_partitions_changes_nothing():
    states = StatePartitions(topics(t=[0]), topics(u=[0]))
    assert states.finished({T: {1}, V: {0}}, {U: {0}}) == states


def test_deletion_of_offsets_in_two_steps():
    states = StatePartitions(topics(t=[0]), topics(t=[1], u=[0]), {V: "v"})
    begun = states.deleting_topics({U: "u"})
    assert begun == StatePartitions(topics(t=[0]), topics(t=[1]), {V: "v", U: "u"})
    assert begun.deleted({U}) == StatePartitions(topics(t=[0]), topics(t=[1]), {V: "v"})


def test_deletion_of_the_group_takes_all_states():
    states = StatePartitions(topics(t=[0]), topics(t=[1], u=[0]), {V: "v"})
    assert states.deleting_all() == StatePartitions(deleting={T: "t", U: "u", V: "v"})


def test_deleted_topics_are_removed_from_every_state():
    states = StatePartitions(topics(t=[0], u=[0]), topics(u=[1], v=[0]), {U: "u", T: "t"})
    assert states.without_topics({U}) == StatePartitions(topics(t=[0]), topics(v=[0]), {T: "t"})
    assert states.topic_ids == {T, U, V}


def test_record_has_topics_in_order_of_names():
    one = StatePartitions(topics(v=[1, 0], t=[0]), topics(u=[0], t=[1]), {U: "u", T: "t"})
    other = StatePartitions(topics(t=[0], v=[0, 1]), topics(t=[1], u=[0]), {T: "t", U: "u"})
    value = one.value()
    assert value == other.value()
    assert [topic.topic_name for topic in value.initializing_topics] == ["t", "v"]
    assert [topic.topic_name for topic in value.initialized_topics] == ["t", "u"]
    assert [topic.topic_name for topic in value.deleting_topics] == ["t", "u"]
    assert StatePartitions.of(value) == one
