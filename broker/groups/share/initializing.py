"""Initializes the state of share partitions: decides on partitions of subscribed topics that have none yet, and applies
the outcome.

A partition that is added to a known topic begins at its start, so that no record is left out; the partitions of a new
topic begin as `share.auto.offset.reset` determines. Source: `subscribedTopicsChangeMap`,
`maybeCreateInitializeShareGroupStateRequest`, `initializeShareGroupState`, `uninitializeShareGroupState` of Kafka 4.4's
`GroupMetadataManager`. Intentional differences: an initialization that is repeated keeps its start offset (Kafka then
begins at the start), each topic has its own outcome, partitions whose initialization has failed are not forgotten (they
may have a state, which would outlive the group), a group gets a higher epoch if a state of a deleted group of the same
name is left, and heartbeats begin no initialization before the last one has ended: it takes half a minute for each
hundred partitions if their share coordinators do not respond.
"""

from __future__ import annotations

from trimaran.broker.groups.share.operation import Initialization, ShareOperation, StartOffsets
from trimaran.broker.groups.share.records import states_record
from trimaran.broker.groups.share.start_offsets import NewOffsets
from trimaran.broker.groups.share.state_partitions import (
    TOPICS_MAX,
    ByTopic,
    StatePartitions,
    TopicState,
)
from trimaran.broker.share_state.changes import InitializedStates
from trimaran.wire.identity import StateEpoch

# The maximum number of topics that one heartbeat begins to initialize; later heartbeats begin to initialize the other
# topics.
TOPICS_AT_A_TIME = 1_000


def initialize_new(operation: ShareOperation) -> None:
    """Begins the initialization of partitions that have no state, or have waited too long for it, unless the group has
    another initialization that waits or runs. A group has states in at most `TOPICS_MAX` topics.
    """
    states, work = operation.group.known_states, operation.work
    topics: dict[bytes, TopicState] = {}
    added: dict[bytes, frozenset[int]] = {}
    _note_times(operation, states)
    if work.waiting is not None or work.running is not None:
        return
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
        operation.begun = begin(operation, topics, NewOffsets(lacking_of, added))


def begin(
    operation: ShareOperation, topics: dict[bytes, TopicState], offsets: StartOffsets
) -> Initialization[StartOffsets]:
    """Writes that the initialization of partitions begins. The states get the epoch of the group."""
    group, work = operation.group, operation.work
    operation.write([states_record(group.id, group.known_states.beginning(topics))])
    work.initializing_since.update(dict.fromkeys(topics, operation.at.now_ms))
    return Initialization(StateEpoch(group.epoch), offsets)


def finish(operation: ShareOperation, outcome: InitializedStates) -> None:
    """Writes the outcome of an initialization. Partitions that are not initializing any more remain unchanged. If a
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
    due_ms = operation.at.now_ms - operation.settings.initialize_retry_ms
    work.initializing_since.update(dict.fromkeys(again, due_ms))
    if outcome.is_fenced:
        operation.bump_epoch()
        if group.is_empty:
            operation.write_assignment_epoch(group.epoch, 0)


def unfinished(
    begun: Initialization[NewOffsets], states: StatePartitions
) -> Initialization[NewOffsets]:
    """Returns the initialization without partitions that are not initializing any more."""
    return begun._replace(offsets=begun.offsets.among(states.initializing))


def _of(topics: ByTopic, topic_id: bytes) -> frozenset[int]:
    return topics[topic_id].partitions if topic_id in topics else frozenset()


def _takes_too_long(operation: ShareOperation, topic_id: bytes) -> bool:
    since = operation.work.initializing_since.get(topic_id, operation.at.now_ms)
    return operation.at.now_ms - since >= operation.settings.initialize_retry_ms


def _note_times(operation: ShareOperation, states: StatePartitions) -> None:
    """Records the current time for topics that an earlier coordinator was initializing, and drops topics that are not
    initializing any more.
    """
    since = operation.work.initializing_since
    if since.keys() != states.initializing.keys():
        for topic_id in since.keys() - states.initializing.keys():
            del since[topic_id]
        for topic_id in states.initializing:
            since.setdefault(topic_id, operation.at.now_ms)
