"""A mirror in front of a ZooKeeper in memory, by a clock that a transcript turns: its writes, requests and log.

run batch=5        start it (secrets, verify=SECONDS, turn: it waits for `turn`, until `over`)
unready            before `run`: the quorum has no leader yet, until `ready`
say broker=1       records of the quorum, in one batch: see `RECORDS`
leader 2 7         another leader and its epoch
wait 1.5           let this time pass
create PATH DATA   by another client; set, delete, session (ephemeral), lock, unlock, shut
lose, regain       its connection; expire: its session
doubt 3            no response to its third request from now, which is done; fail: which is not
servers TEXT       the response of each from now on to `srvr`, | between lines; refuse: they do not take the login
contest 2 PATH     before the next two transactions that write there another client makes or deletes the znode
forge DATA         another client's /controller in place of the one that stands; session: of its session
hold PATH          a companion has asked for a change; spare: it still has to look at it; free: neither any more
stop               cancel it
status             all counters
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import fields
from types import SimpleNamespace
from unittest import mock

import trio
from kazoo.exceptions import ConnectionLoss, KazooException
from kazoo.protocol.serialization import CheckVersion, Create, Delete, SetData
from kazoo.security import ACL, READ_ACL_UNSAFE, Id
from trio._core import _run as scheduler

from tests.datadriven import Step
from tests.zkcompat import build
from tests.zkcompat.rig import NEVER, Source
from tests.zkcompat.zookeeper.in_memory import EPHEMERAL, OPEN, Client, Ensemble
from trimaran.zkcompat.mirroring import connecting
from trimaran.zkcompat.mirroring.mirror import VERIFY_SHARE, Mirror, MirrorConfig
from trimaran.zkcompat.quorum_feed.feed import ImageFeed
from trimaran.zkcompat.tree.claim import QuorumLeader
from trimaran.zkcompat.zookeeper import session
from trimaran.zkcompat.zookeeper.kazoo_client import NO_SECURITY, Security
from trimaran.zkcompat.zookeeper.keeper import open_keeper
from trimaran.zkcompat.zookeeper.session import KeeperConfig

NOW_MS = 1_795_221_879_206
SESSION_MS = 6000
NOBODY = (ACL(31, Id("digest", "nobody:x")),)
TOPIC_IDS = {name: bytes([number + 1]) * 16 for number, name in enumerate("tuvw")}
RECORDS: dict[str, Callable[..., list]] = {
    "broker": lambda number: [build.broker(int(number))],
    "fence": lambda number: [build.fence(int(number))],
    "unregister": lambda number: [build.unregister(int(number))],
    "topic": lambda name, count="1": [
        build.topic(name, TOPIC_IDS[name]),
        *(build.partition(TOPIC_IDS[name], index, [1, 2]) for index in range(int(count))),
    ],
    "remove": lambda name: [build.remove_topic(TOPIC_IDS[name])],
    "leads": lambda name, leader: [build.change(TOPIC_IDS[name], 0, leader=int(leader))],
    "config": lambda name, value: [build.config(2, name, "retention.ms", value)],
    "ids": lambda number: [build.producer_ids(int(number))],
    "acl": lambda number: [build.acl(int(number), "t")],
    "scram": lambda user, salt="saltsalt1": [build.scram(user, salt=salt.encode())],
}


class Companion:
    """Holds and spares the configured paths."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self.note = note
        self.held: set[str] = set()
        self.spared: set[str] = set()

    def spares(self, path: str) -> bool:
        return path in self.spared

    def holds(self, path: str) -> bool:
        return path in self.held

    async def prepare(self, tenure, image) -> None:
        before = tenure.shown_before
        shown = None if before is None else before.provenance.offset
        self.note(f"companion prepares: known {tenure.known}, shown before {shown}")

    async def run(self, tenure) -> None:
        self.note("companion runs")
        await trio.sleep_forever()


class Turn:
    def __init__(self) -> None:
        self._is_ours, self._changed = False, trio.Event()

    def set(self, *, is_ours: bool) -> None:
        self._is_ours = is_ours
        self._changed.set()
        self._changed = trio.Event()

    async def wait(self) -> None:
        while not self._is_ours:
            await self._changed.wait()

    async def wait_over(self) -> None:
        while self._is_ours:
            await self._changed.wait()


class Machine:
    def __init__(self, nursery: trio.Nursery, caplog) -> None:
        self.nursery = nursery
        self.caplog = caplog
        self.began = trio.current_time()
        self.lines: list[str] = []
        self.ensemble = Ensemble(lambda: _now_ms(self.began))
        self.ensemble.before, self.ensemble.after = self._before, self._after
        self.hands = self.ensemble.client("h", 0, None, NO_SECURITY)
        self.hands.start_async()
        self.other = self.ensemble.client("h", 0, None, NO_SECURITY)
        self.other.start_async()
        self.source = Source()
        self.mirror: Mirror | None = None
        self.scope = trio.CancelScope()
        self.reads = 0
        self.doubts: dict[int, bool] = {}  # by request number: whether it is executed
        self.asked = 0
        self.answer: str | None = None
        self.companion = Companion(self._note)
        self.turn = Turn()
        self.contested: dict[str, int] = {}

    async def run(self, step: Step) -> str:
        """Records all events until the system is idle, or the time of `wait` is over."""
        command, words = step.command, step.source.splitlines()[-1].split()[1:]
        self.caplog.clear()
        handle = getattr(self, f"_{command}", None)
        seconds = 0.0
        if command == "wait":
            seconds = float(words[0])
        elif handle is not None:
            handle(*words)
        else:
            self._by_hand(command, *words)
        await trio.sleep(seconds)
        await trio.testing.wait_all_tasks_blocked()
        found, self.lines = self.lines, []
        if self.reads:
            found.append(f"({self.reads} reads)")
        self.reads = 0
        return "\n".join(found)

    # --- the mirror

    def _run(self, *words: str) -> None:
        given = dict(word.partition("=")[::2] for word in words)
        config = MirrorConfig(
            batch_operations=int(given.get("batch", "200")),
            verify_interval_seconds=float(given.get("verify", NEVER)),
            secrets="secrets" in given,
            verify_share=VERIFY_SHARE if "verify" in given else 0.0,
        )
        self.nursery.start_soon(self._mirror, config, self.turn if "turn" in given else None)

    def _turn(self) -> None:
        self.turn.set(is_ours=True)

    def _over(self) -> None:
        self.turn.set(is_ours=False)

    def _unready(self) -> None:
        self.source.feed = ImageFeed()

    def _ready(self) -> None:
        self.source.feed.caught_up()

    def _hold(self, path: str) -> None:
        self.companion.held.add(path)

    def _spare(self, path: str) -> None:
        self.companion.spared.add(path)

    def _free(self) -> None:
        self.companion.held.clear()
        self.companion.spared.clear()

    def _contest(self, count: str, path: str) -> None:
        self.contested[f"/c{path}"] = int(count)

    async def _mirror(self, config: MirrorConfig, turn: Turn | None) -> None:
        with trio.CancelScope() as self.scope:
            security = Security(auth=[("digest", "mirror:secret")] if config.secrets else ())
            keeper_config = KeeperConfig("h/c", SESSION_MS, security=security)
            async with open_keeper(keeper_config) as keeper:
                self.mirror = Mirror(
                    *(self.source.feed, keeper, build.CLUSTER_ID, config, [self.companion]),
                    leadership=turn,
                )
                tell = type(self.mirror.status).tell
                status = self.mirror.status

                def telling(self_, state=""):
                    if state and state != self_.state:
                        self._note(f"is {state}")
                    tell(self_, state)

                with mock.patch.object(type(status), "tell", telling):
                    try:
                        await self.mirror.run()
                    except Exception as error:  # noqa: BLE001 - it is what is told
                        self._note(f"ends: {type(error).__name__}: {error}")

    def _stop(self) -> None:
        self.scope.cancel()

    def _status(self) -> None:
        status = self.mirror.status
        told = {field.name: getattr(status, field.name) for field in fields(status)}
        self.lines += [f"{name} {value}" for name, value in told.items() if name[0] != "_"]
        self.lines += [f"held back: {entry.sentence()}" for entry in self.mirror.quarantine]

    def _say(self, *words: str) -> None:
        records = []
        for word in words:
            kind, _, values = word.partition("=")
            records += RECORDS[kind](*values.split(":"))
        self.source.say(*records)

    def _leader(self, node: str, epoch: str) -> None:
        self.source.feed.lead_by(QuorumLeader(int(node), int(epoch)))

    # --- other clients

    def _by_hand(self, command: str, path: str, data: str = "") -> None:
        client, full = self.hands, f"/c{path}".rstrip("/")
        match command:
            case "create":
                result = client.create_async(full, data.encode())
            case "session":
                result = client.create_async(full, data.encode(), ephemeral=True)
            case "set":
                result = client.set_async(full, data.encode())
            case "delete":
                result = client.delete_async(full)
            case "lock" | "shut" | "unlock":
                acl = {"lock": READ_ACL_UNSAFE, "shut": NOBODY, "unlock": OPEN}[command]
                znode = self.ensemble.tree[full]
                self.ensemble.tree[full] = znode.__class__(**{**vars(znode), "acl": tuple(acl)})
                return
        try:
            result.get()
        except KazooException as error:
            self._note(f"the other client is refused: {type(error).__name__}")

    def _forge(self, data: str, mark: str = "") -> None:
        """Replaces `/controller` by another client's in one step; with `session`, by one of its session."""
        path, flags = "/c/controller", EPHEMERAL * bool(mark)
        requests = [Delete(path, -1), Create(path, data.encode(), OPEN, flags)]
        self.hands.ask(("forge",), lambda: self.hands.run_all(requests)).get()

    # --- the connection

    @property
    def client(self) -> Client:
        return self.mirror.keeper._client

    async def ask(self, host: str, port: int, word: bytes) -> bytes | None:
        """Replaces a query to one server."""
        self._note(f"asks {host}:{port} {word.decode()}")
        return None if self.answer is None else self.answer.encode()

    def _servers(self, *words: str) -> None:
        self.answer = " ".join(words).replace("|", "\n")

    def _refuse(self) -> None:
        self.mirror.keeper.is_refused = True

    def _lose(self) -> None:
        self.client.lose()

    def _regain(self) -> None:
        self.client.regain()

    def _expire(self) -> None:
        client = self.client
        self.ensemble.end_session(client.client_id[0])
        client.client_id = None
        client.start_async()

    def _doubt(self, count: str) -> None:
        self.doubts[self.asked + int(count)] = True

    def _fail(self, count: str) -> None:
        self.doubts[self.asked + int(count)] = False

    def _before(self, client: Client, request: object) -> None:
        if client in (self.hands, self.other):
            return
        self.asked += 1
        text = _said(request)
        if text:
            self._note(text)
        else:
            self.reads += 1
        for operation in getattr(request, "operations", ()):
            if self.contested.get(operation.path, 0) > 0:
                self.contested[operation.path] -= 1
                is_there = operation.path in self.ensemble.tree
                path = operation.path.removeprefix("/c")
                self._by_hand("delete" if is_there else "create", path)
        if self.doubts.get(self.asked) is False:
            self._break(client)

    def _after(self, client: Client, _request: object) -> None:
        if client not in (self.hands, self.other) and self.doubts.get(self.asked):
            self._break(client)

    def _break(self, client: Client) -> None:
        client.lose()
        client.regain()
        raise ConnectionLoss

    def _note(self, text: str) -> None:
        self.lines.append(f"{trio.current_time() - self.began:8.3f} {text}")

    def log(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.INFO and "ZooKeeper session" not in record.getMessage():
            self._note(f"log: {record.getMessage()}")


def _said(request: object) -> str:
    """Returns the requests that write; reads are omitted."""
    operations = getattr(request, "operations", None)
    if operations is not None:
        return "transaction\n" + "\n".join(
            f"           {_said(operation)}" for operation in operations
        )
    match request:
        case Create(path, data, acl, flags):
            kind = ("create", "create ephemeral", "create sequential")[flags]
            secret = " secret" if acl[0].id.scheme == "auth" else ""
            return f"{kind}{secret} {path}{_told(data)}"
        case SetData(path, data, version):
            return f"set {path}{_told(data)}{_insisting(version)}"
        case Delete(path, version):
            return f"delete {path}{_insisting(version)}"
        case CheckVersion(path, version):
            return f"check {path}{_insisting(version)}"
        case ("set_acls", path):
            return f"hide {path}"
    return ""


def _told(data: bytes | None) -> str:
    if data is None:
        return ""
    try:
        found = json.loads(data)
    except ValueError:
        return f" {data.decode()}"
    if isinstance(found, dict):
        found = {name: value for name, value in found.items() if name not in ("host", "pid")}
    return f" {json.dumps(found)}"


def _insisting(version: int) -> str:
    return "" if version == -1 else f" at version {version}"


def _now_ms(began: float) -> int:
    return NOW_MS + round(1000 * (trio.current_time() - began))


class _Log(logging.Handler):
    def __init__(self, machine: Machine) -> None:
        super().__init__()
        self._machine = machine

    def emit(self, record: logging.LogRecord) -> None:
        self._machine.log(record)


async def outputs_of(steps: list[Step], caplog, monkeypatch) -> dict[int, str]:
    """Returns outputs by the line of their step; tasks run in the same order each time."""
    monkeypatch.setattr(scheduler, "_ALLOW_DETERMINISTIC_SCHEDULING", True)
    scheduler._r.seed(0)
    found: dict[int, str] = {}
    began = trio.current_time()
    clock = SimpleNamespace(time_ns=lambda: _now_ms(began) * 1_000_000)
    monkeypatch.setattr("trimaran.node.runtime.clock.time", clock)
    async with trio.open_nursery() as nursery:
        machine = Machine(nursery, caplog)
        monkeypatch.setattr(session, "make_client", machine.ensemble.client)
        monkeypatch.setattr(connecting, "_ask", machine.ask)
        handler, room = _Log(machine), logging.getLogger("trimaran.zkcompat")
        room.addHandler(handler)
        try:
            for step in steps:
                found[step.line] = await machine.run(step)
        finally:
            room.removeHandler(handler)
        nursery.cancel_scope.cancel()
    return found
