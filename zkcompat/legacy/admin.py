"""Carries out the requests of old tools while the mirror leads: reads the znodes that they wrote, sends requests to the
quorum, and cleans up.

One task handles one request after another. A request that the quorum did not decide stays in ZooKeeper and is tried
again, by this mirror or the next. No request is sent before the tree shows all committed records; then the znode is
read again. So a write of the mirror is never mistaken for a tool's, and no request is obeyed twice. Requests of a
kind that is not obeyed are removed with a warning, so that the tool's wait ends. Source: `KafkaController` of Kafka 2.8
and its ZooKeeper handlers.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

import trio

from trimaran.quorum.metadata.image import MetadataImage
from trimaran.wire.client.backoff import ExponentialBackoff
from trimaran.wire.errors import LocalProtocolError
from trimaran.wire.identity import TopicPartition
from trimaran.wire.transport.metrics.limited_log import LimitedLog
from trimaran.zkcompat import events
from trimaran.zkcompat.legacy.controller_client import ControllerClient, committed_offset
from trimaran.zkcompat.legacy.pending_requests import PendingToolRequests
from trimaran.zkcompat.legacy.requests import (
    acls,
    configs,
    credentials,
    deletions,
    elections,
    reassignments,
    topics,
)
from trimaran.zkcompat.legacy.requests.admin_requests import (
    AdminRequest,
    QuorumRequest,
    RequestKind,
    UndecidedError,
)
from trimaran.zkcompat.legacy.scan import read_notes, scan_notes, scan_requests, scan_topics
from trimaran.zkcompat.legacy.three_way_merge import three_way_merge
from trimaran.zkcompat.legacy.tool_writes import WATCHED, ToolWrite, is_of_interest, topic_name
from trimaran.zkcompat.mirroring.tenure import StepRefusedError, Tenure
from trimaran.zkcompat.sections.acls import AclSection
from trimaran.zkcompat.tree.claim import TransactionStep
from trimaran.zkcompat.tree.operations import FoundTree, FoundZnode
from trimaran.zkcompat.znodes.acl_entries import AclResource
from trimaran.zkcompat.znodes.entity_config import EntityConfig
from trimaran.zkcompat.zookeeper.errors import PathRefusedError

log = logging.getLogger(__name__)

RETRY_SECONDS = 0.1
RETRY_SECONDS_MAX = 5.0
# The wait for the tree to show committed records; if it takes longer, ZooKeeper or the quorum is unavailable.
SHOW_SECONDS = 30.0
# A tool writes the configs of a new topic first. Configs that stay without a topic are leftovers.
INCOMPLETE_TOPIC_SECONDS = 5.0
# The longest time between fence and request, as a share of a session timeout: a mirror that takes over waits longer.
FENCE_SHARE = 1 / 6
# Lines of one event within ten seconds: another client that writes many znodes must not fill the log.
WARNINGS_MAX = 20
OPTION = "trimaran.zk.legacy.admin.enable is not set"


@dataclass(slots=True)
class LegacyAdmin:
    """A companion of the mirror that obeys the requests of `kinds`; there are none without the option."""

    controller: ControllerClient
    kinds: Collection[RequestKind]
    _tenure: Tenure | None = None
    _prepared: MetadataImage | None = None
    _pending: PendingToolRequests = field(default_factory=PendingToolRequests)
    _begun: dict[TopicPartition, reassignments.Replicas] = field(default_factory=dict)
    _advanced: MetadataImage | None = None
    _incomplete_topics: dict[ToolWrite, float] = field(default_factory=dict)
    # Entities of which some requests have been sent, but not all.
    _held: set[str] = field(default_factory=set)
    # Writes of tools while no mirror led, the image that the tree showed before, and the last transaction before the
    # tree was in step.
    _found_at_start: set[ToolWrite] = field(default_factory=set)
    _before: MetadataImage | None = None
    _in_step_zxid: int = 0
    _acls: AclSection = field(default_factory=AclSection)
    _limited: LimitedLog = field(default_factory=lambda: LimitedLog(log, lines_max=WARNINGS_MAX))

    def spares(self, path: str) -> bool:
        """See `Companion`."""
        if self._tenure is None or not self.kinds:
            return False
        image = self._tenure.shown or self._prepared
        return image is not None and self._pending.spares(path, image)

    def holds(self, path: str) -> bool:
        """See `Companion`."""
        return path in self._held

    async def prepare(self, tenure: Tenure, image: MetadataImage) -> None:
        """See `Companion`. In a tree that no mirror has written before, writes of tools cannot be distinguished from
        those of ZooKeeper mode, except for requests in /admin.
        """
        self._tenure, self._prepared, self._before = tenure, image, tenure.shown_before
        self._pending, self._begun, self._incomplete_topics, self._held = (
            PendingToolRequests(),
            {},
            {},
            set(),
        )
        pending, keeper = self._pending, tenure.keeper
        for root in WATCHED:
            await keeper.watch_below(root, is_of_interest, pending.on_watch_event)
        scans = [scan_requests(keeper, pending)]
        if self.kinds:
            scans.append(scan_topics(keeper, image, pending, known=tenure.known))
        if self.kinds and tenure.known:
            scans.append(scan_notes(tenure, pending))
        for scan in scans:
            try:
                await scan
            except (
                PathRefusedError
            ) as refused:  # A znode without permissions must not prevent mirroring.
                events.TOOLS_NOT_WATCHED.log(log, error=refused)
        self._found_at_start = set(pending.open)

    async def run(self, tenure: Tenure) -> None:
        """See `Companion`."""
        backoff = ExponentialBackoff(RETRY_SECONDS, RETRY_SECONDS_MAX)
        self._in_step_zxid = tenure.keeper.last_zxid
        while True:
            await self._wait(tenure)
            await read_notes(tenure.keeper, self._pending)
            for path in self._pending.take_unexplained():
                tenure.recheck(path)
            for tool_write in list(self._pending.open):
                try:
                    await self._handle(tool_write, tenure)
                except UndecidedError as problem:
                    events.TOOLS_UNDECIDED.log(log, error=problem)
                    await trio.sleep(backoff.failed())
                    break
                except PathRefusedError as refused:
                    self._limited.log(events.TOOLS_NOT_READ, error=refused)
                    self._settle(tool_write, tenure, ownerless=True)
                else:
                    backoff.succeeded()

    async def _wait(self, tenure: Tenure) -> None:
        """Returns when a tool has written something, or when moving partitions may have arrived."""

        async def wait_moved() -> None:
            await tenure.wait_shown(lambda image: bool(self._begun) and image is not self._advanced)
            self._pending.on_watch_event(reassignments.REASSIGN_PARTITIONS)

        if not (self._pending.open or self._pending.notes):
            self._before = None  # An old image may use as much memory as the newest one.
        async with trio.open_nursery() as nursery:
            if self._begun:
                nursery.start_soon(wait_moved)
            await self._pending.wait()
            nursery.cancel_scope.cancel()

    # -- deciding

    async def _handle(self, tool_write: ToolWrite, tenure: Tenure) -> None:
        self._pending.begin(tool_write)
        if tool_write.kind is RequestKind.REASSIGNMENT:
            await self._advance(tool_write, tenure)
            return
        requests, ownerless = await self._decide(tool_write, tenure)
        if requests:
            await self._sync(tenure)
            requests, ownerless = await self._decide(tool_write, tenure)
        if sum(len(request.quorum_requests) for request in requests) > 1:
            self._held.add(tool_write.path)
        for request in requests:
            await self._carry_out(request, tenure)
        self._settle(tool_write, tenure, ownerless=ownerless)
        entities = [path for request in requests for path in request.entities]
        for path in entities if requests else [tool_write.path] if ownerless else ():
            tenure.recheck(path)
        if tool_write.kind in (RequestKind.CONFIG, RequestKind.ACL):
            await self._rewrite_unchanged(tool_write.path, tenure)

    def _settle(self, tool_write: ToolWrite, tenure: Tenure, *, ownerless: bool) -> None:
        self._pending.settle(tool_write, ownerless=ownerless)
        if tool_write not in self._pending.open:
            self._found_at_start.discard(tool_write)
        if tool_write.path in self._held:
            self._held.discard(tool_write.path)
            tenure.recheck(tool_write.path)

    async def _rewrite_unchanged(self, path: str, tenure: Tenure) -> None:
        """Writes the same data again if the znode equals the image: the znode becomes newer than the tool's note, so
        that no later mirror mistakes it for an open request.
        """
        found, image = (await _read([path], tenure)).get(path), tenure.shown
        if found is not None and image is not None and tenure.says(path, found.data, image):
            await self._clean_up([TransactionStep("set", path, found.data, found.version)], tenure)

    async def _sync(self, tenure: Tenure) -> None:
        """Returns when the tree shows everything that was committed before the call."""
        offset = await committed_offset(self.controller)
        with trio.move_on_after(SHOW_SECONDS) as waiting:
            await tenure.wait_shown(lambda image: image.provenance.offset >= offset)
        if waiting.cancelled_caught:
            raise UndecidedError(f"the tree does not show offset {offset} yet")

    async def _decide(
        self, tool_write: ToolWrite, tenure: Tenure
    ) -> tuple[Sequence[AdminRequest], bool]:
        """Returns the requests, and whether znodes without a meaning for the cluster remain."""
        image = tenure.shown
        assert image is not None
        if tool_write.kind is RequestKind.TOPIC:
            request, ownerless = await self._decide_topic(tool_write, tenure, image)
            return _as_list(request), ownerless
        znode = (await _read([tool_write.path], tenure)).get(tool_write.path)
        data = self._changed_since(tool_write, znode, tenure, image)
        if tool_write.kind is RequestKind.ACL:
            resource = AclResource.of_path(tool_write.path)
            return _as_list(resource and acls.decide(resource, data, image, self._acls)), False
        if znode is None:  # tools never delete a config's znode, so the mirror creates it again
            return [], tool_write.kind is RequestKind.CONFIG
        if tool_write.kind is RequestKind.CONFIG:
            is_late = self._predates_tenure(tool_write, znode) and self._before is None
            return self._decide_entity(tool_write.path, data, image, is_late=is_late), False
        decide = deletions.decide if tool_write.kind is RequestKind.DELETION else elections.decide
        return _as_list(decide(tool_write.path, data, image)), False

    def _changed_since(
        self, tool_write: ToolWrite, znode: FoundZnode | None, tenure: Tenure, image: MetadataImage
    ) -> bytes | None:
        """Returns the data of a znode. If an entity's znode was written while no mirror led, only the tool's change is
        applied.
        """
        data = None if znode is None else znode.data
        is_entity = tool_write.kind in (RequestKind.CONFIG, RequestKind.ACL)
        if self._before is None or not (is_entity and self._predates_tenure(tool_write, znode)):
            return data
        before, now = (tenure.wanted(tool_write.path, shown) for shown in (self._before, image))
        return three_way_merge(tool_write.kind, data, before, now)

    def _predates_tenure(self, tool_write: ToolWrite, znode: FoundZnode | None) -> bool:
        """True if the znode was written while no mirror led."""
        return (
            tool_write in self._found_at_start
            if znode is None
            else znode.modified_zxid <= self._in_step_zxid
        )

    def _decide_entity(
        self, path: str, data: bytes | None, image: MetadataImage, *, is_late: bool
    ) -> Sequence[AdminRequest]:
        entity = configs.entity_of(path.removeprefix("/config/"))
        if entity is None:
            return []
        shown = RequestKind.SCRAM in self.kinds
        requests = configs.decide(entity, data, image, credentials_shown=shown)
        if not is_late:
            return requests
        return [
            credentials.too_late(request) if request.kind is RequestKind.SCRAM else request
            for request in requests
        ]

    async def _decide_topic(
        self, tool_write: ToolWrite, tenure: Tenure, image: MetadataImage
    ) -> tuple[AdminRequest | None, bool]:
        name = topic_name(tool_write)
        config_path = EntityConfig.topic_path(name)
        found = await _read([tool_write.path, config_path], tenure)
        is_new = name not in image.topics.by_name
        if tool_write.path not in found:
            return None, is_new and self._is_leftover(tool_write, config_path in found)
        self._incomplete_topics.pop(tool_write, None)
        config = found[config_path].data if config_path in found else None
        return topics.decide(name, found[tool_write.path].data, config, image), is_new

    def _is_leftover(self, tool_write: ToolWrite, has_config: bool) -> bool:
        """True for configs whose topic was never created; the mirror's next comparison checks again."""
        if not has_config:
            self._incomplete_topics.pop(tool_write, None)
            return False
        since = self._incomplete_topics.setdefault(tool_write, trio.current_time())
        if trio.current_time() - since < INCOMPLETE_TOPIC_SECONDS:
            return False
        del self._incomplete_topics[tool_write]
        return True

    async def _advance(self, tool_write: ToolWrite, tenure: Tenure) -> None:
        """Begins moves, and removes completed ones from the znode; the last one deletes the znode."""
        await self._sync(tenure)
        image = self._advanced = tenure.shown
        assert image is not None
        znode = (await _read([tool_write.path], tenure)).get(tool_write.path)
        if znode is None:
            self._begun.clear()
            self._pending.settle(tool_write)
            return
        progress = reassignments.advance(znode.data, image, self._begun)
        write = progress.write
        if progress.request is not None and not await self._carry_out(progress.request, tenure):
            write = reassignments.DELETE
        self._begun = dict(progress.begun)
        self._pending.settle(tool_write)
        if write is None and progress.request is not None:
            self._pending.add(tool_write)  # Refused moves are removed from the znode immediately.
        if write is not None:
            if write.kind == "delete":
                self._begun.clear()
            await self._clean_up([_at_version(write, znode.version)], tenure)

    # -- obeying

    async def _carry_out(self, request: AdminRequest, tenure: Tenure) -> bool:
        """Returns False if requests of this kind are not obeyed.

        Raises UndecidedError: a part of the request may have been obeyed, so the znode must be read again.
        """
        obeyed = request.kind in self.kinds
        if obeyed:
            self._warn(request.refused)
            if not await self._send(request, tenure):
                return True
        else:
            why = f"{request.kind} is not among the kinds that are obeyed" if self.kinds else OPTION
            if request.kind is RequestKind.SCRAM:
                why += "; use kafka-configs --bootstrap-server"
            self._limited.log(
                events.TOOLS_NOT_OBEYED, of=request.kind.name, order=request.description, reason=why
            )
        await self._clean_up(request.cleanup, tenure)
        return obeyed

    async def _send(self, request: AdminRequest, tenure: Tenure) -> bool:
        """Returns False if the znode is gone or locked."""
        for path in request.secrets:
            await tenure.keeper.hide(path)
        claim: Sequence[TransactionStep] = request.claim
        refused: list[str] = []
        for quorum_request in request.quorum_requests:
            try:
                refused += await self._send_fenced(quorum_request, claim, tenure)
            except StepRefusedError as refused_claim:
                self._limited.log(events.TOOLS_NOT_READABLE, error=refused_claim)
                return False
            except LocalProtocolError as error:  # a number or a text that no request can carry
                refused.append(f"{request.description}: {error}")
            claim = ()
        self._warn(refused)
        if request.quorum_requests:
            events.TOOLS_OBEYED.log(log, order=request.description)
            await self._sync(tenure)
        return True

    async def _send_fenced(
        self, quorum_request: QuorumRequest, claim: Sequence[TransactionStep], tenure: Tenure
    ) -> Sequence[str]:
        """Sends the request while it is certain that no other mirror leads."""
        patience = tenure.keeper.config.session_timeout_ms / 1000 * FENCE_SHARE
        while True:
            began = trio.current_time()
            await tenure.transact(claim)
            if trio.current_time() - began <= patience:
                break
        return quorum_request.refusals(await self.controller.call(quorum_request.request))

    async def _clean_up(self, steps: Sequence[TransactionStep], tenure: Tenure) -> None:
        if not steps:
            return
        try:
            await tenure.transact(steps)
        except StepRefusedError as refused:
            if refused.reason == "BadVersion":  # A tool has written the znode again.
                self._pending.on_watch_event(refused.step.path)
            elif refused.reason != "NoNode":  # the znode is gone already
                self._limited.log(events.TOOLS_NOT_REMOVED, error=refused)

    def _warn(self, refused: Iterable[str]) -> None:
        said = list(refused)
        for sentence in said[:WARNINGS_MAX]:
            self._limited.log(events.TOOLS_REFUSED, order=sentence)
        if len(said) > WARNINGS_MAX:
            self._limited.log(events.TOOLS_REFUSALS_LEFT_OUT, count=len(said) - WARNINGS_MAX)


async def _read(paths: Sequence[str], tenure: Tenure) -> FoundTree:
    """Raises PathRefusedError for a znode that must not be read."""
    found = await tenure.keeper.read_many(paths)
    for path, znode in found.items():
        if znode.refusal:
            raise PathRefusedError(path, znode.refusal)
    return found


def _as_list(request: AdminRequest | None) -> Sequence[AdminRequest]:
    return [] if request is None else [request]


def _at_version(step: TransactionStep, version: int) -> TransactionStep:
    """Returns the step with the version that was read: it is refused if the znode was written meanwhile."""
    return TransactionStep(step.kind, step.path, step.data, version)
