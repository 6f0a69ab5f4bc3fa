"""The named log lines of brokers. See `trimaran.wire.text.events`."""

from __future__ import annotations

import logging

from trimaran.wire.text.events import Event

_I, _W, _E = logging.INFO, logging.WARNING, logging.ERROR
BROKER_FENCED = Event(
    "broker.fenced",
    _W,
    "heartbeat: %(error)s; registering again",
    "The controller has forgotten the broker. It registers again.",
)
HEARTBEAT_FAILED = Event(
    "broker.heartbeat_failed",
    _W,
    "heartbeat failed: %(error)s",
    "No controller answered. After broker.session.timeout.ms the broker is fenced.",
)
BROKER_HEARTBEAT_REFUSED = Event(
    "broker.heartbeat_refused", _W, "heartbeat: %(error)s", "The heartbeat is sent again."
)
BROKER_READY = Event(
    "broker.ready", _I, "broker %(broker)s is ready", "The broker is unfenced: clients may use it."
)
BROKER_REFUSED = Event(
    "broker.refused",
    _W,
    "registration refused: %(reason)s; trying again",
    "The controller refused the broker's registration. The broker tries again.",
)
BROKER_REGISTERED = Event(
    "broker.registered",
    _I,
    "registered as broker %(broker)s, epoch %(epoch)s",
    "The controller knows the broker. It is fenced until it is ready.",
)
BROKER_LEFT_WITHOUT_LEAVE = Event(
    "broker.stopped_without_leave",
    _W,
    "stopping without the controller's leave",
    "The controlled shutdown did not finish in time. Partitions may have no leader for a while.",
)
COMPACTION_DONE = Event(
    "compaction.done",
    _I,
    "%(partition)s is compacted up to offset %(offset)d: %(bytes_read)d bytes read, %(bytes_written)d written",
    "Below that offset, only the last record of each key is kept.",
)
COMPACTION_FAILED = Event(
    "compaction.failed",
    _E,
    "compaction of %(partition)s: %(error)s",
    "A disk failed. Its directory goes out of service.",
)
COMPACTION_OUT_OF_MEMORY = Event(
    "compaction.out_of_memory",
    _E,
    "compaction of %(partition)s: not enough memory (%(error)s); tried again",
    "It is tried again. log.cleaner.dedupe.buffer.size limits its memory.",
)
COMPACTION_POSTPONED = Event(
    "compaction.postponed", _I, "compaction of %(partition)s: %(reason)s", "It is tried again."
)
COMPACTION_STOPPED = Event(
    "compaction.stopped",
    _E,
    "%(partition)s is not compacted any more: %(error)s",
    "The log grows until the broker starts again.",
)
CONFIG_OVERRIDDEN = Event(
    "config.overridden",
    _W,
    "%(config)s",
    "A config of the cluster overrides the key in this broker's file.",
)
COORDINATOR_FAILED = Event(
    "coordinator.failed",
    _E,
    "%(shard)r has failed",
    "Internal error; please report it. The shard is loaded again.",
)
COORDINATOR_LOADED = Event(
    "coordinator.loaded",
    _I,
    "%(shard)s: loaded %(records)s records in %(seconds)s s",
    "A coordinator of groups or transactions serves this partition of its topic.",
)
COORDINATOR_RELOADING = Event(
    "coordinator.reloading",
    _W,
    "%(shard)r is loaded again in %(seconds).0f s",
    "Loading is retried after an error.",
)
COORDINATOR_REPLAY_FAILED = Event(
    "coordinator.replay_failed",
    _E,
    "%(shard)r cannot replay what is in its log",
    "A record is damaged, or of a later release. The shard serves no requests.",
)
GROUP_CLASSIC_MEMBER_JOINED = Event(
    "group.classic_member_joined",
    _I,
    "%(group)s: member %(member)s joins by the classic protocol",
    "A client with the classic protocol joined a group of KIP-848.",
)
GROUP_DOWNGRADED = Event(
    "group.downgraded",
    _I,
    "%(group)s becomes a classic group with %(members)d members",
    "Its last member of KIP-848 has left.",
)
GROUP_EXPIRY_POSTPONED = Event(
    "group.expiry_postponed",
    _W,
    "expired offsets stay until the next time: %(error)s",
    "The expired offsets are deleted later.",
)
GROUP_RECORDS_SKIPPED = Event(
    "group.records_skipped",
    _W,
    "records of groups of the unknown type %(type)d are left out",
    "Another version wrote them, for kinds of groups that are not served here.",
)
GROUP_GENERATION = Event(
    "group.generation", _I, "joined: %(group)s", "A classic group has a new generation."
)
GROUP_MEMBER_FAILED = Event(
    "group.member_failed",
    _I,
    "member %(member)s of %(group)s has failed",
    "The member sent no heartbeat within its session timeout.",
)
GROUP_MEMBER_FENCED = Event(
    "group.member_fenced",
    _I,
    "%(group)s: member %(member)s is fenced: %(reason)s",
    "The member sent no heartbeat in time, and has lost its partitions.",
)
GROUP_MEMBER_JOINED = Event(
    "group.member_joined",
    _I,
    "%(group)s: member %(member)s joins the group",
    "By the protocol of KIP-848, or KIP-1071 in a streams group.",
)
GROUP_MEMBER_LEFT = Event(
    "group.member_left",
    _I,
    "%(group)s: member %(member)s leaves",
    "Other members get its partitions.",
)
GROUP_METADATA_WRITE_FAILED = Event(
    "group.metadata_write_failed",
    _W,
    "storing %(group)s failed: %(error)s",
    "A record could not be written to the group's log.",
)
GROUP_REBALANCING = Event(
    "group.rebalancing",
    _I,
    "preparing to rebalance %(group)s: %(reason)s",
    "A classic group waits for its members.",
)
GROUP_STATIC_MEMBER_BACK = Event(
    "group.static_member_back",
    _I,
    "%(group)s: static member %(instance)s is back as %(member)s",
    "The member keeps its previous assignment.",
)
GROUP_STATIC_MEMBER_JOINED = Event(
    "group.static_member_joined",
    _I,
    "%(group)s: static member %(instance)s joins as %(member)s",
    "By the protocol of KIP-848, or KIP-1071 in a streams group.",
)
GROUP_STATIC_MEMBER_LEFT = Event(
    "group.static_member_left",
    _I,
    "%(group)s: static member %(instance)s leaves for a while",
    "Its partitions wait for it until the session times out.",
)
GROUP_TARGET_ASSIGNED = Event(
    "group.target_assigned",
    _I,
    "%(group)s: target of epoch %(epoch)d for %(members)d members",
    "Members move to their new partitions.",
)
GROUP_UPGRADED = Event(
    "group.upgraded",
    _I,
    "%(group)s becomes a consumer group with %(members)d members",
    "A member of KIP-848 has joined a classic group.",
)
GROUP_WRITE_FAILED = Event(
    "group.write_failed",
    _W,
    "storing %(group)s (%(purpose)s) failed: %(error)s",
    "A record could not be written to the group's log. Members join again.",
)
ISR_NOT_TOLD = Event(
    "isr.not_told",
    _W,
    "AlterPartition of %(partitions)d partitions: %(error)s",
    "The controller has not received changed ISRs yet. They are sent again.",
)
LOG_DIRECTORY_FAILED = Event(
    "log_directory.failed",
    _E,
    "%(what)s: %(error)s",
    "A disk failed, and its directory goes out of service; or the files of one replica cannot be used.",
)
LOG_DIRECTORY_NOT_CLOSED = Event(
    "log_directory.not_closed",
    _E,
    "%(directory)s could not be closed: %(error)s",
    "Its logs are recovered at the next start.",
)
LOG_DIRECTORY_OFFLINE = Event(
    "log_directory.offline",
    _E,
    "log directory %(directory)s is offline: %(error)s",
    "Its replicas are out of service until the broker starts again.",
)
LOG_DIRECTORY_RECOVERY_FAILED = Event(
    "log_directory.recovery_failed",
    _E,
    "recovery of %(directory)s: %(error)s",
    "Its replicas are out of service until the broker starts again.",
)
MAINTENANCE_CHECKPOINTS_FAILED = Event(
    "maintenance.checkpoints_failed",
    _E,
    "checkpoints: %(error)s",
    "A disk failed. Its directory goes out of service.",
)
MAINTENANCE_DELETION_FAILED = Event(
    "maintenance.deletion_failed",
    _E,
    "deletion: %(error)s",
    "A disk failed. Its directory goes out of service.",
)
MAINTENANCE_RETENTION_FAILED = Event(
    "maintenance.retention_failed",
    _E,
    "retention of %(partition)s: %(error)s",
    "A disk failed. Its directory goes out of service.",
)
REPLICA_DAMAGED_LEADER = Event(
    "replica.damaged_leader",
    _E,
    "%(partition)s: %(reason)s; no other replica is in sync, so this one goes on leading, and the others "
    "cannot follow: put the files back from a copy, or delete the records",
    "A leader's log is damaged, and no other replica in sync has a better one.",
)
REPLICA_DIRECTORIES_NOT_TOLD = Event(
    "replica.directories_not_told",
    _W,
    "AssignReplicasToDirs of %(replicas)d replicas: %(error)s",
    "The controller does not know yet in which directories replicas are. The assignment is sent again.",
)
REPLICATION_FAILED = Event(
    "replica.fetch_failed",
    _W,
    "%(partition)s is not replicated from broker %(leader)s, epoch %(epoch)s, at offset %(offset)s: %(error)s",
    "A follower gets no records from its leader. Logged once for each reason; the fetch is retried.",
)
REPLICA_FETCHER_STOPPED = Event(
    "replica.fetcher_stopped",
    _I,
    "replication from broker %(leader)d stops: %(reason)s",
    "Nothing is fetched from this broker until the metadata change.",
)
REPLICA_METADATA_FAILED = Event(
    "replica.metadata_failed",
    _E,
    "%(topic)s-%(index)d cannot be brought to its metadata",
    "Internal error; please report it. The partition stays as it is.",
)
REPLICA_MOVE_FAILED = Event(
    "replica.move_failed",
    _E,
    "%(partition)s does not move: %(error)s",
    "The replica stays where it is.",
)
REPLICA_MOVE_STARTED = Event(
    "replica.move_started",
    _I,
    "%(partition)s moves to %(directory)s",
    "A replica is copied to another log directory.",
)
REPLICA_MOVED = Event(
    "replica.moved",
    _I,
    "%(partition)s has moved to %(directory)s",
    "The replica is served from there.",
)
REPLICA_NOT_ASSIGNED = Event(
    "replica.not_assigned",
    _W,
    "%(topic)s-%(index)d is not assigned to this broker: put aside",
    "The partition is assigned to other brokers. The replica's files are deleted later.",
)
REPLICA_NOT_MADE = Event(
    "replica.not_made",
    _E,
    "%(partition)s is out of service on this broker: %(error)s",
    "A replica was not found, and its records may be elsewhere: no empty log is created in its place.",
)
REPLICA_OF_DELETED_TOPIC = Event(
    "replica.of_deleted_topic",
    _W,
    "%(topic)s-%(index)d belongs to another topic id: put aside",
    "A topic with this name was recreated. The old files are deleted later.",
)
REPLICA_OFFLINE = Event(
    "replica.offline",
    _E,
    "%(partition)s: %(error)s; this replica is out of service. To have it fetched again from its leader "
    "stop this broker, move %(folder)s away, and start it again",
    "The files of one replica are damaged. The rest of the directory is in service.",
)
REPLICA_TRUNCATED = Event(
    "replica.truncated",
    _W,
    "%(partition)s is cut from %(from_offset)s to its leader's end %(to_offset)s",
    "A follower truncated records that its leader does not have.",
)
REPLICA_TWICE = Event(
    "replica.twice",
    _W,
    "%(topic)s-%(index)d is in %(directory)s too: put aside in %(put_aside)s",
    "A replica is in two directories: the one that is behind is moved aside.",
)
REPLICA_UNUSABLE = Event(
    "replica.unusable",
    _E,
    "%(partition)s cannot be opened: %(error)s",
    "A replica neither leads nor follows here, because its log cannot be opened.",
)
DEAD_LETTERS_LOST = Event(
    "share.dead_letters_lost",
    _E,
    "%(group)s: records of %(partition)s are archived without their dead letters: %(error)s",
    "The dead-letter queue of the share group cannot be used. Check its topic, its configs, and the access of brokers.",
)
SHARE_LOG_NOT_PRUNED = Event(
    "share.log_not_pruned",
    _W,
    "%(shard)r: redundant records before offset %(offset)d stay: %(error)s",
    "The log of __share_group_state is longer than necessary. Check the topic's cleanup.policy.",
)
SHARE_STATES_WAIT = Event(
    "share.states_wait",
    _W,
    "snapshots or removals of %(states)d states of share groups wait: %(error)s",
    "They are written later. Until then the log of __share_group_state is longer than necessary.",
)
SHARE_GROUP_MEMBER_JOINED = Event(
    "share_group.member_joined",
    _I,
    "%(group)s: member %(member)s joins the share group",
    "By the protocol of KIP-932.",
)
SHARE_STATES_NOT_STORED = Event(
    "share_states.not_stored",
    _W,
    "%(group)s: the states of %(count)d share partitions could not be changed: %(error)s",
    "A share coordinator could not be reached, or refused. Members get these partitions later.",
)
TELEMETRY_COLLECTS_NOTHING = Event(
    "telemetry.collects_nothing",
    _W,
    "subscription %(subscription)a collects nothing here: it takes trimaran.metrics.listener, and pip "
    "install trimaran[telemetry]",
    "A client-metrics config was set, but this broker cannot receive metrics.",
)
TELEMETRY_UNKNOWN_PATTERN = Event(
    "telemetry.unknown_pattern",
    _W,
    "subscription %(subscription)a asks no client: one of its patterns is not RE2's, or too large",
    "A Java controller accepted a client-metrics config that this broker cannot match. Set a simpler pattern.",
)
TRANSACTION_MARKERS_WAIT = Event(
    "transaction.markers_wait",
    _W,
    "transaction of %(transactional_id)r waits for markers in %(partitions)s",
    "Some leaders do not answer. Consumers with read_committed wait there.",
)
TRANSACTION_TIMED_OUT = Event(
    "transaction.timed_out",
    _I,
    "transaction of %(transactional_id)r is aborted: open for more than %(timeout_ms)s ms",
    "Its producer is fenced.",
)
TRANSACTION_TIMEOUTS_WAIT = Event(
    "transaction.timeouts_wait",
    _W,
    "timeouts of %(transactions)d transactions wait: %(error)s",
    "The transactions are aborted later.",
)
