"""Initializes the state of share partitions: decides on partitions of subscribed topics that have none yet, and takes
the outcome.

A partition that is added to a known topic begins at its start, so that no record is left out; the partitions of a new
topic begin as `share.auto.offset.reset` says. Source: `subscribedTopicsChangeMap`,
`maybeCreateInitializeShareGroupStateRequest`, `initializeShareGroupState`, `uninitializeShareGroupState` of Kafka 4.4's
`GroupMetadataManager`. Intentional differences: an initialization that is repeated keeps its start offset (Kafka then
begins at the start), each topic has its own outcome, partitions whose initialization has failed are not forgotten (they
may have a state, which would outlive the group), and a group gets a higher epoch than states that outlived another one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from trimaran.broker.groups.share.operation import Initialization, ShareOperation
from trimaran.broker.groups.share.records import states_record
from trimaran.broker.groups.share.state_partitions import (
    TOPICS_MAX,
    ByTopic,
    StatePartitions,
    TopicState,
)
from trimaran.broker.share_state.changes import InitializedStates
from trimaran.wire.identity import Offset, StateEpoch, TopicIdPartition

# The maximum number of topics that one heartbeat begins to initialize; later heartbeats begin the others.
TOPICS_AT_A_TIME = 1_000


@dataclass(frozen=True, eq=False)
class NewOffsets(Mapping[TopicIdPartition, Offset | None]):
    """The start offsets of partitions without a state: 0 for partitions in `added`, None (`share.auto.offset.reset`)
    for the others. A topic may have 100,000 partitions, so their keys are made one by one.
    """

    partitions: Mapping[bytes, frozenset[int]]
    added: Mapping[bytes, frozenset[int]]

    def __iter__(self) -> Iterator[TopicIdPartition]:
        for topic_id, mine in self.partitions.items():
            for partition in sorted(mine):
                yield TopicIdPartition(topic_id, partition)

    def __len__(self) -> int:
        return sum(map(len, self.partitions.values()))

    def __getitem__(self, key: TopicIdPartition) -> Offset | None:
        if key.partition not in self.partitions[key.topic_id]:
            raise KeyError(key)
        return Offset(0) if key.partition in self.added.get(key.topic_id, ()) else None

    def among(self, topics: ByTopic) -> NewOffsets:
        """Returns the offsets of those partitions that are in `topics`."""
        left = {
            topic_id: mine & _of(topics, topic_id) for topic_id, mine in self.partitions.items()
        }
        return replace(self, partitions={topic_id: mine for topic_id, mine in left.items() if mine})


def initialize_new(operation: ShareOperation) -> None:
    """Begins the initialization of partitions that have no state, or wait too long for it. A group has states in at
    most `TOPICS_MAX` topics.
    """
    states = operation.group.known_states
    topics: dict[bytes, TopicState] = {}
    added: dict[bytes, frozenset[int]] = {}
    _note_times(operation, states)
    known_ids = states.topic_ids
    for name in sorted(operation.group.name_counts):
        topic = operation.topics.find(name)
        if topic is None:
            continue
        if len(topics) == TOPICS_AT_A_TIME:
            break
        initialized = _of(states.initialized, topic.id)
        begun = _of(states.initializing, topic.id)
        known = initialized
        if begun and not _takes_too_long(operation, topic.id):
            known = initialized | begun
        if len(known) >= topic.partition_count:
            continue
        if topic.id not in known_ids:
            if len(known_ids) >= TOPICS_MAX:
                continue
            known_ids.add(topic.id)
        lacking = frozenset(range(topic.partition_count)) - known
        topics[topic.id] = TopicState(name, lacking)
        if initialized:
            added[topic.id] = lacking
        elif begun:
            added[topic.id] = lacking - begun
    if topics:
        lacking_of = {topic_id: topic.partitions for topic_id, topic in topics.items()}
        begin(operation, topics, NewOffsets(lacking_of, added))


def begin(
    operation: ShareOperation,
    topics: dict[bytes, TopicState],
    offsets: Mapping[TopicIdPartition, Offset | None],
) -> None:
    """Writes that the initialization of partitions begins. The states get the epoch of the group."""
    group, work = operation.group, operation.work
    operation.write([states_record(group.id, group.known_states.beginning(topics))])
    work.initializing_since.update(dict.fromkeys(topics, operation.at.now_ms))
    operation.begun = Initialization(StateEpoch(group.epoch), offsets)


def finish(operation: ShareOperation, outcome: InitializedStates) -> None:
    """Writes the outcome of an initialization. Partitions that are not initializing any more stay as they are. If a
    partition has failed, its whole topic is initialized again by the next heartbeat of a group that subscribes to it:
    otherwise it would look like one that was added later. If a state has a higher epoch, the group gets a higher one: a
    late initialization for a deleted group of that name may have left the state.
    """
    group, work = operation.group, operation.work
    if group.states is None:
        return
    done, failed = outcome.done, outcome.failed
    again = {topic_id: mine | done.get(topic_id, set()) for topic_id, mine in failed.items()}
    kept = {topic_id: mine for topic_id, mine in done.items() if topic_id not in failed}
    if (found := group.states.finished(kept, again)) != group.states:
        operation.write([states_record(group.id, found)])
    for topic_id in again.keys() & work.initializing_since.keys():
        work.initializing_since[topic_id] -= operation.settings.initialize_retry_ms
    if outcome.is_fenced:
        operation.bump_epoch()
        if group.is_empty:
            operation.write_assignment_epoch(group.epoch, 0)


def unfinished(begun: Initialization, states: StatePartitions) -> Initialization:
    """Returns the part of an initialization that no other one has finished."""
    offsets = begun.offsets
    if isinstance(offsets, NewOffsets):
        offsets = offsets.among(states.initializing)
    return begun._replace(offsets=offsets)


def _of(topics: ByTopic, topic_id: bytes) -> frozenset[int]:
    return topics[topic_id].partitions if topic_id in topics else frozenset()


def _takes_too_long(operation: ShareOperation, topic_id: bytes) -> bool:
    since = operation.work.initializing_since.get(topic_id, operation.at.now_ms)
    return operation.at.now_ms - since >= operation.settings.initialize_retry_ms


def _note_times(operation: ShareOperation, states: StatePartitions) -> None:
    """Notes the time for topics that an earlier coordinator was initializing, and forgets topics that are done."""
    since = operation.work.initializing_since
    if since.keys() != states.initializing.keys():
        for topic_id in since.keys() - states.initializing.keys():
            del since[topic_id]
        for topic_id in states.initializing:
            since.setdefault(topic_id, operation.at.now_ms)
