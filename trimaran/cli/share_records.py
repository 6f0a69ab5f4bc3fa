"""`consume --share-group`: prints records as a member of a share group.

A record is acknowledged when its line was written. Ctrl-C, SIGTERM and a closed pipe end the reading after the current
line: its acknowledgement is sent, and all records that were not printed are given back to the group.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from trimaran.cli.connect import Brokers
from trimaran.cli.interrupt import Interrupt
from trimaran.cli.output import say
from trimaran.cli.progress import progress
from trimaran.client import (
    group_members,
    offsets,
    share_consumer,
    share_run,
    share_session,
    topic_partitions,
)
from trimaran.errors import refused
from trimaran.errors.user_error import Exit, UserError
from trimaran.node.text.wording import counted
from trimaran.wire import errors, identity
from trimaran.wire.client import errors as client_errors

if TYPE_CHECKING:
    from trimaran.wire.blocking import BlockingClient

# `consume --exit` ends after the records that existed when it began. It also ends when no record has arrived for this
# time: the group may be done with the remaining ones, or other members may hold them.
QUIET_SECONDS = 2.0


class Ends(NamedTuple):
    """The conditions that end `consume`: `limit` records, the end of the partitions, or a stdout without a reader."""

    limit: int | None
    exit_at_end: bool
    ensure_reader: Callable[[], None]


def kind_of(*, reject: bool, release: bool) -> int:
    """Returns the kind of acknowledgement. Raises UserError."""
    if reject and release:
        raise UserError(
            "--reject and --release cannot be combined",
            "a rejected record is not delivered again, a released one is",
            "give one of them; without either, records are accepted",
            exit_code=Exit.USAGE,
        )
    if reject:
        return share_session.REJECT
    return share_session.RELEASE if release else share_session.ACCEPT


def ensure_of_groups(**options: bool) -> None:
    """Raises UserError for an option that only a share group has."""
    for name, is_given in options.items():
        if is_given:
            raise UserError(
                f"--{name} needs --share-group",
                "records are acknowledged by members of a share group only",
                "name the group with --share-group",
                exit_code=Exit.USAGE,
            )


def ensure_group_decides(share_group: str, **options: object) -> None:
    """Raises UserError for an option about what is read: in a share group its configs and its coordinator decide."""
    for name, value in options.items():
        if value is not None:
            raise UserError(
                f"--{name} cannot be combined with --share-group",
                "the group decides which records its members get",
                f"trimaran configs get group/{share_group} --all shows its configs; trimaran groups reset-offsets "
                f"{share_group} moves its start",
                exit_code=Exit.USAGE,
            )


def consume_shared(
    brokers: Brokers,
    topic: str,
    group: str,
    kind: int,
    ends: Ends,
    show: Callable[..., None],
) -> int:
    """Prints records of a topic as a member of the group, and acknowledges each with `kind` when it was printed.

    Released records are kept until the end, which gives all back: a record that was given back earlier would be
    delivered to this member again, until its limit of deliveries.
    """
    if not group:
        raise UserError(
            "--share-group is empty",
            "members need the name of their group",
            "trimaran groups list --type share shows the share groups",
            exit_code=Exit.USAGE,
        )
    with brokers.connected() as client, Interrupt() as interrupt:
        run = share_run.ShareRun(
            _ends(client, topic) if ends.exit_at_end else {},
            gives_back=kind == share_session.RELEASE,
        )

        def goes_on() -> bool:
            ends.ensure_reader()
            return interrupt.number is None

        with (
            _explained(client, group),
            progress("consuming", ends.limit, unit="record", prints=True) as bar,
        ):
            consumer = share_consumer.ShareConsumer(client, group, topic)
            try:
                with consumer:
                    found = consumer.records(
                        ends.limit,
                        run=run,
                        quiet_seconds=QUIET_SECONDS if ends.exit_at_end else None,
                        goes_on=goes_on,
                    )
                    for number, shared in enumerate(found, 1):
                        where = identity.TopicPartition(topic, shared.partition.partition)
                        show(where, shared.record, deliveries=shared.deliveries)
                        if not run.gives_back:
                            consumer.acknowledge(shared, kind)
                        bar.at(number)
                    if run.has_locks_ending(time.monotonic()):
                        say("the locks of the printed records end: they are given back now")
            finally:
                _say_lost(consumer.lost)
        return Exit.OK if interrupt.number is None else 128 + interrupt.number


def _ends(client: BlockingClient, topic: str) -> dict[int, identity.Offset]:
    """Returns the present end of each partition; without those whose leader does not respond."""
    partitions = range(len(topic_partitions.leaders_of(client, topic)))
    found = offsets.end_offsets(
        client, [identity.TopicPartition(topic, index) for index in partitions]
    )
    return {place.partition: end for place, end in found.items()}


def _say_lost(count: int) -> None:
    if count:
        say(
            f"{counted(count, 'record')} printed, but not acknowledged in time: the group may deliver them again"
        )


@contextmanager
def _explained(client: BlockingClient, group: str) -> Iterator[None]:
    """Explains refusals of heartbeats and fetches in terms of share groups."""
    try:
        yield
    except client_errors.VersionMismatch as error:
        raise _not_served("the brokers do not know share groups") from error
    except errors.KafkaError as error:
        if error.code is errors.ErrorCode.UNSUPPORTED_VERSION:
            raise _not_served("the feature share.version is not enabled") from error
        if error.code is errors.ErrorCode.GROUP_ID_NOT_FOUND:
            raise _no_share_group(client, group) from error
        raise


def _no_share_group(client: BlockingClient, group: str) -> UserError:
    found = group_members.described_or_none(client, group)
    if found is None:
        return refused.no_group(group)
    return refused.group_of_other_kind(group, "share", f"it is a {found['type']} group")


def _not_served(why: str) -> UserError:
    return UserError(
        "this cluster serves no share groups",
        why,
        "trimaran features upgrade share.version=2 (1 on brokers of Apache Kafka 4.2 and 4.3)",
        exit_code=Exit.REFUSED,
    )
