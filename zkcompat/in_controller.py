"""The mirror inside a controller: the mirror in the quorum's leader leads, the other mirrors are on standby.

It reads the controller's own image and shares its event loop; its failures never end the controller. Since a leader
knows that it leads, it takes over its predecessor's claim immediately.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trio

from trimaran.node.runtime.errors import NotLeaderError
from trimaran.quorum.controller.controller import Controller as QuorumController
from trimaran.quorum.controller.security.scram import store_scram_credential
from trimaran.quorum.metadata.loader import MetadataLoader
from trimaran.quorum.replica.node import QuorumNode
from trimaran.wire.errors import KafkaError
from trimaran.wire.identity import NodeId
from trimaran.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from trimaran.wire.records.security import UserScramCredentialRecord
from trimaran.wire.schema import Message
from trimaran.zkcompat import events
from trimaran.zkcompat.legacy.admin import LegacyAdmin
from trimaran.zkcompat.legacy.controller_client import CALL_SECONDS, ControllerClient
from trimaran.zkcompat.legacy.requests.admin_requests import UndecidedError
from trimaran.zkcompat.mirroring.mirror import Mirror
from trimaran.zkcompat.quorum_feed.feed import ImageFeed
from trimaran.zkcompat.quorum_feed.observer import leader_address, tell_caught_up, tell_leaders
from trimaran.zkcompat.settings import Properties, keeper_config, mirror_config, obeyed_kinds
from trimaran.zkcompat.zookeeper.errors import UnsuitableZooKeeperError
from trimaran.zkcompat.zookeeper.keeper import open_keeper
from trimaran.zkcompat.zookeeper.session_file import SESSION_FILE

log = logging.getLogger(__name__)

# The interval of retries after a failure that only an operator can repair.
RETRY_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class HostController:
    """The parts of the host controller that the mirror uses."""

    node_id: NodeId
    cluster_id: str
    node: QuorumNode
    loader: MetadataLoader
    directory: Path
    quorum: QuorumController


class OwnController(ControllerClient):
    """Sends requests like any client of the active controller, except credentials: the host controller stores them
    itself.
    """

    def __init__(self, controller: HostController, feed: ImageFeed) -> None:
        super().__init__(feed.leader_address, controller.node.settings.security)
        self._quorum = controller.quorum

    async def call(self, request: Message) -> Any:
        """See `ControllerClient`."""
        if not isinstance(request, UserScramCredentialRecord):
            return await super().call(request)
        try:
            with trio.fail_after(CALL_SECONDS):
                return await self._quorum.decide(
                    lambda now: store_scram_credential(request, now.image)
                )
        except trio.TooSlowError:
            raise UndecidedError("a credential is not committed yet") from None
        except KafkaError as error:
            refused = AlterUserScramCredentialsResult(
                user=request.name, error_code=error.code, error_message=error.message
            )
            return AlterUserScramCredentialsResponse(results=[refused])


class QuorumLeadership:
    """The periods in which this controller leads the quorum."""

    def __init__(self, controller: HostController, feed: ImageFeed) -> None:
        self._node_id = controller.node_id
        self._feed = feed
        self._leader = controller.node.leader

    async def wait(self) -> None:
        """Returns when this controller leads and the feed shows it as the leader."""
        await self._leader.wait_for(lambda leader: leader.leader_id == self._node_id)
        await self._feed.wait_for(
            lambda feed: feed.leader is not None and feed.leader.id == self._node_id
        )

    async def wait_over(self) -> None:
        """Returns when this controller no longer leads."""
        await self._leader.wait_for(lambda leader: leader.leader_id != self._node_id)


async def mirror_in_controller(
    controller: HostController,
    connect: str,
    properties: Properties,
    on_mirror: Callable[[Mirror], object] = lambda _: None,
) -> None:
    """Mirrors whenever the controller leads, until cancelled. `on_mirror` gets each mirror before it runs.

    Raises ValueError for a setting that is wrong.
    """
    config = mirror_config(properties)
    keeper = keeper_config(connect, properties)
    kinds = obeyed_kinds(properties, inside=True)
    feed = ImageFeed(leader_address=lambda: leader_address(controller.node))
    companions = [LegacyAdmin(OwnController(controller, feed), kinds)]
    controller.loader.add_publisher(feed)
    session_file = trio.Path(controller.directory / SESSION_FILE)
    while True:
        try:
            async with (
                open_keeper(keeper, session_file, keep_session=True) as opened,
                trio.open_nursery() as nursery,
            ):
                nursery.start_soon(tell_leaders, controller.node, feed)
                nursery.start_soon(_caught_up, controller.node, feed)
                mirror = Mirror(feed, opened, controller.cluster_id, config, companions)
                mirror.leadership = QuorumLeadership(controller, feed)
                on_mirror(mirror)
                await mirror.run()
        except* UnsuitableZooKeeperError as group:
            events.MIRROR_REFUSED.log(log, error=group.exceptions[0])
        # the controller must survive the failure
        except* Exception:  # noqa: BLE001 - it is logged, with its traceback
            events.MIRROR_FAILED.log(log, exc_info=True)
        await trio.sleep(RETRY_SECONDS)


async def _caught_up(node: QuorumNode, feed: ImageFeed) -> None:
    with suppress(NotLeaderError):  # The node stopped before it had caught up.
        await tell_caught_up(node, feed)
