"""docs/limits.md: every limit in bytes and counts, with its value from the code (`REWRITE_TRANSCRIPTS=1` writes it)."""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import datadriven
from tests.broker.repeated_items import REPEATED
from tests.checks import check_each
from trimaran.metrics.registry import SUBJECTS
from trimaran.node.config.config_def import INT_MAX, LONG_MAX
from trimaran.node.config.server_keys import SERVER_CONFIGS

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "limits.md"
REFUSED, MEMORY = "trimaran_connections_refused", "trimaran_connection_memory_bytes"
WAITING, BAD = "trimaran_connection_memory_waiting", "trimaran_bad_frames"
ERRORS = "kafka_network_requestmetrics_errors"
NONE = "–"
STREAMS = "trimaran.broker.groups.streams."
INVALID = "STREAMS_INVALID_TOPOLOGY"
PER_IP = "max.connections.per.ip"
QUORUM_REQUESTS = "trimaran_trio_loop_lag_seconds"


@dataclass(frozen=True)
class Limit:
    """`where`: a key of nodes, `module:CONSTANT`, or `module:Class.field` with a default."""

    what: str
    where: str
    at_it: str
    metric: str = NONE
    option: str = ""  # the option of Spark's sink that has this default

    @property
    def is_key(self) -> bool:
        return ":" not in self.where

    @property
    def value(self) -> float:
        if self.is_key:
            return SERVER_CONFIGS[self.where].default
        module, _, name = self.where.partition(":")
        found = importlib.import_module(module)
        kind, _, field = name.partition(".")
        if field:
            return getattr(found, kind).__dataclass_fields__[field].default
        return getattr(found, kind)

    @property
    def text(self) -> str:
        value = self.value
        if value in (INT_MAX, LONG_MAX, 1 << 31):
            return "no bound"
        if value > 0 and re.search("bytes|buffer.size|VALUE_SIZE", self.where, re.IGNORECASE):
            for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
                if value % size == 0:
                    return f"{value // size} {unit}"
            return f"{value:,} bytes"
        seconds = "SECONDS" in self.where or "seconds" in self.where
        if self.where.endswith(".ms"):
            value, seconds = value / 1000, True
        return f"{value:,g} s" if seconds else f"{value:,}"

    @property
    def row(self) -> str:
        named = self.where if self.is_key else self.option
        key = f"`{named}`" if named else NONE
        metric = self.metric if self.metric == NONE else f"`{self.metric}`"
        return f"| {self.what} | {self.text} | {key} | {self.at_it} | {metric} |"


SINK = "trimaran.spark.sink."
LIMITS = "trimaran.wire.transport.connection.limits:ConnectionLimits."
HEAVY = "trimaran.wire.transport.requests.elements:"
GROUPS = "trimaran.broker.groups.limits:"
VALUES = "trimaran.wire.values."
FAULTS = "trimaran.faults."
CONTROL = "trimaran.fault_control."
DROPPED = "the oldest are dropped"
LEFT_OFF = "the others are left off, and counted"
PATTERNS = "trimaran.broker.metadata.topic_patterns:"
TABLE = {
    "Connections": [
        Limit(
            "connections of a node",
            "max.connections",
            "more wait; an idle client is closed",
            REFUSED,
        ),
        Limit("connections of one address", PER_IP, "closed at once", REFUSED),
        Limit(
            "new connections per second",
            "max.connection.creation.rate",
            "wait",
            "trimaran_connections_delayed",
        ),
        Limit("time without progress", "connections.max.idle.ms", "closed"),
        Limit(
            "descriptors reserved for files",
            "trimaran.node.listening.listeners:DESCRIPTORS_FOR_FILES",
            "closed",
            REFUSED,
        ),
        Limit(
            "connections that wait to be accepted",
            "trimaran.wire.transport.server.server:BACKLOG",
            "the kernel drops more",
        ),
        Limit("time for TLS and login", LIMITS + "handshake_seconds", "closed"),
        Limit(
            "bytes of a frame before the login",
            "trimaran.wire.transport.connection.limits:FRAME_BYTES_BEFORE_LOGIN_MAX",
            "closed",
            BAD,
        ),
        Limit(
            "… of a listener with GSSAPI",
            "trimaran.wire.transport.connection.limits:FRAME_BYTES_WITH_TICKET_MAX",
            "closed",
            BAD,
        ),
        Limit(
            "addresses with failed logins",
            "trimaran.wire.transport.connection.failed_logins:ADDRESSES_MAX",
            "the oldest is forgotten",
        ),
        Limit(
            "delay of a failed login",
            "trimaran.wire.transport.connection.failed_logins:DELAY_SECONDS_MAX",
            "no longer",
        ),
        Limit(
            "connections for metrics and probes",
            "trimaran.metrics.http:CONNECTIONS_MAX",
            "the one that waits longest is closed",
        ),
        Limit(
            "scrapes of metrics at a time",
            "trimaran.metrics.serving:SCRAPES_MAX",
            "status 503",
        ),
        Limit(
            "muting of a throttled connection",
            "trimaran.wire.transport.requests.calls:MUTED_SECONDS_MAX",
            "no longer",
        ),
    ],
    "Requests and responses": [
        Limit("bytes of a frame", "socket.request.max.bytes", "closed", BAD),
        Limit(
            "bytes of all requests being received and in progress; -1: 128 MiB, half for each",
            "queued.max.request.bytes",
            "sockets are not read",
            MEMORY,
        ),
        Limit(
            "bytes of all responses not yet received, including converted messages",
            "trimaran.wire.transport.memory.bounds:RESPONSES_BYTES_MAX",
            "sockets are not read",
            MEMORY,
        ),
        Limit(
            "bytes of a response while it is built",
            "trimaran.wire.buffers.response_size:RESPONSE_BYTES_MAX",
            "POLICY_VIOLATION for the remaining items, or another page",
            ERRORS,
        ),
        Limit(
            "the same, with errors that repeat the names of the request",
            "trimaran.wire.buffers.response_size:ENCODED_BYTES_MAX",
            "POLICY_VIOLATION",
            ERRORS,
        ),
        Limit(
            "bytes of all responses above 64 KiB that are being built",
            "trimaran.wire.transport.memory.pools:LARGE_BYTES_MAX",
            "more wait",
        ),
        Limit(
            "time that a stalled connection keeps memory that others wait for",
            LIMITS + "stalled_seconds",
            "closed",
            WAITING,
        ),
        Limit("requests in progress of a connection", LIMITS + "in_flight_max", "it is not read"),
        Limit("bytes of these requests", LIMITS + "in_flight_bytes_max", "it is not read"),
        Limit("unsent bytes of a connection", LIMITS + "unsent_bytes_max", "it is not read"),
        Limit(
            "bytes decoded on the event loop; more in a thread",
            HEAVY + "HEAVY_BYTES",
            "a thread, one at a time",
        ),
        Limit(
            "elements of a Fetch, Metadata, ListOffsets",
            HEAVY + "PARTITIONS_ELEMENTS_MAX",
            "refused",
            ERRORS,
        ),
        Limit(
            "elements of a change of metadata", HEAVY + "DECISION_ELEMENTS_MAX", "refused", ERRORS
        ),
        Limit(
            "elements about users, ACLs, members", HEAVY + "MANY_ELEMENTS_MAX", "refused", ERRORS
        ),
        Limit(
            "bytes of a Fetch response",
            "trimaran.broker.process.families:RESPONSE_BYTES_MAX",
            "less is returned",
        ),
        Limit(
            "bytes of a response that a node accepts from another node",
            "trimaran.wire.client.conversation:RESPONSE_BYTES_MAX",
            "the connection ends",
        ),
        Limit(
            "encoded views of the metadata",
            "trimaran.broker.metadata.topic_views:VIEWS_MAX",
            "the oldest is dropped",
        ),
        Limit(
            "principals and hosts for which each view keeps the response with all topics",
            "trimaran.broker.metadata.seen_topics:KEPT_MAX",
            "the oldest is dropped",
        ),
    ],
    "Records": [
        Limit("bytes of a batch", "message.max.bytes", "MESSAGE_TOO_LARGE", ERRORS),
        Limit(
            "bytes of a batch, decompressed",
            "trimaran.log.validation.validate:DECOMPRESSED_BYTES_MAX",
            "INVALID_RECORD",
            ERRORS,
        ),
        Limit(
            "bytes of a decompressed batch in a search by time",
            "trimaran.log.batches.records:RECORDS_BYTES_MAX",
            "MESSAGE_TOO_LARGE",
            ERRORS,
        ),
        Limit(
            "bytes of an old message set, decompressed",
            "trimaran.log.old_formats.message_sets:SET_BYTES_MAX",
            "RECORD_LIST_TOO_LARGE",
            ERRORS,
        ),
        Limit(
            "messages of an old set",
            "trimaran.log.old_formats.message_sets:MESSAGES_MAX",
            "RECORD_LIST_TOO_LARGE",
            ERRORS,
        ),
        Limit(
            "window of zstd", "trimaran.log.codecs.zstd:WINDOW_BYTES_MAX", "INVALID_RECORD", ERRORS
        ),
        Limit(
            "idempotent producers of a partition",
            "trimaran.log.producers.state:PRODUCERS_MAX",
            "the oldest is forgotten",
        ),
        Limit(
            "unverified transactions of a partition",
            "trimaran.log.producers.verifications:VERIFICATIONS_MAX",
            "the oldest is forgotten",
        ),
        Limit(
            "bytes of a log directory that are not on disk yet",
            "trimaran.log.durability.group_commit:UNFLUSHED_BYTES_MAX",
            "acks=1 and acks=0 wait for the disk",
            "trimaran_fsync_seconds",
        ),
        Limit("memory of a cleaner", "log.cleaner.dedupe.buffer.size", "more rounds are needed"),
        Limit(
            "open files of logs", "trimaran.log.disk.open_files:OPEN_MAX", "the oldest is closed"
        ),
    ],
    "Fetch sessions": [
        Limit(
            "sessions",
            "max.incremental.fetch.session.cache.slots",
            "fetches work without a session",
        ),
        Limit(
            "partitions of all sessions",
            "trimaran.broker.fetching.sessions:PARTITIONS_MAX",
            "fetches work without a session",
        ),
        Limit(
            "bytes of a topic's name",
            "trimaran.broker.fetching.sessions:NAME_BYTES_MAX",
            "fetches work without a session",
        ),
    ],
    "Share groups": [
        Limit(
            "share sessions",
            "group.share.max.share.sessions",
            "SHARE_SESSION_LIMIT_REACHED",
            "kafka_server_sharesessioncache_sharesessionscount",
        ),
        Limit(
            "partitions of all share sessions",
            "trimaran.broker.sharing.sessions:SHARED_PARTITIONS_MAX",
            "SHARE_SESSION_LIMIT_REACHED",
            "kafka_server_sharesessioncache_sharepartitionscount",
        ),
        Limit(
            "records of a share partition in flight, to the end of a batch",
            "group.share.partition.max.record.locks",
            "no more records are delivered",
            "kafka_server_sharepartitionmetrics_inflightmessagecount",
        ),
        Limit(
            "runs of records in flight of all share partitions",
            "trimaran.broker.sharing.share_partitions:RUNS_IN_FLIGHT_MAX",
            "no more new records are delivered",
        ),
        Limit(
            "batches that a share fetch acquires in a partition",
            "trimaran.broker.sharing.share_fetch:LOOKED_AT_MAX",
            "fewer are returned",
        ),
        Limit(
            "state batches in one write of a share partition",
            "trimaran.broker.sharing.led_share:WRITTEN_BATCHES_MAX",
            "the next write",
        ),
        Limit(
            "deliveries to dead-letter queues that hold a batch of records",
            "trimaran.broker.sharing.dead_letter_queues:AT_WORK_MAX",
            "more wait",
        ),
        Limit(
            "bytes of one read of records for copies, or a batch",
            "trimaran.broker.sharing.letter_copies:READ_BYTES_MAX",
            "the next read",
        ),
        Limit(
            "attempts to write a batch to a dead-letter queue",
            "trimaran.broker.sharing.dead_letters:ATTEMPTS_MAX",
            "archived without a letter",
            "kafka_server_sharegroupmetrics_deadletterqueuefailedproducerequests",
        ),
    ],
    "Groups and transactions": [
        Limit("members of a classic group", "group.max.size", "GROUP_MAX_SIZE_REACHED", ERRORS),
        Limit(
            "members of a consumer group",
            "group.consumer.max.size",
            "GROUP_MAX_SIZE_REACHED",
            ERRORS,
        ),
        Limit(
            "members about to join",
            GROUPS + "PENDING_MEMBERS_MAX",
            "GROUP_MAX_SIZE_REACHED",
            ERRORS,
        ),
        Limit("bytes of a classic member", GROUPS + "MEMBER_BYTES_MAX", "refused", ERRORS),
        Limit("bytes of all members of a group", GROUPS + "GROUP_BYTES_MAX", "refused", ERRORS),
        Limit(
            "bytes of all groups of a broker, members, assignments and patterns",
            "trimaran.broker.groups.memory:GROUPS_BYTES_MAX",
            "GROUP_MAX_SIZE_REACHED",
            ERRORS,
        ),
        Limit(
            "bytes of the groups of one principal; without logins all clients are one",
            "trimaran.broker.groups.memory:PRINCIPAL_BYTES_MAX",
            "GROUP_MAX_SIZE_REACHED",
            ERRORS,
        ),
        Limit(
            "time of a joining member that has lost its connection",
            "trimaran.broker.groups.classic.arrivals:ABANDONED_SECONDS",
            "forgotten",
        ),
        Limit(
            "bytes of a subscription",
            "trimaran.broker.groups.heartbeating.settings:SUBSCRIPTION_BYTES_MAX",
            "refused",
            ERRORS,
        ),
        Limit("bytes of a topology", STREAMS + "topology:TOPOLOGY_BYTES_MAX", INVALID, ERRORS),
        Limit("subtopologies", STREAMS + "topology:SUBTOPOLOGIES_MAX", INVALID, ERRORS),
        Limit(
            "topics, configs and indexes of a topology; internal topics count twice",
            STREAMS + "topology:TOPOLOGY_ENTRIES_MAX",
            INVALID,
            ERRORS,
        ),
        Limit("tasks of a topology", STREAMS + "configuring:TASKS_MAX", INVALID, ERRORS),
        Limit(
            "bytes of the ids, tags and endpoint of a member of a streams group",
            STREAMS + "settings:MEMBER_TEXT_BYTES_MAX",
            "refused",
            ERRORS,
        ),
        Limit(
            "bytes of the description of a topology",
            STREAMS + "descriptions:DESCRIPTION_BYTES_MAX",
            "STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED",
            ERRORS,
        ),
        Limit(
            "bytes of the endpoints that a heartbeat of a streams group tells",
            STREAMS + "endpoints:ENDPOINTS_BYTES_MAX",
            "the rest is left out",
        ),
        Limit("instructions of a pattern", PATTERNS + "INSTRUCTIONS_MAX", "refused", ERRORS),
        Limit("memory of a pattern", PATTERNS + "MEMORY_BYTES_MAX", "refused", ERRORS),
        Limit("patterns that are resolved at a time", PATTERNS + "PATTERNS_AT_ONCE", "others wait"),
        Limit(
            "topics in the cached results of all patterns",
            PATTERNS + "NAMES_KEPT_MAX",
            "the oldest is dropped",
        ),
        Limit(
            "memory of a pattern of transactional ids",
            "trimaran.broker.transactions.listing:PATTERN_MEMORY_BYTES_MAX",
            "refused",
            ERRORS,
        ),
        Limit(
            "bytes of all groups and offsets that a broker knows, including ids",
            "trimaran.broker.groups.memory:KNOWN_BYTES_MAX",
            "GROUP_MAX_SIZE_REACHED, INVALID_COMMIT_OFFSET_SIZE",
            ERRORS,
        ),
        Limit(
            "bytes of an offset's metadata",
            "offset.metadata.max.bytes",
            "OFFSET_METADATA_TOO_LARGE",
            ERRORS,
        ),
        Limit(
            "bytes of all offsets' metadata of a broker",
            "trimaran.broker.groups.memory:OFFSET_METADATA_BYTES_MAX",
            "OFFSET_METADATA_TOO_LARGE",
            ERRORS,
        ),
        Limit(
            "bytes of all transactional ids of a broker and their partitions",
            "trimaran.broker.transactions.memory:TRANSACTIONS_BYTES_MAX",
            "POLICY_VIOLATION",
            ERRORS,
        ),
        Limit(
            "topics in which a share group has states",
            "trimaran.broker.groups.share.state_partitions:TOPICS_MAX",
            "others are not read; POLICY_VIOLATION",
            ERRORS,
        ),
        Limit(
            "topics whose states a heartbeat of a share group begins to initialize",
            "trimaran.broker.groups.share.initializing:TOPICS_AT_A_TIME",
            "later heartbeats",
        ),
        Limit(
            "batches of the state of a share partition",
            "trimaran.broker.share_state.memory:BATCHES_MAX",
            "POLICY_VIOLATION",
            ERRORS,
        ),
        Limit(
            "bytes of all states of share partitions of a broker",
            "trimaran.broker.share_state.memory:STATES_BYTES_MAX",
            "POLICY_VIOLATION",
            ERRORS,
        ),
        Limit(
            "length of a transaction",
            "transaction.max.timeout.ms",
            "INVALID_TRANSACTION_TIMEOUT",
            ERRORS,
        ),
    ],
    "Replication": [
        Limit(
            "requests in progress to a leader",
            "trimaran.broker.replication.fetcher:IN_FLIGHT_MAX",
            "new fetches wait",
        ),
        Limit("bytes of a response", "replica.fetch.response.max.bytes", "less is returned"),
        Limit(
            "bytes of a move between directories in one step",
            "trimaran.broker.background.directory_moves:STEP_BYTES_MAX",
            "the rest waits",
        ),
    ],
    "Quotas": [
        Limit(
            "remembered clients per quota",
            "trimaran.node.quotas.client_limits:OWNERS_MAX",
            "idle clients are forgotten",
        ),
        Limit(
            "bytes of their names per quota",
            "trimaran.node.quotas.client_limits:NAMES_BYTES_MAX",
            "idle clients are forgotten",
        ),
        Limit(
            "remembered host names",
            "trimaran.node.listening.addresses:NAMES_MAX",
            "the oldest is forgotten",
        ),
        Limit("bytes of metrics in a push", "telemetry.max.bytes", "TELEMETRY_TOO_LARGE", ERRORS),
        Limit(
            "bytes of metrics in a push, decompressed",
            "telemetry.max.bytes",
            "INVALID_RECORD",
            ERRORS,
        ),
        Limit(
            "bytes of stored metrics of a client",
            "trimaran.broker.telemetry.received:CLIENT_BYTES_MAX",
            "more is omitted",
            "trimaran_client_metrics_dropped",
        ),
        Limit(
            "bytes of stored metrics of all clients",
            "trimaran.broker.telemetry.received:BYTES_MAX",
            "the most idle are forgotten",
        ),
        Limit(
            "memory of a pattern of a subscription",
            "trimaran.node.config.client_metrics_keys:PATTERN_MEMORY_BYTES_MAX",
            "refused",
            ERRORS,
        ),
        Limit(
            "clients that push",
            "trimaran.broker.telemetry.clients:CLIENTS_MAX",
            "the most idle are forgotten",
        ),
        Limit(
            "bytes of their names and versions",
            "trimaran.broker.telemetry.clients:LABELS_BYTES_MAX",
            "the most idle are forgotten",
        ),
        Limit(
            "logged denials in ten seconds",
            "trimaran.quorum.serving.audit:LINES_MAX",
            "more are only counted",
        ),
    ],
    "The quorum": [
        Limit(
            "waiting decisions",
            "trimaran.node.replicated.operations:WAITING_MAX",
            "REQUEST_TIMED_OUT",
            ERRORS,
        ),
        Limit(
            "records of one request",
            "trimaran.quorum.controller.partitions.topics:RECORDS_MAX",
            "POLICY_VIOLATION",
            ERRORS,
        ),
        Limit(
            "bytes of all configs of one request",
            "trimaran.quorum.controller.configs.config_checks:CHARACTERS_MAX",
            "POLICY_VIOLATION",
            ERRORS,
        ),
        Limit(
            "configs of one resource in a request",
            "trimaran.quorum.controller.configs.config_checks:CONFIGS_MAX",
            "POLICY_VIOLATION",
            ERRORS,
        ),
        Limit(
            "undeclared configs of a broker, or of all brokers",
            "trimaran.quorum.controller.configs.config_checks:UNDECLARED_MAX",
            "POLICY_VIOLATION",
            ERRORS,
        ),
        Limit(
            "bytes of a batch of metadata",
            "trimaran.quorum.replica.node:BATCH_BYTES_MAX",
            "refused",
            ERRORS,
        ),
        Limit(
            "uncommitted bytes",
            "trimaran.quorum.replica.node:UNCOMMITTED_BYTES_MAX",
            "REQUEST_TIMED_OUT",
            ERRORS,
        ),
        Limit(
            "bytes of all delegation tokens",
            "trimaran.quorum.controller.security.delegation_tokens:TOKENS_BYTES_MAX",
            "POLICY_VIOLATION",
            ERRORS,
        ),
        Limit(
            "requests that wait for the replica",
            "trimaran.quorum.replica.driver:INBOX_MAX",
            "BROKER_NOT_AVAILABLE",
        ),
        Limit(
            "bytes of a fetched snapshot",
            "trimaran.quorum.replica.snapshot_fetch:SNAPSHOT_BYTES_MAX",
            "abandoned, logged",
        ),
        Limit(
            "bytes of a config's value",
            "trimaran.quorum.controller.configs.config_checks:VALUE_SIZE_MAX",
            "refused",
            ERRORS,
        ),
    ],
    "Writing with Spark": [
        Limit(
            "bytes of the rows and batches of a task, also while batches are made",
            SINK + "options:BUFFER_BYTES",
            "the task waits; one Arrow batch, or one record, may be larger",
            option="kafka.buffer.memory",
        ),
        Limit(
            "bytes of a batch before compression",
            SINK + "options:BATCH_BYTES",
            "the next batch",
            option="kafka.batch.size",
        ),
        Limit(
            "bytes of a request, and of a record",
            SINK + "options:REQUEST_BYTES",
            "the next request; a larger record is an error",
            option="kafka.max.request.size",
        ),
        Limit(
            "refused records that an error names",
            SINK + "delivery:ERRORS_SHOWN",
            "more are only counted",
        ),
        Limit(
            "transactions that a driver ends at a time, each over its own connections",
            SINK + "exactly_once.pool:AT_ONCE",
            "more wait",
        ),
        Limit(
            "groups or transactional ids of one request of a client",
            "trimaran.wire.client.coordinators:KEYS_MAX",
            "more take further requests",
        ),
        Limit(
            "bytes of a decision: 80 for each task",
            SINK + "exactly_once.decisions:DECISION_BYTES_MAX",
            "an error; the micro-batch is repeated",
        ),
        Limit(
            "transactions that an error names",
            SINK + "exactly_once.driver:NAMES_SHOWN",
            "more are only counted",
        ),
        Limit(
            "queries whose transactional ids a Python worker uses again",
            SINK + "exactly_once.task_ids:QUERIES",
            "the least recent one gets new ids",
        ),
        Limit(
            "earlier micro-batches of a query that a Python worker recognizes",
            SINK + "exactly_once.task_ids:REMEMBERED",
            "the oldest is forgotten",
        ),
    ],
    "Threads": [
        Limit(
            "threads that wait for disks", "trimaran.node.runtime.threads:THREADS_MAX", "work waits"
        ),
        Limit("threads that compute", "trimaran.node.runtime.threads:COMPUTING_MAX", "work waits"),
        Limit(
            "threads for fsync, per log directory",
            "trimaran.log.durability.group_commit:WORKERS_MAX",
            "work waits",
        ),
        Limit(
            "fsyncs that the kernel starts at once, per log directory",
            "trimaran.log.durability.group_commit:BEGUN_MAX",
            "a thread does it",
        ),
        Limit(
            "files of one fsync by the kernel",
            "trimaran.log.durability.syncing:FILES_MAX",
            "a thread does it",
        ),
        Limit(
            "fsyncs of the kernel in progress",
            "trimaran.log.durability.syncing:UNDER_WAY_MAX",
            "a thread does it",
        ),
    ],
    "Identity providers": [
        Limit(
            "bytes of a response, or of a file for assertions",
            "trimaran.node.oauth.web:BYTES_MAX",
            "not accepted, logged",
        ),
        Limit(
            "seconds of a response", "trimaran.node.oauth.web:SECONDS_MAX", "not accepted, logged"
        ),
        Limit("keys", "trimaran.node.oauth.keys:KEYS_MAX", "not accepted, logged"),
        Limit(
            "characters of a token",
            "trimaran.wire.security.sasl.oauthbearer:TOKEN_CHARS_MAX",
            "refused",
        ),
        Limit(
            "bytes of a keystore, truststore or list of revoked certificates",
            "trimaran.wire.security.small_files:SMALL_FILE_BYTES_MAX",
            "refused",
        ),
    ],
    "Values decoded by schemas": [
        Limit("bytes of a value", VALUES + "decoder:VALUE_BYTES_MAX", "not decoded"),
        Limit("schemas of a decoder", VALUES + "decoder:SCHEMAS_MAX", "requested again"),
        Limit(
            "time until an unknown schema is requested again",
            VALUES + "decoder:REFUSAL_SECONDS",
            "not decoded",
        ),
        Limit("bytes of a registry's answer", VALUES + "http_get:ANSWER_BYTES_MAX", "refused"),
        Limit("time of a request", VALUES + "http_get:REGISTRY_SECONDS_MAX", "an error"),
        Limit("schemas that one refers to", VALUES + "registry:REFERENCES_MAX", "not decoded"),
        Limit("types in a schema of Avro", VALUES + "avro_shape:NESTING_MAX", "not decoded"),
        Limit(
            "values in one of Avro without a byte of their own",
            VALUES + "avro_shape:FREE_VALUES_MAX",
            "not decoded",
        ),
        Limit("bytes of a decimal", VALUES + "avro:DECIMAL_BYTES_MAX", "not decoded"),
        Limit("digits behind its point", VALUES + "avro:SCALE_MAX", "not decoded"),
        Limit(
            "messages of Protobuf in each other",
            VALUES + "framing:MESSAGE_INDEXES_MAX",
            "not decoded",
        ),
        Limit(
            "arrays and maps of MessagePack in each other",
            VALUES + "msgpack:NESTING_MAX",
            "not decoded",
        ),
        Limit(
            "bytes of the descriptors of a schema",
            VALUES + "protoc:DESCRIPTORS_BYTES_MAX",
            "not decoded",
        ),
        Limit("time of Protobuf's compiler", VALUES + "protoc:COMPILER_SECONDS_MAX", "not decoded"),
        Limit(
            "fields of a column of Spark",
            "trimaran.spark.schema_values.column_types:FIELDS_MAX",
            "refused",
        ),
    ],
    "The command line": [
        Limit(
            "names that are compared for a suggestion",
            "trimaran.errors.similar:NAMES_MAX",
            "others are not suggested",
        ),
        Limit(
            "groups that a downgrade names",
            "trimaran.cli.features:NAMED_MAX",
            "the others are counted",
        ),
        Limit("rows of a query in a terminal", "trimaran.cli.sql:ROWS_MAX", "more are left out"),
        Limit(
            "bytes of the metrics of a node",
            "trimaran.client.metrics_text:BYTES_MAX",
            "the rest is left out",
        ),
        Limit(
            "nodes whose metrics tell of deliveries",
            "trimaran.client.share_deliveries:NODES_MAX",
            "the others are not asked",
        ),
    ],
    "Faults on demand": [
        Limit("rules", FAULTS + "rules:RULES_MAX", "refused"),
        Limit("characters of a rule's name", FAULTS + "rules:RULE_NAME_CHARS_MAX", "refused"),
        Limit("steps of a sequence", FAULTS + "rules:SEQUENCE_STEPS_MAX", "refused"),
        Limit("bytes of a plan file", FAULTS + "plan_file:PLAN_BYTES_MAX", "refused"),
        Limit("wait of a rule", FAULTS + "action_parser:SECONDS_MAX", "refused"),
        Limit(
            "requests of a connection that wait",
            FAULTS + "connection_faults:OUTSTANDING_MAX",
            "closed",
        ),
        Limit(
            "bytes of frames that wait",
            FAULTS + "verdict_queue:WAITING_BYTES_MAX",
            "the side is not read",
        ),
        Limit(
            "brokers behind a proxy",
            FAULTS + "proxy_addresses:BROKERS_MAX",
            "their address is shown",
        ),
        Limit("topic ids with names", FAULTS + "topic_names:TOPIC_IDS_MAX", DROPPED),
        Limit("first leaders", FAULTS + "response_edits:FIRST_LEADERS_MAX", "later are not kept"),
        Limit("observations of a rule", FAULTS + "observations:OBSERVATIONS_MAX", DROPPED),
        Limit("bytes of their frames", FAULTS + "observations:OBSERVED_BYTES_MAX", DROPPED),
        Limit("errors of scripts", FAULTS + "fault_set:ERRORS_MAX", "later are not kept"),
        Limit("lines of the trace", FAULTS + "observations:TRACE_LINES_MAX", DROPPED),
        Limit("bytes of a body over HTTP", CONTROL + "requests:BODY_BYTES_MAX", "refused"),
        Limit("bytes of rows of an answer", CONTROL + "requests:ANSWER_BYTES_MAX", LEFT_OFF),
        Limit("time of a wait over HTTP", CONTROL + "rules:WAIT_SECONDS_MAX", "refused"),
        Limit("waits over HTTP", CONTROL + "serving:WAITS_MAX", "refused"),
        Limit("threads of requests over HTTP", CONTROL + "serving:THREADS_MAX", "more wait"),
    ],
}
ROWS = [limit for limits in TABLE.values() for limit in limits]
HEAD = """# Limits

All data that a peer sends or that is stored for it is limited. This page lists each limit and its effect.
Limits with a key can be configured; the others are constants in the code.
This page is generated from the code: `REWRITE_TRANSCRIPTS=1 pytest tests/test_limits.py`.

`trimaran metrics --only connection` shows how close a node is to them. Quotas of clients are in
[brokers.md](brokers.md#quotas-of-clients),
bounds of connections in [security.md](security.md#bounds-of-connections)."""
COLUMNS = ("limit on", "default", "key", "when reached", "metric")
NAMED_TWICE = """
## Items that a request names twice

A repeated item does not multiply a response: it is answered once, or the request or the item is refused.
If it is answered each time, it takes only a few bytes. The third column shows a different answer of Apache Kafka.

| request | answered | Apache Kafka | |
|---|---|---|---|"""


def page() -> str:
    parts = [HEAD]
    for title, limits in TABLE.items():
        head = f"| {' | '.join(COLUMNS)} |\n|---|---|---|---|---|"
        parts += [f"\n## {title}\n", head, *(limit.row for limit in limits)]
    rows = [
        f"| {name} | {repeated.here} | {repeated.by_kafka or NONE} | {repeated.why} |"
        for name, repeated in sorted(REPEATED.items())
    ]
    return "\n".join([*parts, NAMED_TWICE, *rows]) + "\n"


def test_page_matches_the_code():
    if datadriven.REWRITE:
        PAGE.write_text(page())
    assert PAGE.read_text() == page()


def test_each_metric_is_served():
    served = {line.name for tables in SUBJECTS.values() for table in tables for line in table}

    def is_served(row: Limit) -> None:
        assert row.metric in served | {NONE}

    check_each(ROWS, is_served)


# Limits of one step, of one of our responses, or of a file format.
_STEPS_AND_FORMATS = {
    "BATCH_BYTES_MAX", "BYTES_CHECKED_AT_ONCE_MAX", "CONTROL_BATCH_BYTES_MAX", "DATA_BYTES_MAX", "FETCH_BYTES_MAX",
    "DECODED_BYTES_MAX", "FILE_NAME_BYTES_MAX", "LOOK_BYTES_MAX", "MESSAGE_BYTES_MAX", "PENDING_BYTES_MAX",
    "RECORDS_BYTES_MAX", "RESPONSE_BYTES_MAX", "REQUEST_BYTES_MAX", "STRING_BYTES_MAX", "TOKEN_BYTES_MAX",
}  # fmt: skip
_BYTES = re.compile(r"^((?:[A-Z][A-Z_]*_)?BYTES_MAX)\b.*=", re.MULTILINE)


@pytest.mark.parametrize("package", ["broker", "log", "node", "quorum", "wire"])
def test_each_bound_of_bytes_has_a_row(package):
    known = {row.where.partition(":")[2] for row in ROWS} | _STEPS_AND_FORMATS
    found = {
        (str(path.relative_to(ROOT)), name)
        for path in (ROOT / package).rglob("*.py")
        for name in _BYTES.findall(path.read_text())
    }
    assert found
    assert (
        sorted(name_and_place for name_and_place in found if name_and_place[1] not in known) == []
    )
