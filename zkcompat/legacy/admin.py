"""Obeys old tools while the mirror leads: looks at what they wrote, asks the quorum, and tidies.

One task, one order after the other. What the quorum did not decide about stays where it is and is tried again, by this
mirror or the next. Nobody is asked before the tree shows all that is committed, and then the znode is read again: so
what the mirror itself writes is never taken for a tool's, and what was obeyed is not obeyed twice. Requests of a kind
that is not obeyed are removed with a warning, so that the tool's wait ends. Source: `KafkaController` of Kafka 2.8 and
its ZooKeeper handlers.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

import trio

from trimaran.quorum.metadata.image import MetadataImage
from trimaran.wire.client.backoff import ExponentialBackoff
from trimaran.wire.errors import LocalProtocolError
from trimaran.wire.transport.metrics.limited_log import LimitedLog
from trimaran.zkcompat import events
from trimaran.zkcompat.legacy.controller_client import Controller, committed_offset
from trimaran.zkcompat.legacy.pending_requests import Desk
from trimaran.zkcompat.legacy.requests import (
    acls,
    configs,
    credentials,
    deletions,
    elections,
    reassignments,
    topics,
)
from trimaran.zkcompat.legacy.requests.admin_requests import Ask, Kind, Order, UndecidedError
from trimaran.zkcompat.legacy.scan import find_notes, find_requests, find_topics, read_notes
from trimaran.zkcompat.legacy.three_way_merge import merged
from trimaran.zkcompat.legacy.tool_writes import WATCHED, Subject, is_of_interest, name_of
from trimaran.zkcompat.mirroring.tenure import StepRefusedError, Tenure
from trimaran.zkcompat.sections.acls import Acls
from trimaran.zkcompat.tree.claim import Step
from trimaran.zkcompat.tree.znode import FoundTree, FoundZnode
from trimaran.zkcompat.znodes.acl_entries import AclResource
from trimaran.zkcompat.znodes.entity_config import EntityConfig
from trimaran.zkcompat.zookeeper.errors import PathRefusedError

log = logging.getLogger(__name__)

RETRY_SECONDS = 0.1
RETRY_SECONDS_MAX = 5.0
# Until the tree shows what is committed; ZooKeeper or the quorum is away if that takes longer.
SHOW_SECONDS = 30.0
# A tool writes the configs of a new topic first; without the topic they are left from something else.
HALF_TOPIC_SECONDS = 5.0
# Between the fence and the request, as a share of a session timeout: a mirror that takes over waits longer.
FENCE_SHARE = 1 / 6
# Lines of one event within ten seconds: another client that writes many znodes must not fill the log.
WARNINGS_MAX = 20
OPTION = "trimaran.zk.legacy.admin.enable is not set"


@dataclass(slots=True)
class LegacyAdmin:
    """A mirror's companion. `kinds` are obeyed, none of them without the option."""

    controller: Controller
    kinds: Collection[Kind]
    _tenure: Tenure | None = None
    _prepared: MetadataImage | None = None
    _desk: Desk = field(default_factory=Desk)
    _begun: dict[reassignments.TopicPartition, reassignments.Replicas] = field(default_factory=dict)
    _advanced: MetadataImage | None = None
    _halves: dict[Subject, float] = field(default_factory=dict)
    # Entities of which some was asked for, and the rest is to be.
    _held: set[str] = field(default_factory=set)
    # What tools wrote while no mirror led, the image that the tree showed before, and the last transaction before the
    # tree was in step.
    _found: set[Subject] = field(default_factory=set)
    _before: MetadataImage | None = None
    _in_step_zxid: int = 0
    _acls: Acls = field(default_factory=Acls)
    _limited: LimitedLog = field(default_factory=lambda: LimitedLog(log, lines_max=WARNINGS_MAX))

    def spares(self, path: str) -> bool:
        """See `Companion`."""
        if self._tenure is None or not self.kinds:
            return False
        image = self._tenure.shown or self._prepared
        return image is not None and self._desk.spares(path, image)

    def holds(self, path: str) -> bool:
        """See `Companion`."""
        return path in self._held

    async def prepare(self, tenure: Tenure, image: MetadataImage) -> None:
        """See `Companion`. In a tree that no mirror wrote before nobody can tell what a tool left from what ZooKeeper
        mode did, requests in /admin excepted.
        """
        self._tenure, self._prepared, self._before = tenure, image, tenure.shown_before
        self._desk, self._begun, self._halves, self._held = Desk(), {}, {}, set()
        desk, keeper = self._desk, tenure.keeper
        for root in WATCHED:
            await keeper.watch_below(root, is_of_interest, desk.hear)
        finders = [find_requests(keeper, desk)]
        if self.kinds:
            finders.append(find_topics(keeper, image, desk, known=tenure.known))
        if self.kinds and tenure.known:
            finders.append(find_notes(tenure, desk))
        for finder in finders:
            try:
                await finder
            except PathRefusedError as refused:  # what is locked is no reason not to mirror
                events.TOOLS_NOT_WATCHED.log(log, error=refused)
        self._found = set(desk.open)

    async def run(self, tenure: Tenure) -> None:
        """See `Companion`."""
        backoff = ExponentialBackoff(RETRY_SECONDS, RETRY_SECONDS_MAX)
        self._in_step_zxid = tenure.keeper.last_zxid
        while True:
            await self._wait(tenure)
            await read_notes(tenure.keeper, self._desk)
            for path in self._desk.take_unexplained():
                tenure.recheck(path)
            for subject in list(self._desk.open):
                try:
                    await self._look_at(subject, tenure)
                except UndecidedError as problem:
                    events.TOOLS_UNDECIDED.log(log, error=problem)
                    await trio.sleep(backoff.failed())
                    break
                except PathRefusedError as refused:
                    self._limited.log(events.TOOLS_NOT_READ, error=refused)
                    self._settle(subject, tenure, stands=True)
                else:
                    backoff.succeeded()

    async def _wait(self, tenure: Tenure) -> None:
        """Returns when a tool wrote something, or partitions that move may have arrived."""

        async def wait_moved() -> None:
            await tenure.wait_shown(lambda image: bool(self._begun) and image is not self._advanced)
            self._desk.hear(reassignments.REASSIGN_PARTITIONS)

        if not (self._desk.open or self._desk.notes):
            self._before = None  # as much as the image of now, when that has changed a lot
        async with trio.open_nursery() as nursery:
            if self._begun:
                nursery.start_soon(wait_moved)
            await self._desk.wait()
            nursery.cancel_scope.cancel()

    # -- looking

    async def _look_at(self, subject: Subject, tenure: Tenure) -> None:
        self._desk.begin(subject)
        if subject.kind is Kind.REASSIGNMENT:
            await self._advance(subject, tenure)
            return
        orders, stands = await self._decide(subject, tenure)
        if orders:
            await self._sync(tenure)
            orders, stands = await self._decide(subject, tenure)
        if sum(len(order.asks) for order in orders) > 1:
            self._held.add(subject.path)
        for order in orders:
            await self._carry_out(order, tenure)
        self._settle(subject, tenure, stands=stands)
        entities = [path for order in orders for path in order.entities]
        for path in entities if orders else [subject.path] if stands else ():
            tenure.recheck(path)
        if subject.kind in (Kind.CONFIG, Kind.ACL):
            await self._seal(subject.path, tenure)

    def _settle(self, subject: Subject, tenure: Tenure, *, stands: bool) -> None:
        self._desk.settle(subject, stands=stands)
        if subject not in self._desk.open:
            self._found.discard(subject)
        if subject.path in self._held:
            self._held.discard(subject.path)
            tenure.recheck(subject.path)

    async def _seal(self, path: str, tenure: Tenure) -> None:
        """Writes a znode again that is as the image says: it is younger than the tool's note then, so that no later
        mirror takes it for what a tool still wants.
        """
        found, image = (await _read([path], tenure)).get(path), tenure.shown
        if found is not None and image is not None and tenure.says(path, found.data, image):
            await self._tidy([Step("set", path, found.data, found.version)], tenure)

    async def _sync(self, tenure: Tenure) -> None:
        """The tree shows everything that was committed before."""
        offset = await committed_offset(self.controller)
        with trio.move_on_after(SHOW_SECONDS) as waiting:
            await tenure.wait_shown(lambda image: image.provenance.offset >= offset)
        if waiting.cancelled_caught:
            raise UndecidedError(f"the tree does not show offset {offset} yet")

    async def _decide(self, subject: Subject, tenure: Tenure) -> tuple[Sequence[Order], bool]:
        """The orders, and whether znodes stand that say nothing of the cluster."""
        image = tenure.shown
        assert image is not None
        if subject.kind is Kind.TOPIC:
            order, stands = await self._of_topic(subject, tenure, image)
            return _one(order), stands
        znode = (await _read([subject.path], tenure)).get(subject.path)
        data = self._since(subject, znode, tenure, image)
        if subject.kind is Kind.ACL:
            resource = AclResource.of_path(subject.path)
            return _one(resource and acls.decide(resource, data, image, self._acls)), False
        if znode is None:  # tools leave an empty config: it is to be made again
            return [], subject.kind is Kind.CONFIG
        if subject.kind is Kind.CONFIG:
            is_late = self._is_of_before(subject, znode) and self._before is None
            return self._of_entity(subject.path, data, image, is_late=is_late), False
        decide = deletions.decide if subject.kind is Kind.DELETION else elections.decide
        return _one(decide(subject.path, data, image)), False

    def _since(
        self, subject: Subject, znode: FoundZnode | None, tenure: Tenure, image: MetadataImage
    ) -> bytes | None:
        """What a znode says; of an entity's that was written while no mirror led only what was changed there."""
        data = None if znode is None else znode.data
        is_entity = subject.kind in (Kind.CONFIG, Kind.ACL)
        if self._before is None or not (is_entity and self._is_of_before(subject, znode)):
            return data
        before, now = (tenure.wanted(subject.path, one) for one in (self._before, image))
        return merged(subject.kind, data, before, now)

    def _is_of_before(self, subject: Subject, znode: FoundZnode | None) -> bool:
        """Whether it was written while no mirror led."""
        return (
            subject in self._found if znode is None else znode.modified_zxid <= self._in_step_zxid
        )

    def _of_entity(
        self, path: str, data: bytes | None, image: MetadataImage, *, is_late: bool
    ) -> Sequence[Order]:
        entity = configs.entity_of(path.removeprefix("/config/"))
        if entity is None:
            return []
        shown = Kind.SCRAM in self.kinds
        orders = configs.decide(entity, data, image, credentials_shown=shown)
        if not is_late:
            return orders
        return [credentials.too_late(one) if one.kind is Kind.SCRAM else one for one in orders]

    async def _of_topic(
        self, subject: Subject, tenure: Tenure, image: MetadataImage
    ) -> tuple[Order | None, bool]:
        name = name_of(subject)
        config_path = EntityConfig.topic_path(name)
        found = await _read([subject.path, config_path], tenure)
        is_new = name not in image.topics.by_name
        if subject.path not in found:
            return None, is_new and self._is_left(subject, config_path in found)
        self._halves.pop(subject, None)
        config = found[config_path].data if config_path in found else None
        return topics.decide(name, found[subject.path].data, config, image), is_new

    def _is_left(self, subject: Subject, has_config: bool) -> bool:
        """True for configs whose topic does not come; the mirror's next comparison asks again."""
        if not has_config:
            self._halves.pop(subject, None)
            return False
        since = self._halves.setdefault(subject, trio.current_time())
        if trio.current_time() - since < HALF_TOPIC_SECONDS:
            return False
        del self._halves[subject]
        return True

    async def _advance(self, subject: Subject, tenure: Tenure) -> None:
        """Begins moves, and takes those that are done out of the znode, which goes with the last."""
        await self._sync(tenure)
        image = self._advanced = tenure.shown
        assert image is not None
        znode = (await _read([subject.path], tenure)).get(subject.path)
        if znode is None:
            self._begun.clear()
            self._desk.settle(subject)
            return
        progress = reassignments.advance(znode.data, image, self._begun)
        write = progress.write
        if progress.order is not None and not await self._carry_out(progress.order, tenure):
            write = reassignments.DELETE
        self._begun = dict(progress.begun)
        self._desk.settle(subject)
        if write is None and progress.order is not None:
            self._desk.add(subject)  # what was refused leaves at once
        if write is not None:
            if write.kind == "delete":
                self._begun.clear()
            await self._tidy([_at_version(write, znode.version)], tenure)

    # -- obeying

    async def _carry_out(self, order: Order, tenure: Tenure) -> bool:
        """False where orders of this kind are not obeyed.

        Raises UndecidedError: some of it may have been obeyed; look again.
        """
        obeyed = order.kind in self.kinds
        if obeyed:
            self._warn(order.refused)
            if not await self._ask(order, tenure):
                return True
        else:
            why = f"{order.kind} is not among the kinds that are obeyed" if self.kinds else OPTION
            if order.kind is Kind.SCRAM:
                why += "; use kafka-configs --bootstrap-server"
            self._limited.log(
                events.TOOLS_NOT_OBEYED, of=order.kind.name, order=order.what, reason=why
            )
        await self._tidy(order.tidy, tenure)
        return obeyed

    async def _ask(self, order: Order, tenure: Tenure) -> bool:
        """False where the request is gone, or locked."""
        for path in order.secrets:
            await tenure.keeper.hide(path)
        claim: Sequence[Step] = order.claim
        refused: list[str] = []
        for ask in order.asks:
            try:
                refused += await self._ask_fenced(ask, claim, tenure)
            except StepRefusedError as refused_claim:
                self._limited.log(events.TOOLS_NOT_READABLE, error=refused_claim)
                return False
            except LocalProtocolError as error:  # a number or a text that no request can say
                refused.append(f"{order.what}: {error}")
            claim = ()
        self._warn(refused)
        if order.asks:
            events.TOOLS_OBEYED.log(log, order=order.what)
            await self._sync(tenure)
        return True

    async def _ask_fenced(self, ask: Ask, claim: Sequence[Step], tenure: Tenure) -> Sequence[str]:
        """Asks while it is sure that no other mirror leads."""
        patience = tenure.keeper.config.session_timeout_ms / 1000 * FENCE_SHARE
        while True:
            began = trio.current_time()
            await tenure.transact(claim)
            if trio.current_time() - began <= patience:
                break
        return ask.refusals(await self.controller.call(ask.request))

    async def _tidy(self, steps: Sequence[Step], tenure: Tenure) -> None:
        if not steps:
            return
        try:
            await tenure.transact(steps)
        except StepRefusedError as refused:
            if refused.reason == "BadVersion":  # a tool wrote more
                self._desk.hear(refused.step.path)
            elif refused.reason != "NoNode":  # it is gone already
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


def _one(order: Order | None) -> Sequence[Order]:
    return [] if order is None else [order]


def _at_version(step: Step, version: int) -> Step:
    """Only if nobody wrote meanwhile."""
    return Step(step.kind, step.path, step.data, version)
