"""`consume --group`: prints records as a member of a consumer group.

A record is committed when its line was written: at the latest a second later, and at the end. Ctrl-C, SIGTERM and a
closed pipe end the reading after the current line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from trimaran.cli.connect import Brokers
from trimaran.cli.interrupt import Interrupt
from trimaran.cli.output import say
from trimaran.cli.progress import progress
from trimaran.cli.share_records import QUIET_SECONDS, Ends
from trimaran.client import consumer_member, group_consumer, group_members, topic_partitions
from trimaran.errors import refused
from trimaran.errors.user_error import Exit, UserError
from trimaran.node.text.wording import counted
from trimaran.wire import errors
from trimaran.wire.client import errors as client_errors

if TYPE_CHECKING:
    from trimaran.client.positions import Position
    from trimaran.wire.blocking import BlockingClient


class GroupReading(NamedTuple):
    """The topics of a member, or their pattern; `begin` is for partitions without a committed offset."""

    topics: Sequence[str]
    include: str | None
    begin: Position
    is_committed: bool


def ensure_group_assigns(**options: object) -> None:
    """Raises UserError for an option about partitions, which the group assigns."""
    for name, value in options.items():
        if value is not None:
            raise UserError(
                f"--{name} cannot be combined with --group",
                "the group assigns partitions to its members, and they read on from committed offsets",
                "leave out --group to read certain partitions; nothing is committed then",
                exit_code=Exit.USAGE,
            )


def consume_in_group(
    brokers: Brokers, group: str, reading: GroupReading, ends: Ends, show: Callable[..., None]
) -> int:
    """Prints records as a member of the group, and commits each when it was printed."""
    if not group:
        raise UserError(
            "--group is empty",
            "members need the name of their group",
            "trimaran groups list shows the groups",
            exit_code=Exit.USAGE,
        )
    subscription = consumer_member.MemberSubscription(
        list(dict.fromkeys(reading.topics)), reading.include
    )
    with brokers.connected() as client, Interrupt() as interrupt:
        for name in subscription.topics:
            topic_partitions.leaders_of(client, name)  # an error for a mistyped name
        consumer = group_consumer.GroupConsumer(
            client, group, subscription, reading.begin, is_committed=reading.is_committed
        )

        def goes_on() -> bool:
            ends.ensure_reader()
            return interrupt.number is None

        with (
            _explained(client, group),
            progress("consuming", ends.limit, unit="record", prints=True) as bar,
        ):
            try:
                with consumer:
                    found = consumer.records(
                        exit_at_end=ends.exit_at_end, quiet_seconds=QUIET_SECONDS, goes_on=goes_on
                    )
                    number = 0
                    while ends.limit is None or number < ends.limit:
                        if (one := next(found, None)) is None:
                            break
                        show(*one)
                        consumer.finished(*one)
                        number += 1
                        bar.at(number)
            finally:
                if consumer.lost:
                    say(
                        f"{counted(consumer.lost, 'record')} printed, but not committed in time: other members may "
                        "read them again"
                    )
        return Exit.OK if interrupt.number is None else 128 + interrupt.number


@contextmanager
def _explained(client: BlockingClient, group: str) -> Iterator[None]:
    """Explains refusals of heartbeats in terms of consumer groups."""
    try:
        yield
    except client_errors.VersionMismatch as error:
        raise _not_served("the brokers do not know groups of KIP-848") from error
    except errors.KafkaError as error:
        if error.code is errors.ErrorCode.UNSUPPORTED_VERSION:
            raise _not_served("the feature group.version is not enabled") from error
        if error.code in (
            errors.ErrorCode.GROUP_ID_NOT_FOUND,
            errors.ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ):
            found = group_members.described_or_none(client, group)
            why = "it cannot be joined" if found is None else f"it is a {found['type']} group"
            raise refused.group_of_other_kind(group, "consumer", why) from error
        raise


def _not_served(why: str) -> UserError:
    return UserError(
        "this cluster serves no consumer groups of KIP-848",
        why,
        "trimaran features upgrade group.version=1, on brokers of Apache Kafka 4.0 or ours",
        exit_code=Exit.REFUSED,
    )
