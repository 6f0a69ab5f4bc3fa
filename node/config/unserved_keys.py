"""Keys of Apache Kafka 4.4 for features that trimaran does not implement, each with the reason. When a feature is
implemented, its keys move to a table of keys with an effect.

Source: Kafka's `GroupCoordinatorConfig`, `ShareGroupConfig`, `QuotaConfig`, `RemoteLogManagerConfig`.
"""

from __future__ import annotations

from trimaran.node.config.key_rows import rows

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
    *ASSIGNOR_OFFLOAD,
    *PLUGINS_OF_GROUPS,
    *QUOTA_CALLBACK,
    *TIERED_STORAGE,
)
