"""Keys of Apache Kafka 4.3 that have no effect here, because trimaran solves the problem in another way or the key is
specific to Java.

Source: Kafka's `SocketServerConfigs`, `MetricConfigs`, `SslConfigs`, `SaslConfigs`, `ReplicationConfigs`.
"""

from __future__ import annotations

from trimaran.node.config.key_rows import rows

GROUP_COORDINATOR = rows(
    """
group.coordinator.append.linger.ms | int -1.. | -1 | medium
    Time a coordinator waits for more records before it writes a batch; -1 adapts to the load.
group.coordinator.background.threads | int 1.. | 2 | high
    Threads that compute assignments and regular expressions.
group.coordinator.cached.buffer.max.bytes | int 524288.. | 1048588 | medium dynamic
    Largest write buffer that a coordinator keeps.
group.coordinator.threads | int 1.. | 4 | high
    Threads of the group coordinator.
offsets.topic.compression.codec | int | 0 | high
    Compression of the topic __consumer_offsets.
""",
    no_effect="one event loop runs all groups, and writes the records of one turn together",
)
METRICS = rows(
    """
kafka.metrics.polling.interval.secs | int 1.. | 10 | low
    Time between two calls of kafka.metrics.reporters.
kafka.metrics.reporters | list | | low
    Java classes that report the older metrics.
metric.reporters | list | org.apache.kafka.common.metrics.JmxReporter | low dynamic
    Java classes that report metrics.
metrics.num.samples | int 1.. | 2 | low
    Samples over which a metric is computed.
metrics.recording.level | string | INFO | low
    Least level of the metrics that are recorded.
metrics.sample.window.ms | long 1.. | 30000 | low
    Length of each sample of a metric.
""",
    no_effect="Java's metrics and their plugins do not run here",
)
THREADS = rows(
    """
background.threads | int 1.. | 10 | high dynamic
    Threads for background work.
log.cleaner.threads | int 0.. | 1 | medium dynamic
    Threads of the log cleaner.
num.io.threads | int 1.. | 8 | high dynamic
    Threads that handle requests.
num.network.threads | int 1.. | 3 | high dynamic
    Threads that read requests from sockets and write responses.
num.recovery.threads.per.data.dir | int 1.. | 2 | high dynamic
    Threads of each log directory that recover logs at a start and flush them at a stop.
num.replica.alter.log.dirs.threads | int | null | high
    Threads that move replicas between log directories.
num.replica.fetchers | int 1.. | 1 | high dynamic
    Fetchers of a broker for each leader.
""",
    no_effect="an event loop and threads that are started as needed do this work",
)
PURGATORIES = rows(
    """
delete.records.purgatory.purge.interval.requests | int | 1 | medium
    Finished DeleteRecords between two purges of their purgatory.
fetch.purgatory.purge.interval.requests | int | 1000 | medium
    Finished fetches between two purges of their purgatory.
producer.purgatory.purge.interval.requests | int | 1000 | medium
    Finished produce requests between two purges of their purgatory.
share.fetch.purgatory.purge.interval.requests | int | 1000 | medium
    Finished share fetches between two purges of their purgatory.
""",
    no_effect="waiting requests are woken by events, and leave no entries to purge",
)
SOCKETS = rows(
    """
controller.socket.timeout.ms | int | 30000 | medium
    Time a controller waits for a broker's response.
replica.socket.receive.buffer.bytes | int | 65536 | high
    Receive buffer of the sockets that replicate.
socket.connection.setup.timeout.max.ms | long | 30000 | medium
    Longest time a connection may take to be set up, after failures.
socket.connection.setup.timeout.ms | long | 10000 | medium
    Time a connection may take to be set up.
socket.send.buffer.bytes | int | 102400 | high
    Send buffer of the sockets of clients.
""",
    no_effect="the operating system sizes the buffers of sockets, and every request has its own timeout",
)
CHECKPOINTS = rows(
    """
log.flush.offset.checkpoint.interval.ms | int 0.. | 60000 | high
    Time between two writes of the recovery points.
log.flush.start.offset.checkpoint.interval.ms | int 0.. | 60000 | high
    Time between two writes of the log start offsets.
""",
    no_effect="they are written with the high watermarks, every replica.high.watermark.checkpoint.interval.ms",
)
OTHER_WAYS = rows(
    """
log.cleaner.io.buffer.size | int 0.. | 524288 | medium dynamic
    Buffers of the log cleaner, over all its threads.
log.dir.failure.timeout.ms | long 1.. | 30000 | low
    Time after which a broker stops that cannot tell the controller of a failed log directory.
""",
    no_effect="trimaran does this in another way",
)
TLS_OF_JAVA = rows(
    """
security.providers | string | null | low
    Java security providers.
ssl.allow.dn.changes | boolean | false | low
    Whether a new certificate may have another distinguished name while the broker runs.
ssl.allow.san.changes | boolean | false | low
    Whether a new certificate may lack alternative names of the old one while the broker runs.
ssl.keymanager.algorithm | string | SunX509 | medium
    Algorithm of Java's key manager.
ssl.protocol | string | TLSv1.3 | medium
    Version of Java's TLS context.
ssl.provider | string | null | medium
    Java security provider of TLS.
ssl.secure.random.implementation | string | null | low
    Random number generator of Java's TLS.
ssl.trustmanager.algorithm | string | PKIX | medium
    Algorithm of Java's trust manager.
""",
    no_effect="TLS is OpenSSL's here, not Java's",
)
SASL_OF_JAVA = rows(
    """
sasl.client.callback.handler.class | class | null | medium
    Java class that answers for a client of SASL.
sasl.jaas.config | password | null | medium
    Login of SASL for all listeners.
sasl.login.callback.handler.class | class | null | medium
    Java class that answers for the login of SASL.
sasl.login.class | class | null | medium
    Java class of the login of SASL.
sasl.login.refresh.buffer.seconds | short | 300 | medium per-broker
    Time before its end at which a credential is renewed at the latest.
sasl.login.refresh.min.period.seconds | short | 60 | medium per-broker
    Minimum time between two renewals of a credential.
sasl.login.refresh.window.factor | double | 0.8 | medium per-broker
    Share of a credential's life after which it is renewed.
sasl.login.refresh.window.jitter | double | 0.05 | medium per-broker
    Random part of that share.
""",
    no_effect="SASL is not Java's here; logins are set by listener.name.LISTENER.MECHANISM.sasl.jaas.config",
)
KERBEROS_RENEWAL = rows(
    """
sasl.kerberos.kinit.cmd | string | /usr/bin/kinit | medium per-broker
    Path of the command kinit.
sasl.kerberos.min.time.before.relogin | long | 60000 | medium per-broker
    Minimum time between two Kerberos logins.
sasl.kerberos.ticket.renew.jitter | double | 0.05 | medium per-broker
    Random part of the time before a Kerberos ticket is renewed.
sasl.kerberos.ticket.renew.window.factor | double | 0.8 | medium per-broker
    Share of a Kerberos ticket's life after which it is renewed.
""",
    no_effect="the Kerberos library gets new tickets with a keytab, and a ticket cache is renewed by its owner",
)
INTERNAL = rows(
    """
controller.performance.always.log.threshold.ms | long 0.. | 2000 | internal
    Duration from which on a controller's event is logged.
controller.performance.sample.period.ms | long 100.. | 60000 | internal
    Time between two logs of a controller's durations.
group.share.persister.class.name | string | org.apache.kafka.server.share.persister.DefaultStatePersister | internal
    Java class that keeps the state of share groups.
internal.metadata.delete.delay.millis | long | 60000 | internal
    Time for which a deleted file of the metadata log stays.
internal.metadata.log.segment.bytes | int | null | internal
    Segment size of the metadata log, below the usual bound.
internal.metadata.max.batch.size.in.bytes | int | 8388608 | internal
    Largest batch of the metadata log.
log.initial.task.delay.ms | long 0.. | 30000 | internal
    Time after the start before logs are maintained.
remote.log.index.file.cache.ttl.ms | long -1.. | 900000 | internal
    Time an unused tiered index stays cached.
remote.log.manager.task.retry.backoff.max.ms | long 1.. | 30000 | internal
    Longest wait of a failed task of tiered storage.
remote.log.manager.task.retry.backoff.ms | long 1.. | 500 | internal
    First wait of a failed task of tiered storage.
remote.log.manager.task.retry.jitter | double | 0.2 | internal
    Random part of that wait.
unstable.api.versions.enable | boolean | false | internal
    Whether versions of APIs are offered that may still change.
unstable.feature.versions.enable | boolean | false | internal
    Whether levels of features are offered that may still change.
""",
    no_effect="it is internal to Apache Kafka",
)
REPLACED = (
    *GROUP_COORDINATOR,
    *METRICS,
    *THREADS,
    *PURGATORIES,
    *SOCKETS,
    *CHECKPOINTS,
    *OTHER_WAYS,
    *TLS_OF_JAVA,
    *SASL_OF_JAVA,
    *KERBEROS_RENEWAL,
    *INTERNAL,
)
