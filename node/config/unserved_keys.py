"""Keys of Apache Kafka 4.4 for features that trimaran does not implement. When a feature is implemented, its keys move
to a table of keys with an effect.

Source: Kafka's `GroupCoordinatorConfig`, `ShareGroupConfig`, `QuotaConfig`, `RemoteLogManagerConfig`.
"""

from __future__ import annotations

from trimaran.node.config.key_rows import rows

DEAD_LETTERS = rows(
    """
errors.deadletterqueue.auto.create.topics.enable | boolean | false | medium dynamic
    Whether dead-letter queues of share groups are created when they are needed.
errors.deadletterqueue.topic.name.prefix | string | dlq. | medium dynamic
    Prefix that the name of such a topic must have.
""",
    no_effect="dead-letter queues of share groups are not served yet",
)
STREAMS_GROUPS = rows(
    """
group.streams.assignment.interval.ms | int 0.. | 1000 | medium dynamic
    Minimum time between two assignments of a streams group.
group.streams.acceptable.recovery.lag | long 0.. | 10000 | internal
    Offsets by which a client may be behind and still get an active task.
group.streams.assignors | list | sticky | medium
    Assignors of streams groups; the first is the default.
group.streams.heartbeat.interval.ms | int 1.. | 5000 | medium
    Time between two heartbeats of a streams group's member.
group.streams.initial.rebalance.delay.ms | int 0.. | 3000 | medium
    Time a new streams group waits for more members.
group.streams.max.assignment.interval.ms | int 0.. | 15000 | medium
    Upper bound of a group's streams.assignment.interval.ms.
group.streams.max.heartbeat.interval.ms | int 1.. | 15000 | medium
    Upper bound of a group's streams.heartbeat.interval.ms.
group.streams.max.session.timeout.ms | int 1.. | 60000 | medium
    Upper bound of a group's streams.session.timeout.ms.
group.streams.max.size | int 1.. | 2147483647 | medium
    Maximum number of members of a streams group.
group.streams.max.standby.replicas | int 0.. | 2 | medium
    Upper bound of a group's streams.num.standby.replicas.
group.streams.max.warmup.replicas | int 0.. | 20 | internal
    Upper bound of a group's streams.num.warmup.replicas.
group.streams.min.assignment.interval.ms | int 0.. | 0 | medium
    Lower bound of a group's streams.assignment.interval.ms.
group.streams.min.heartbeat.interval.ms | int 1.. | 5000 | medium
    Lower bound of a group's streams.heartbeat.interval.ms.
group.streams.min.session.timeout.ms | int 1.. | 45000 | medium
    Lower bound of a group's streams.session.timeout.ms.
group.streams.min.task.offset.interval.ms | int 1.. | 15000 | internal
    Lower bound of a group's streams.task.offset.interval.ms.
group.streams.num.standby.replicas | int 0.. | 0 | medium
    Standby replicas of each task of a streams group.
group.streams.num.warmup.replicas | int 0.. | 2 | internal
    Warm-up replicas of a streams group.
group.streams.rack.aware.assignment.tags | list | | low
    Tags of clients over which standby replicas are distributed.
group.streams.session.timeout.ms | int 1.. | 45000 | medium
    Time without a heartbeat after which a member leaves its streams group.
group.streams.task.offset.interval.ms | int 1.. | 60000 | internal
    Time between two reports of the offsets of warm-up tasks.
""",
    no_effect="streams groups are not served yet",
)
CLIENT_QUOTAS = rows(
    """
controller.quota.window.num | int 1.. | 11 | low
    Samples over which changes of topics are measured.
controller.quota.window.size.seconds | int 1.. | 1 | low
    Length of each of these samples.
quota.window.num | int 1.. | 11 | low
    Samples over which the traffic of clients is measured.
quota.window.size.seconds | int 1.. | 1 | low
    Length of each of these samples.
"""
)
REPLICATION_QUOTAS = rows(
    """
alter.log.dirs.replication.quota.window.num | int 1.. | 11 | low
    Samples over which the copying between log directories is measured.
alter.log.dirs.replication.quota.window.size.seconds | int 1.. | 1 | low
    Length of each of these samples.
replication.quota.window.num | int 1.. | 11 | low
    Samples over which replication is measured.
replication.quota.window.size.seconds | int 1.. | 1 | low
    Length of each of these samples.
"""
)
ASSIGNOR_OFFLOAD = rows(
    """
group.consumer.assignor.offload.enable | boolean | true | internal dynamic
    Whether assignments of consumer groups are computed in the background.
group.share.assignor.offload.enable | boolean | true | internal dynamic
    Whether assignments of share groups are computed in the background.
group.streams.assignor.offload.enable | boolean | true | internal dynamic
    Whether assignments of streams groups are computed in the background.
""",
    no_effect="Kafka 4.4 does not read it either, and assignments of large groups are computed in pieces",
)
PLUGINS_OF_GROUPS = rows(
    """
group.share.dlq.manager.class.name | string | org.apache.kafka.server.share.dlq.DefaultShareGroupDLQManager | internal
    Java class that writes to dead-letter queues.
group.streams.topology.description.plugin.class | class | null | medium
    Java class that keeps descriptions of topologies.
""",
    no_effect="Java classes are not loaded",
)
QUOTA_CALLBACK = rows(
    """
client.quota.callback.class | class | null | low
    Java class that computes the quotas of clients.
""",
    no_effect="Java classes are not loaded; quotas are those that are set",
)
TIERED_STORAGE = rows(
    """
follower.fetch.last.tiered.offset.enable | boolean | false | medium dynamic
    Whether a new follower begins at the end of the tiered part.
log.local.retention.bytes | long -2.. | -2 | medium dynamic
    Default of a topic's local.retention.bytes; -2 is retention.bytes.
log.local.retention.ms | long -2.. | -2 | medium dynamic
    Default of a topic's local.retention.ms; -2 is retention.ms.
log.remote.copy.lag.bytes | long -1.. | -1 | medium dynamic
    Default of a topic's remote.copy.lag.bytes.
log.remote.copy.lag.ms | long -1.. | 0 | medium dynamic
    Default of a topic's remote.copy.lag.ms.
remote.fetch.max.wait.ms | int 1.. | 500 | medium dynamic
    Longest time a fetch waits for tiered data.
remote.list.offsets.request.timeout.ms | long 1.. | 30000 | medium dynamic
    Time a search for offsets in tiered data may take.
remote.log.index.file.cache.total.size.bytes | long 1.. | 1073741824 | low dynamic
    Size of the cache of tiered indexes.
remote.log.manager.copier.thread.pool.size | int 1.. | 10 | medium dynamic
    Threads that copy segments to tiered storage.
remote.log.manager.copy.max.bytes.per.second | long 1.. | 9223372036854775807 | medium dynamic
    Maximum bytes a second that are copied to tiered storage.
remote.log.manager.copy.quota.window.num | int 1.. | 11 | medium
    Samples over which this copying is measured.
remote.log.manager.copy.quota.window.size.seconds | int 1.. | 1 | medium
    Length of each of these samples.
remote.log.manager.expiration.thread.pool.size | int 1.. | 10 | medium dynamic
    Threads that delete expired tiered segments.
remote.log.manager.fetch.max.bytes.per.second | long 1.. | 9223372036854775807 | medium dynamic
    Maximum bytes a second that are read from tiered storage.
remote.log.manager.fetch.quota.window.num | int 1.. | 11 | medium
    Samples over which this reading is measured.
remote.log.manager.fetch.quota.window.size.seconds | int 1.. | 1 | medium
    Length of each of these samples.
remote.log.manager.follower.thread.pool.size | int 1.. | 2 | medium dynamic
    Threads for tiered partitions that are followed.
remote.log.manager.task.interval.ms | long 1.. | 30000 | low
    Time between two runs of the tasks of tiered storage.
remote.log.manager.thread.pool.size | int 1.. | 2 | medium
    Threads of the older manager of tiered storage.
remote.log.metadata.custom.metadata.max.bytes | int 0.. | 128 | low
    Maximum bytes that a storage plugin may keep about a segment.
remote.log.metadata.manager.class.name | string | org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager | medium
    Java class that keeps the metadata of tiered segments.
remote.log.metadata.manager.class.path | string | null | medium
    Class path of that class.
remote.log.metadata.manager.impl.prefix | string | rlmm.config. | medium
    Prefix of the keys that are passed to that class.
remote.log.metadata.manager.listener.name | string | null | medium
    Listener by which that class reaches the brokers.
remote.log.reader.max.pending.tasks | int 1.. | 100 | medium
    Most reads of tiered storage that may wait.
remote.log.reader.threads | int 1.. | 10 | medium dynamic
    Threads that read tiered storage.
remote.log.storage.manager.class.name | string | null | medium
    Java class that stores tiered segments.
remote.log.storage.manager.class.path | string | null | medium
    Class path of that class.
remote.log.storage.manager.impl.prefix | string | rsm.config. | medium
    Prefix of the keys that are passed to that class.
remote.log.storage.system.enable | boolean | false | medium
    Whether there is tiered storage.
""",
    no_effect="tiered storage is not supported",
)
UNSERVED = (
    *DEAD_LETTERS,
    *STREAMS_GROUPS,
    *ASSIGNOR_OFFLOAD,
    *PLUGINS_OF_GROUPS,
    *CLIENT_QUOTAS,
    *REPLICATION_QUOTAS,
    *QUOTA_CALLBACK,
    *TIERED_STORAGE,
)
