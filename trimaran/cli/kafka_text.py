"""The texts of Apache Kafka's own tools, for `-o kafka`: functions from rows to the text that Kafka 4.4 prints.

Scripts split these by columns and words, so spaces matter. `tests/interop/test_kafka_text.py` compares each with the
real tool. The texts about groups are in `kafka_group_text.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]


def topics_list(rows: Sequence[Row]) -> str:
    """`kafka-topics --list`."""
    return "\n".join(str(row["topic"]) for row in rows)


def topic_description(topic: Row, moves: Mapping[int, Row]) -> str:
    """`kafka-topics --describe --topic`; `moves`: reassignments in progress by partition."""
    partitions = topic["partitions"]
    first = partitions[0]
    # The tool's replication factor does not count the replicas that a reassignment adds.
    moving = moves.get(first["partition"])
    replication = len(first["replicas"]) - (len(moving["adding"]) if moving else 0)
    configs = ",".join(
        f"{key}={'' if value is None else value}" for key, value in topic["configs"].items()
    )
    head = (
        f"Topic: {topic['topic']}\tTopicId: {topic['topic_id']}\tPartitionCount: {len(partitions)}"
        f"\tReplicationFactor: {replication}\tConfigs: {configs}"
    )
    return "\n".join(
        [head, *(_partition(topic["topic"], p, moves.get(p["partition"])) for p in partitions)]
    )


def _partition(topic: str, row: Row, move: Row | None) -> str:
    moving = ""
    if move is not None:
        moving = f"\tAdding Replicas: {_ids(move['adding'])}\tRemoving Replicas: {_ids(move['removing'])}"
    elr = "N/A" if row["elr"] is None else _ids(row["elr"])
    last_known = "N/A" if row["last_known_elr"] is None else _ids(row["last_known_elr"])
    return (
        f"\tTopic: {topic}\tPartition: {row['partition']}"
        f"\tLeader: {row['leader'] if row['leader'] >= 0 else 'none'}"
        f"\tReplicas: {_ids(row['replicas'])}\tIsr: {_ids(row['isr'])}{moving}"
        f"\tElr: {elr}\tLastKnownElr: {last_known}"
    )


def _ids(ids: Iterable[int]) -> str:
    return ",".join(map(str, ids))


def table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Kafka's `ToolsUtils.prettyPrintTable`: every cell is padded and followed by a tab."""
    lines = [list(head), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    return "\n".join(
        "".join(f"{cell.ljust(width)}\t" for cell, width in zip(line, widths, strict=True))
        for line in lines
    )


def quorum_replication(rows: Sequence[Row]) -> str:
    """`kafka-metadata-quorum describe --replication`."""
    head = ["NodeId", "DirectoryId", "LogEndOffset", "Lag"]
    return table(
        [*head, "LastFetchTimestamp", "LastCaughtUpTimestamp", "Status"],
        [
            (
                row["id"],
                row["directory_id"] or NO_DIRECTORY,
                row["log_end_offset"],
                row["lag"],
                row["last_fetch_ms"],
                row["last_caught_up_ms"],
                row["role"].capitalize(),
            )
            for row in sorted(rows, key=lambda row: row["role"] != "leader")
        ],
    )


NO_DIRECTORY = "A" * 22  # Uuid.ZERO_UUID


def quorum_status(cluster_id: str, fields: Row, rows: Sequence[Row]) -> str:
    """`kafka-metadata-quorum describe --status`."""
    voters = [row for row in rows if row["role"] != "observer"]
    leader = next(row for row in voters if row["role"] == "leader")
    last = min(voters, key=lambda row: int(row["log_end_offset"]))
    behind_ms = -1
    if last is leader:
        behind_ms = 0
    elif leader["last_caught_up_ms"] >= 0 and last["last_caught_up_ms"] >= 0:
        behind_ms = leader["last_caught_up_ms"] - last["last_caught_up_ms"]
    observers = [row for row in rows if row["role"] == "observer"]
    told = {
        "ClusterId": cluster_id,
        "LeaderId": fields["leader_id"],
        "LeaderEpoch": fields["leader_epoch"],
        "HighWatermark": fields["high_watermark"],
        "MaxFollowerLag": leader["log_end_offset"] - last["log_end_offset"],
        "MaxFollowerLagTimeMs": behind_ms,
        "CurrentVoters": _replicas(voters),
        "CurrentObservers": _replicas(observers),
    }
    return "\n".join(f"{name + ':':<24}{value}" for name, value in told.items())


def _replicas(rows: Sequence[Row]) -> str:
    return f"[{', '.join(map(_replica, rows))}]"


def _replica(row: Row) -> str:
    named = row["directory_id"] is not None  # the directory of a static voter is unknown
    directory = f', "directoryId": "{row["directory_id"]}"' if named else ""
    endpoints = ", ".join(f'"{endpoint}"' for endpoint in row["endpoints"])
    listed = f', "endpoints": [{endpoints}]' if endpoints else ""
    return f'{{"id": {row["id"]}{directory}{listed}}}'


def transactions_list(rows: Sequence[Row]) -> str:
    """`kafka-transactions list`."""
    return table(
        ["TransactionalId", "Coordinator", "ProducerId", "TransactionState"],
        [(row["id"], row["coordinator"], row["producer"], row["state"]) for row in rows],
    )


def transaction_description(row: Row, now_ms: int) -> str:
    """`kafka-transactions describe`."""
    begun = row["start_ms"]
    head = "CoordinatorId TransactionalId ProducerId ProducerEpoch TransactionState TransactionTimeoutMs"
    return table(
        [
            *head.split(),
            "CurrentTransactionStartTimeMs",
            "TransactionDurationMs",
            "TopicPartitions",
        ],
        [
            (
                row["coordinator"],
                row["id"],
                row["producer"],
                row["epoch"],
                row["state"],
                row["timeout_ms"],
                "None" if begun is None else begun,
                "None" if begun is None else now_ms - begun,
                ",".join(row["partitions"]),
            )
        ],
    )


def log_dirs(rows: Sequence[Row]) -> str:
    """`kafka-log-dirs --describe`: two lines of messages, then JSON."""
    brokers = list(dict.fromkeys(row["broker"] for row in rows))
    content = {
        "brokers": [
            {
                "broker": broker,
                "logDirs": [
                    {
                        "partitions": [
                            {
                                "partition": f"{replica['topic']}-{replica['partition']}",
                                "size": replica["size"],
                                "offsetLag": replica["offset_lag"],
                                "isFuture": replica["is_future"],
                            }
                            for replica in row["replicas"]
                        ],
                        "error": row["error"],
                        "logDir": row["dir"],
                    }
                    for row in rows
                    if row["broker"] == broker
                ],
            }
            for broker in brokers
        ],
        "version": 1,
    }
    listed = ",".join(map(str, brokers))
    return (
        "Querying brokers for log directories information\n"
        f"Received log directory information from brokers {listed}\n"
        + json.dumps(content, separators=(",", ":"))
    )


DYNAMIC = {
    "topic": "DYNAMIC_TOPIC_CONFIG",
    "broker": "DYNAMIC_BROKER_CONFIG",
    "broker-logger": "DYNAMIC_BROKER_LOGGER_CONFIG",
    "client-metrics": "DYNAMIC_CLIENT_METRICS_CONFIG",
    "group": "DYNAMIC_GROUP_CONFIG",
}
BROKER_DEFAULTS = "DYNAMIC_DEFAULT_BROKER_CONFIG"


def configs(kind: str, name: str, rows: Sequence[Row], *, every: bool) -> str:
    """`kafka-configs --describe`; `rows` has all rows by name."""
    source = BROKER_DEFAULTS if kind == "broker" and not name else DYNAMIC[kind]
    which = f"Default configs for {kind}s in the cluster are:"
    if name:
        which = f"{'All' if every else 'Dynamic'} configs for {kind} {name} are:"
    return "\n".join(
        [which, *(_config(row) for row in rows if every or row["config_source"] == source)]
    )


def _config(row: Row) -> str:
    synonyms = ", ".join(
        f"{synonym['source']}:{synonym['name']}={_java(synonym['value'])}"
        for synonym in row["synonyms"]
    )
    value = None if row["is_sensitive"] else row["value"]
    sensitive = str(row["is_sensitive"]).lower()
    return f"  {row['name']}={_java(value)} sensitive={sensitive} synonyms={{{synonyms}}}"


def _java(value: Any) -> str:
    return "null" if value is None else str(value)


def acls(rows: Iterable[Row]) -> str:
    """`kafka-acls --list`, with Kafka's names."""
    by_resource: dict[str, list[str]] = {}
    for row in rows:
        resource = (
            f"ResourcePattern(resourceType={row['resource_type']}, name={row['name']}, "
            f"patternType={row['pattern_type']})"
        )
        by_resource.setdefault(resource, []).append(
            f"(principal={row['principal']}, host={row['host']}, operation={row['operation']}, "
            f"permissionType={row['permission']})"
        )
    return "\n".join(
        f"Current ACLs for resource `{resource}`: \n \t" + " \n\t".join(entries) + " \n"
        for resource, entries in by_resource.items()
    )


def reassignment_states(rows: Sequence[Row]) -> str:
    """`kafka-reassign-partitions --verify`, without its lines about cleared throttles."""
    return "\n".join(
        [
            "Status of partition reassignment:",
            *(_move(row) for row in sorted(rows, key=lambda row: (row["topic"], row["partition"]))),
        ]
    )


def _move(row: Row) -> str:
    where = f"{row['topic']}-{row['partition']}"
    if row["moving"]:
        return f"Reassignment of partition {where} is still in progress."
    if row["replicas"] == row["wanted"]:
        return f"Reassignment of partition {where} is completed."
    return (
        f"There is no active reassignment of partition {where}, but replica set is "
        f"{_ids(row['replicas'] or ())} rather than {_ids(row['wanted'])}."
    )
