"""The output of Kafka's own decoders (`kafka-dump-log --offsets-decoder`, `--transaction-log-decoder`), as the columns
of our levels; fields that a version does not print are missing in the rows. Kafka 3.9 prints JSON with the schemas'
names for groups and offsets, and 4.x for transactions, too; earlier versions print other texts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.interop.fixtures.kafkas import run
from tests.interop.old_clients import number
from trimaran.spark.kafka_log.decoded import STATES

Row = dict[str, Any]
RECORD = re.compile(r"^\| offset: (\d+) .*?headerKeys: \[[^]]*\] key: (.*?) payload: (.*)$")
OLD_ASSIGNED = re.compile(r"([^{},=\s]+)=\[([^]]*)\]")
CONSUMER_EVENTS = {
    "3": ("epoch", "deleted"),
    "5": ("member", "member_left"),
    "7": ("target", "target"),
    "8": ("assignment", "assignment"),
}


def printed(version: str, directory: Path, decoder: str) -> Iterator[tuple[int, str, str]]:
    """Yields offset, key and value of the records in a partition's directory, as printed by the version."""
    is_new = number(version) >= (4,)
    main = "org.apache.kafka.tools.DumpLogSegments" if is_new else "kafka.tools.DumpLogSegments"
    files = ",".join(map(str, sorted(directory.glob("*.log"))))
    for line in run(version, main, "--files", files, decoder).splitlines():
        found = RECORD.match(line)
        assert found or not line.startswith("|"), line
        if found:
            yield int(found[1]), found[2], found[3]


def offsets(version: str, directory: Path) -> list[Row]:
    """Returns offset commits, by record offset."""
    rows = []
    for offset, key, value in printed(version, directory, "--offsets-decoder"):
        if key.startswith("offset_commit::"):
            found = re.fullmatch(r"offset_commit::group=(.*),partition=(.*)-(\d+)", key)
            assert found is not None
            committed = re.fullmatch(r"offset=(\d+).*", value)
            row = {
                "group": found[1],
                "topic": found[2],
                "topic_partition": int(found[3]),
                "committed_offset": int(committed[1]) if committed else None,
            }
        elif key.startswith("{") and json.loads(key)["type"] in ("0", "1"):
            row = _commit(json.loads(key)["data"], _json(value))
        else:
            continue
        rows.append({"offset": offset, **row})
    return rows


def _commit(key: Row, value: Row | None) -> Row:
    row = {"group": key["group"], "topic": key["topic"], "topic_partition": key["partition"]}
    told = value or {}
    row |= {
        "committed_offset": told.get("offset"),
        "leader_epoch": told.get("leaderEpoch"),
        "metadata": told.get("metadata"),
        "commit_ms": told.get("commitTimestamp"),
    }
    if "topicId" in told:
        row["topic_id"] = told["topicId"]
    return row


def _json(text: str) -> Row | None:
    """Returns the data of a value; None for a tombstone."""
    return json.loads(text)["data"] if text.startswith("{") else None


def groups(version: str, directory: Path) -> list[Row]:
    """Returns generations and records of consumer groups; `members` maps member ids to their printed fields."""
    rows = []
    for offset, key, value in printed(version, directory, "--offsets-decoder"):
        if key.startswith("group_metadata::"):
            rows.append({"offset": offset, **_old_generation(key, json.loads(value))})
        elif key.startswith("{"):
            kind, data = json.loads(key)["type"], json.loads(key)["data"]
            if kind == "2":
                rows.append({"offset": offset, **_generation(data["group"], _json(value))})
            elif kind in CONSUMER_EVENTS:
                rows.append({"offset": offset, **_consumer(kind, data, _json(value))})
    return rows


def _old_generation(key: str, value: Row) -> Row:
    assigned = {
        member: {"assignment": sorted(filter(None, parts.split(", ")))}
        for member, parts in OLD_ASSIGNED.findall(value["assignment"])
    }
    return {
        "group": key.removeprefix("group_metadata::group="),
        "generation": value["generationId"],
        "assignor": value["protocol"],
        "members": assigned,
    }


def _generation(group: str, value: Row | None) -> Row:
    if value is None:
        return {"group": group, "event": "deleted"}
    members = {
        member["memberId"]: {
            "instance_id": member["groupInstanceId"],
            "client_id": member["clientId"],
            "client_host": member["clientHost"],
            "session_timeout_ms": member["sessionTimeout"],
            "rebalance_timeout_ms": member["rebalanceTimeout"],
            "subscription": member["subscription"]["topics"],
            "assignment": sorted(
                f"{part['topic']}-{n}"
                for part in member["assignment"]["assignedPartitions"]
                for n in part["partitions"]
            ),
        }
        for member in value["members"]
    }
    return {
        "group": group,
        "event": "generation" if members else "empty",
        "generation": value["generation"],
        "assignor": value["protocol"],
        "leader": value["leader"],
        "members": members,
    }


def _consumer(kind: str, key: Row, value: Row | None) -> Row:
    event = CONSUMER_EVENTS[kind][value is None]
    row = {"group": key["groupId"], "event": event, "member_id": key.get("memberId")}
    if value is None:
        return row
    if "epoch" in value or "memberEpoch" in value:
        row["generation"] = value.get("epoch", value.get("memberEpoch"))
    for ours, theirs in (
        ("client_id", "clientId"),
        ("client_host", "clientHost"),
        ("instance_id", "instanceId"),
        ("subscription", "subscribedTopicNames"),
    ):
        if theirs in value:
            row[ours] = value[theirs]
    parts = value.get("topicPartitions", value.get("assignedPartitions"))
    if parts is not None:
        row["assignment"] = sorted(f"{p['topicId']}-{n}" for p in parts for n in p["partitions"])
    return row


def transactions(version: str, directory: Path) -> list[Row]:
    """Returns the states of transactional ids."""
    rows = []
    for offset, key, value in printed(version, directory, "--transaction-log-decoder"):
        row = _transaction(key, value) if key.startswith("{") else _old_transaction(key, value)
        rows.append({"offset": offset, **row})
    return rows


def _transaction(key: str, value: str) -> Row:
    told = _json(value)
    named = {"transactional_id": json.loads(key)["data"]["transactionalId"]}
    if told is None:
        return {**named, "state": "Tombstone"}
    start = told["transactionStartTimestampMs"]
    return {
        **named,
        "producer_id": told["producerId"],
        "producer_epoch": told["producerEpoch"],
        "state": STATES.get(told["transactionStatus"], told["transactionStatus"]),  # 4.4: its name
        "timeout_ms": told["transactionTimeoutMs"],
        "update_ms": told["transactionLastUpdateTimestampMs"],
        "start_ms": start if start >= 0 else None,
        "partitions": sorted(
            f"{part['topic']}-{n}"
            for part in told["transactionPartitions"] or ()
            for n in part["partitionIds"]
        ),
    }


def _old_transaction(key: str, value: str) -> Row:
    named = {"transactional_id": key.removeprefix("transaction_metadata::transactionalId=")}
    found = re.fullmatch(
        r"producerId:(\d+),producerEpoch:(\d+),state=(\w+),partitions=\[([^]]*)\],"
        r"txnLastUpdateTimestamp=(\d+),txnTimeoutMs=(\d+)",
        value,
    )
    if found is None:
        return {**named, "state": "Tombstone"}
    return {
        **named,
        "producer_id": int(found[1]),
        "producer_epoch": int(found[2]),
        "state": found[3],
        "partitions": sorted(filter(None, re.split(r",\s*", found[4]))),
        "update_ms": int(found[5]),
        "timeout_ms": int(found[6]),
    }
