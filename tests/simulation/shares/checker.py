"""Checks the rules of share groups after every event, in addition to those of partitions (docs/invariants.md, Q1 to
Q13). It reads the internal topics itself, and learns of acquisitions and writes at the moment at which they happen.
After an unclean election nothing is promised, so checking stops.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from tests.share_history import Decision, Kind, Letter, Result, Settings
from tests.simulation.coordinators.batches import Batch
from tests.simulation.coordinators.checker import CoordinatorChecker
from tests.simulation.coordinators.codes import code_of
from tests.simulation.partitions.checker import Key
from tests.simulation.partitions.replica_logs import entries_in
from tests.simulation.shares.fences import Fences
from tests.simulation.shares.groups import Groups
from tests.simulation.shares.letters import letters_in
from tests.simulation.shares.members import Lease, Members, SharePlace
from tests.simulation.shares.rules import QUEUE, QUEUE_THERE
from tests.simulation.shares.states import Life, States
from trimaran.broker.metadata.internal_topics import CONSUMER_OFFSETS, SHARE_GROUP_STATE
from trimaran.broker.share_state.states import DeliveryState, ShareSummary, StateBatch
from trimaran.broker.sharing.acquiring import Acquired
from trimaran.broker.sharing.led_share import LedShare
from trimaran.broker.sharing.share_partition import SharePartition
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import SharePartitionKey
from trimaran.wire.messages.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from trimaran.wire.messages.delete_groups import DeleteGroupsRequest
from trimaran.wire.messages.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from trimaran.wire.messages.share_acknowledge import ShareAcknowledgeRequest
from trimaran.wire.messages.share_fetch import ShareFetchRequest
from trimaran.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

if TYPE_CHECKING:
    from tests.simulation.coordinators.broker import CoordinatorBroker
    from tests.simulation.partitions.replica_logs import Entry, ReplicaLog

E = ErrorCode
# After these errors, nothing of an acknowledgement is stored.
REFUSALS = frozenset(
    {
        *(E.INVALID_RECORD_STATE, E.INVALID_REQUEST, E.INVALID_SHARE_SESSION_EPOCH),
        *(E.SHARE_SESSION_NOT_FOUND, E.SHARE_SESSION_LIMIT_REACHED, E.UNSUPPORTED_VERSION),
    }
)


class Arrived(NamedTuple):
    """The acknowledgements of a request, and the lives of states when it arrived; `session` counts the fetches with
    which the member has begun sessions.
    """

    acknowledging: Mapping[tuple[bytes, int], list[Decision]]
    lives: Mapping[SharePartitionKey, Life]
    session: int


class ShareChecker(CoordinatorChecker):
    def __init__(self, world: Any) -> None:
        super().__init__(world)
        rules = world.rules
        settings = Settings(
            rules.deliveries,
            rules.lock_ms / 1000,
            knows_leases=True,
            has_queue=rules.queue == QUEUE_THERE,
        )
        self.members = Members(self.rule, settings, lambda: world.now)
        self.states = States(self.rule, self._passed, self._begins, self._done)
        self.fences = Fences(self.rule)
        self.groups = Groups(self.rule, lambda key: key in self.states.ever)
        self._leases: WeakKeyDictionary[LedShare, Lease] = WeakKeyDictionary()
        self._lease_numbers = count()
        self._sessions: Counter[tuple[object, ...]] = Counter()
        self._served: set[tuple[object, ...]] = set()
        self._begun: WeakKeyDictionary[SharePartition, bool] = WeakKeyDictionary()
        self._letters: dict[tuple[Key, int, int], list[tuple[str, Letter]]] = {}
        self._given: defaultdict[tuple[SharePartitionKey, str], set[Acquired]] = defaultdict(set)

    # -- logs

    def _was_appended(self, key: Key, batch: Batch) -> None:
        if self.world.name_of(key) == CONSUMER_OFFSETS:
            self.groups.appended(batch)

    def _add(self, broker: Any, replica: ReplicaLog, key: Key, log: Any, new: list[Entry]) -> None:
        if self.world.name_of(key) == QUEUE:
            for entry in new:
                place = (key, entry.epoch, entry.base)
                if place not in self._letters:
                    self._letters[place] = letters_in(log, entry.base)
        super()._add(broker, replica, key, log, new)

    def _committed(self, key: Key, batch: Batch) -> None:
        name = self.world.name_of(key)
        self.world.say("committed:", name, key[1], batch)
        if name == SHARE_GROUP_STATE:
            self.states.committed(key[1], batch)
        elif name == CONSUMER_OFFSETS:
            self.groups.committed(batch)
        elif name == QUEUE:
            for letter in self._letters[key, batch.leader_epoch, batch.base]:
                self.world.happened["dead letter"] += 1
                self.members.letter(*letter)

    def _begins(self, key: SharePartitionKey, life: Life, start: int) -> None:
        self.members.starts_at(SharePlace.of(key, life), start)

    def _done(self, key: SharePartitionKey, life: Life, offset: int, state: DeliveryState) -> None:
        """Checks Q5: a record is done only as its members have decided, or after the limit of deliveries."""
        record = self.members.record(SharePlace.of(key, life), offset)
        if state is DeliveryState.ACKNOWLEDGED:
            is_wanted = record.may_be(Kind.ACCEPT)
        else:
            is_wanted = record.may_be(Kind.REJECT) or record.may_be_used_up
        deleted = self.histories[key.topic_id, key.partition].deleted_to
        self.rule(
            is_wanted or offset < deleted,
            *("Q5", key, life, offset, "is", state.name, "after", record.deliveries),
            *("and", record.decisions),
        )

    def _passed(self, key: SharePartitionKey, life: Life, offset: int, is_final: bool) -> None:
        """Checks Q6: the start advances only past records that are done."""
        place = SharePlace.of(key, life)
        deleted = self.histories[key.topic_id, key.partition].deleted_to
        self.rule(
            is_final
            or offset < max(deleted, self.members.start(place))
            or self.members.record(place, offset).may_be_used_up,
            *("Q6", key, life, "passes", offset),
        )

    def prunes(self, shard: int, offset: int) -> None:
        """Checks Q11 when a share coordinator deletes the records before `offset`."""
        self.look()
        topic = self.world.controller.image.topics.by_name[SHARE_GROUP_STATE]
        needed = self.states.needed_from(shard)
        self.rule(offset <= needed, "Q11", shard, "is pruned to", offset, "needed from", needed)
        self.world.happened["pruned"] += 1
        self.deletes((topic.id, shard), offset)

    # -- share partitions

    def begins(self, core: SharePartition, *, has_position: bool) -> None:
        self._begun[core] = has_position

    def loaded(self, share: LedShare) -> None:
        """Notes that a leader has loaded a state."""
        core = share.core
        if core is None or share in self._leases:
            return
        self.look()
        life = (core.state_epoch, self.states.begun[share.key])
        place = SharePlace.of(share.key, life)
        self._leases[share] = Lease(place, next(self._lease_numbers))
        self.world.happened["share partition loaded"] += 1
        self.world.say("loaded:", share.leader.replica.services.node_id, place, "at", core.start)
        if not self._begun[core]:
            if self.world.rules.reset != "latest":
                deleted = self.histories[share.key[1:]].deleted_to
                self.rule(core.start <= deleted, "Q5", place, "begins at", core.start)
            self.members.starts_at(place, core.start)

    def acquired(
        self, share: LedShare, member: str, found: list[Acquired], size: int, end: int
    ) -> None:
        """Notes that a member has acquired records; before, `size` records up to `end` were in flight."""
        lease = self._leases.get(share)
        if lease is None or self.is_void:
            return
        self.world.say(share.key.group_id, share.key.partition, member, "acquires", *found)
        limit = self.world.rules.locks
        self.rule(
            size < limit or all(part.last <= end for part in found),
            *("Q13", lease.place, member, "acquires", found, "after", size, "up to", end),
        )
        self.members.starts_at(lease.place, share.leader.log.log_start_offset)
        for first, last, deliveries in found:
            self.members.acquires(lease, member, range(first, last + 1), deliveries)
        self._given[share.key, member].update(found)

    def released(self, share: LedShare, member: str) -> None:
        lease = self._leases.get(share)
        if lease is not None:
            self.members.session_ends(lease, member)

    # -- writes of leaders

    def epochs_of(self, key: SharePartitionKey) -> tuple[int, int, Life]:
        self.look()
        stored = self.states.stored.get(key)
        if stored is None:
            return -1, -1, self.states.life(key)
        return stored.state_epoch, stored.leader_epoch, self.states.life(key)

    def wrote(
        self,
        key: SharePartitionKey,
        summary: ShareSummary,
        batches: list[StateBatch],
        before: tuple[int, int, Life],
    ) -> None:
        """Checks the response to a write: only the newest leader writes (Q8), and the write is stored (Q7)."""
        self.look()
        state_epoch, leader_epoch, life = before
        self.rule(
            summary.state_epoch >= state_epoch and summary.leader_epoch >= leader_epoch,
            *("Q8", key, "was written with", summary, "after", state_epoch, leader_epoch),
        )
        if self.states.life(key) == life:
            self.states.has(key, batches)

    def read(
        self, key: SharePartitionKey, leader_epoch: int, before: tuple[int, int, Life]
    ) -> None:
        self.look()
        self.rule(
            leader_epoch >= before[1], "Q8", key, "was read by", leader_epoch, "after", before[1]
        )

    # -- requests and responses

    def arrives(self, broker: CoordinatorBroker, request: Any) -> Arrived:
        self.look()
        acknowledging: dict[tuple[bytes, int], list[Decision]] = {}
        session = 0
        if isinstance(request, ShareFetchRequest | ShareAcknowledgeRequest):
            member = (broker.id, broker.life, request.group_id, request.member_id)
            self._sessions[member] += not request.share_session_epoch
            session = self._sessions[member]
            for topic in request.topics:
                for partition in topic.partitions:
                    key = SharePartitionKey(
                        str(request.group_id), topic.topic_id, partition.partition_index
                    )
                    share = broker.families.shares.sharing.find(key)
                    lease = None if share is None else self._leases.get(share)
                    kinds = _kinds(partition.acknowledgement_batches)
                    if lease is not None and kinds:
                        acknowledging[key[1:]] = self.members.asks(
                            lease, str(request.member_id), kinds
                        )
        lives = {}
        if isinstance(request, AlterShareGroupOffsetsRequest):
            lives = {
                key: self.states.life(key) for key in self.states.stored.keys() | self.states.ever
            }
        return Arrived(acknowledging, lives, session)

    def answers(
        self, broker: CoordinatorBroker, request: Any, _version: int, response: Any, before: Arrived
    ) -> None:
        self.look()
        if self.is_void:
            return
        if isinstance(request, ShareFetchRequest | ShareAcknowledgeRequest):
            self._serves(broker, request, response, before)
        if isinstance(request, ShareFetchRequest):
            self._fetched(request, response, before)
        elif isinstance(request, ShareAcknowledgeRequest):
            self._acknowledged(request, response, before)
        elif isinstance(request, ShareGroupHeartbeatRequest):
            self.groups.beaten(request, response)
        elif isinstance(request, AlterShareGroupOffsetsRequest):
            self._altered(request, response, before)
        elif isinstance(request, DeleteShareGroupOffsetsRequest):
            self._deleted_offsets(request, response)
        elif isinstance(request, DeleteGroupsRequest):
            self._deleted_groups(response)
        else:
            code = code_of(response)
            self.rule(code is not E.UNKNOWN_SERVER_ERROR, "answer", broker.id, "fails on", request)

    def _serves(
        self, broker: CoordinatorBroker, request: Any, response: Any, before: Arrived
    ) -> None:
        """Checks Q13: a session serves each of its requests once, even if the request is repeated."""
        if response.error_code or request.share_session_epoch <= 0:
            return
        member = (broker.id, broker.life, request.group_id, request.member_id)
        served = (member, before.session, request.share_session_epoch)
        self.rule(served not in self._served, "Q13", member, "is served twice:", request)
        self._served.add(served)

    def _settle(self, key: tuple[bytes, int], decisions: list[Decision], code: int) -> None:
        if not code:
            # An acknowledgement of deleted records succeeds without an effect, even if another member holds them.
            self.members.starts_at(decisions[0].place.partition, self.histories[key].deleted_to)  # type: ignore[arg-type]
            self.members.answered(decisions, Result.CONFIRMED)
            return
        if ErrorCode.of(code) in REFUSALS:
            self.members.answered(decisions, Result.REFUSED)
        self.world.happened[f"refused: {ErrorCode.of(code).name}"] += 1

    def _acknowledged(self, request: Any, response: Any, before: Arrived) -> None:
        codes = {
            (topic.topic_id, partition.partition_index): partition.error_code
            for topic in response.responses
            for partition in topic.partitions
        }
        for key, asked in before.acknowledging.items():
            code = response.error_code or codes.get(key)
            self.rule(code is not None, "answer", "does not name", key, "of", request)
            self._settle(key, asked, code)

    def _fetched(self, request: Any, response: Any, before: Arrived) -> None:
        codes = {}
        count = 0
        for topic in response.responses:
            for data in topic.partitions:
                key = SharePartitionKey(str(request.group_id), topic.topic_id, data.partition_index)
                codes[key[1:]] = data.acknowledge_error_code
                count += sum(
                    part.last_offset - part.first_offset + 1 for part in data.acquired_records
                )
                self._gives_acquired(key, str(request.member_id), data)
        for partition, asked in before.acknowledging.items():
            code = response.error_code or codes.get(partition)
            self.rule(code is not None, "answer", "does not name", partition, "of", request)
            self._settle(partition, asked, code)
        if request.share_acquire_mode:
            self.rule(
                count <= max(0, request.max_records),
                *("Q12", request.member_id, "gets", count, "of", request.max_records),
            )

    def _gives_acquired(self, key: SharePartitionKey, member: str, data: Any) -> None:
        """Checks Q12: a response has the records that the member has acquired, as they are committed."""
        told = [
            (part.first_offset, part.last_offset, part.delivery_count)
            for part in data.acquired_records
        ]
        if not told:
            return
        given = self._given[key, member]
        self.rule(given.issuperset(told), "Q12", key, member, "is told", told, "acquired", given)
        history = self.histories[key[1:]]
        entries = entries_in(bytes(data.records or b""))
        for entry in entries:
            self.rule(history.at(entry.base) == entry, "Q12", key, "gives", entry)
        covered = {offset for entry in entries for offset in range(entry.base, entry.last + 1)}
        wanted = {offset for first, last, _ in told for offset in range(first, last + 1)}
        self.rule(wanted <= covered, "Q12", key, member, "lacks", wanted - covered)
        self.world.happened["records acquired"] += len(wanted)

    def _altered(self, request: Any, response: Any, before: Arrived) -> None:
        """Checks Q10: altered offsets are stored, in a new life of the state."""
        if response.error_code:
            return
        ids = {topic.topic_name: topic.topic_id for topic in response.responses}
        codes = {
            (topic.topic_name, partition.partition_index): partition.error_code
            for topic in response.responses
            for partition in topic.partitions
        }
        for topic in request.topics:
            for partition in topic.partitions:
                name = (topic.topic_name, partition.partition_index)
                if codes[name]:
                    continue
                self.world.happened["offsets altered"] += 1
                key = SharePartitionKey(
                    request.group_id, ids[topic.topic_name], partition.partition_index
                )
                stored = self.states.stored.get(key)
                self.rule(
                    stored is not None
                    and stored.start >= partition.start_offset
                    and self.states.life(key) != before.lives.get(key),
                    *("Q10", key, "is altered to", partition.start_offset, "and stored", stored),
                )

    def _deleted_offsets(self, request: Any, response: Any) -> None:
        if response.error_code:
            return
        for topic in response.responses:
            if not topic.error_code:
                self.world.happened["offsets deleted"] += 1
                for key in self.states.stored:
                    self.rule(
                        key[:2] != (request.group_id, topic.topic_id),
                        *("Q10", key, "was deleted and is stored"),
                    )

    def _deleted_groups(self, response: Any) -> None:
        for result in response.results:
            if not result.error_code:
                self.world.happened["group deleted"] += 1
                self.rule(
                    result.group_id not in self.groups.groups
                    and all(key.group_id != result.group_id for key in self.states.stored),
                    *("Q10", result.group_id, "was deleted and is stored:"),
                    *(key for key in self.states.stored if key.group_id == result.group_id),
                )

    # -- the end

    def unfinished(self, group_ids: tuple[str, ...]) -> list[str]:
        """Returns the unfinished work: records that are not done, and partitions without a reader."""
        left = []
        keys = self.world.input_keys
        for group_id in group_ids:
            left += self.groups.unsettled(group_id, frozenset(keys))
            for key in keys:
                share = SharePartitionKey(group_id, *key)
                for offset in range(self._first_wanted(share), self.histories[key].end):
                    if not self.states.is_final(share, offset):
                        left.append(f"Q5 {share} is not done at {offset}")
                        break
        return left

    def _first_wanted(self, share: SharePartitionKey) -> int:
        place = SharePlace.of(share, self.states.life(share))
        stored = self.states.stored.get(share)
        start = 0 if stored is None else max(0, stored.start)
        deleted = self.histories[share[1:]].deleted_to
        return max(deleted, start, self.members.start(place))

    def check_complete(self, group_ids: tuple[str, ...]) -> None:
        for group_id in group_ids:
            for key in self.world.input_keys:
                share = SharePartitionKey(group_id, *key)
                place = SharePlace.of(share, self.states.life(share))
                first = max(self.histories[key].deleted_to, self.members.start(place))
                self.members.check_complete(place, range(first, self.histories[key].end))


def _kinds(batches: Any) -> dict[int, int]:
    found = {}
    for batch in batches:
        types = batch.acknowledge_types
        for offset in range(batch.first_offset, batch.last_offset + 1):
            found[offset] = types[0] if len(types) == 1 else types[offset - batch.first_offset]
    return found
