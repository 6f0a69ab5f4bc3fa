"""A `Connection` whose endpoint, registry, turn and clock follow a transcript, and report all calls.

Lines with `r` come from the reader, those with `w` from the writer; a step ends when both wait.
"""

from __future__ import annotations

import logging
import math
import ssl
from unittest import mock

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.wire.transport.in_order import run_in_order
from trimaran.wire.buffers.framing import FrameBuffer
from trimaran.wire.buffers.outgoing import Outgoing
from trimaran.wire.errors import CloseConnection, ErrorCode, RemoteProtocolError
from trimaran.wire.security.listener import ListenerSecurity
from trimaran.wire.security.principal import Principal
from trimaran.wire.security.sasl.authenticator import Login, LoginAction, SaslSettings
from trimaran.wire.transport.connection.connection import Connection
from trimaran.wire.transport.connection.core import Service
from trimaran.wire.transport.connection.limits import ConnectionLimits, Counters
from trimaran.wire.transport.dispatch.running import RunningRequest
from trimaran.wire.transport.endpoint.send_queue import NOTHING
from trimaran.wire.transport.memory.pools import Memory
from trimaran.wire.transport.metrics.limited_log import LimitedLog
from trimaran.wire.transport.requests.calls import ConnectionInfo
from trimaran.wire.transport.scheduling.loop_time import LoopTimed
from trimaran.wire.transport.scheduling.slice_end import SliceEnd

LIMITS = ConnectionLimits(
    frame_bytes_max=1 << 20,
    handshake_seconds=10.0,
    in_flight_max=3,
    in_flight_bytes_max=1000,
    unsent_bytes_max=200,
    half_closed_seconds=1.0,
)


class Told:
    """Output lines of both tasks."""

    def __init__(self):
        self.lines: dict[str, list[str]] = {"r": [], "w": []}

    def say(self, text):
        task = trio.lowlevel.current_task().name
        self.lines["w" if task.endswith("_write") else "r"].append(text)

    def taken(self):
        found = [f"{task} {line}" for task, of_task in self.lines.items() for line in of_task]
        self.lines = {"r": [], "w": []}
        return found


class ScriptedEndpoint:
    """An endpoint with `room` for this many bytes in the kernel."""

    def __init__(self, say):
        self._say = say
        self.received_at, self.seconds = 0.0, 0.0
        self.coming: trio.MemoryReceiveChannel
        self.give, self.coming = trio.open_memory_channel(math.inf)
        self.also: list[bytes] = []
        self.room = math.inf
        self.more_room = trio.Event()
        self.gone = False
        self.failure: BaseException | None = None
        self.shakes = trio.Event()
        self.shakes.set()

    async def handshake(self):
        await self.shakes.wait()
        if self.failure is not None:
            raise self.failure
        return Principal("peer")

    async def receive(self, frames: FrameBuffer):
        data = await self.coming.receive()
        if isinstance(data, BaseException):
            raise data
        self.received_at, self.seconds = self.received_at + 1.0, 0.25
        self._put(frames, data)
        return len(data)

    def receive_nowait(self, frames):
        data = self.also.pop(0) if self.also else b""
        self._say(f"receives {len(data)} more")
        self._put(frames, data)
        return len(data)

    def _put(self, frames, data):
        while data:
            room = frames.room()
            count = min(len(room), len(data))
            room[:count] = data[:count]
            del room
            frames.received(count)
            data = data[count:]

    def send_nowait(self, queue):
        self._say(f"sends {queue.size} at once")
        self._send(queue)

    async def send(self, queue):
        self._say(f"sends {queue.size}")
        while queue:
            self._send(queue)
            if queue:
                self.more_room = trio.Event()
                await self.more_room.wait()
        await trio.lowlevel.checkpoint()

    def _send(self, queue):
        count = min(queue.size, self.room)
        self.room -= count
        if count:
            queue.sent_bytes(count)

    def peer_is_gone(self):
        return self.gone

    async def aclose(self):
        await trio.lowlevel.checkpoint()
        self._say("closes")


class ScriptedTurn:
    def __init__(self, say, loop_time):
        self._say = say
        self._loop_time = loop_time
        self.over = self.joined = False
        self.step_seconds = 0.0
        self.slice_end = SliceEnd()

    async def begin(self, since=None, spent=0.0):
        self._say(
            "begins a slice" + (f" since {since}, {spent} before" if since is not None else "")
        )
        await trio.lowlevel.checkpoint()

    def is_over(self):
        return self.over

    def may_be_joined(self):
        joined, self.joined = self.joined, False
        return joined

    def end(self):
        self._say("ends its slice")

    def resume(self):
        pass

    def pause(self):
        self._loop_time.seconds += self.step_seconds


class Deferred:
    """A value that becomes known when the test sets it."""

    def __init__(self, size):
        self.known = trio.Event()
        self.answer = answer_of(size)

    def ready(self):
        return self.known.is_set()


class Later(RunningRequest):
    """A pending response without a request."""

    __slots__ = ("_given", "_say", "_turn", "_what")

    def __init__(self, say, what, given, held, blocks, turn):
        self._say, self._what, self._given, self._turn = say, what, given, turn
        self.held, self.blocks = held, blocks
        self.is_known, self.response = False, None

    def ready(self):
        self._say(f"asks whether {self._what} is ready")
        return self._given.ready()

    def calls_back(self, _call):
        return False

    async def proceed(self):
        await LoopTimed(self._finish(), self._turn())

    async def _finish(self):
        await self._given.known.wait()
        self._say(f"finishes {self._what}")
        if isinstance(self._given.answer, Exception):
            raise self._given.answer
        self.response, self.is_known, self.blocks = self._given.answer, True, False

    def close(self):
        self._say(f"closes {self._what}")


def answer_of(size):
    out = Outgoing()
    out += bytes(size)
    return out


class ScriptedRegistry:
    """A registry for which a frame names its response: `answer 10`, `later NAME 10 [held] [alone]`, `nothing`, `mute
    5`, errors.
    """

    def __init__(self, say, turn):
        self._say = say
        self.turn = turn
        self.later: dict[str, Deferred] = {}

    def is_heavy(self, frame):
        return bytes(frame[:5]) == b"heavy"

    def memory_of(self, frame):
        return 5000

    async def dispatch_heavy(self, frame, _context, info):
        self._say("begins apart")
        await trio.lowlevel.checkpoint()
        return self.dispatch(frame, _context, info)

    def dispatch(self, frame, context, info, budget=None):
        assert context == "context"
        text = bytes(frame).rstrip(b".").decode().removeprefix("heavy ")
        said = " before it has logged in" if budget is not None else ""
        self._say(f"handles {text[:40]}{said}")
        match text.split():
            case ["answer", size]:
                return answer_of(int(size))
            case ["later", name, size, *more]:
                held = next((int(word) for word in more if word.isdigit()), 0)
                self.later[name] = Deferred(int(size))
                return Later(self._say, name, self.later[name], held, "alone" in more, self.turn)
            case ["mute", seconds]:
                info.mute(float(seconds))
                return answer_of(1)
            case ["nothing"] | []:
                return None
            case ["bad"]:
                raise RemoteProtocolError("no sense")
            case ["close"]:
                raise CloseConnection("said so")
            case ["fail"]:
                raise RuntimeError("ours")
        raise AssertionError(text)

    def refuse(self, frame, code, why):
        self._say(f"refuses {bytes(frame)!r}: {code.name} {why}")
        return answer_of(9)


class ScriptedAuthenticator:
    """An authenticator for which a frame contains the mechanism's response."""

    def __init__(self, say, login):
        self._say, self._login = say, login

    def receive(self, frame):
        text = bytes(frame).rstrip(b".").decode().removeprefix("heavy ")
        self._say(f"logs in by {text}")
        match text.split():
            case ["token"]:
                return LoginAction(answer_of(5))
            case ["answer", _]:
                return LoginAction(passes=True)
            case ["last", *milliseconds]:
                session = int(milliseconds[0]) if milliseconds else None
                login = Login(Principal("alice"), "PLAIN", session)
                return LoginAction(answer_of(6), login=login)
            case ["wrong"]:
                return LoginAction(answer_of(7), closes="wrong password", delayed=True)
            case ["refused"]:
                return LoginAction(refused=ErrorCode.ILLEGAL_SASL_STATE, closes="not now")
            case ["refused-mildly"]:
                return LoginAction(refused=ErrorCode.ILLEGAL_SASL_STATE)
        raise RemoteProtocolError("no token")


class World:
    """One connection in a run of trio."""

    def __init__(self, sasl=False, blocks=False, token_bytes_max=524_288):
        self.told = Told()
        self.records: list[str] = []
        self.memory = Memory(request_bytes_max=200_000, responses_bytes_max=500)
        self.counters = Counters()
        self.info = ConnectionInfo(1, "L", ("10.0.0.1", 5), ("10.0.0.2", 9092), memory=self.memory)
        self.info.on_close(lambda: self.told.say("is marked as closed"))
        self.endpoint = ScriptedEndpoint(self.told.say)
        self.registry = ScriptedRegistry(self.told.say, lambda: self.connection._turn)
        settings = None
        if sasl:
            settings = SaslSettings({}, token_bytes_max, 0.5, blocks=blocks)
        logger = logging.Logger("scripted")
        logger.addHandler(self._handler())
        log = LimitedLog(logger, 0.0)
        self.service = Service(
            self.registry, "context", LIMITS, trio.current_time, log, self.counters
        )
        security = ListenerSecurity(None, settings)
        self.connection = Connection(self.endpoint, self.info, self.service, security)
        self.turn = ScriptedTurn(self.told.say, self.info.loop_time)
        self.connection._turn = self.connection._writer._turn = self.turn
        if sasl:
            self.connection.core._authenticator = ScriptedAuthenticator(self.told.say, None)

    def _handler(self):
        handler = logging.Handler()
        handler.emit = lambda record: self.told.say(
            f"logs {record.getMessage()}{' with a traceback' if record.exc_info else ''}"
        )
        return handler

    def state(self):
        one, share = self.connection.core, self.connection.core.share
        used = [pool.used for pool in self.memory.pools()]
        deadline = self.connection._serving.deadline
        counted = {
            name: getattr(self.counters, name)
            for name in (
                *("requests", "bad_frames", "bad_requests", "failed_handshakes"),
                *("failed_authentications", "expired_sessions"),
            )
            if getattr(self.counters, name)
        }
        words = [f"progress {one.progress()}", f"activity {one.activity()}"]
        rest = "" if one.owed is NOTHING else " in a queue"
        words.append(f"owed {len(one.owed)} of {one.owed_bytes}{rest}, unsent {one.unsent.size}")
        words.append(f"holds {share.frame} {share.requests} {share.responses} of {used}")
        pools = [share.of(pool) for pool in self.memory.pools()]
        assert pools == [share.frame if share.frame > 65536 else 0, share.requests, share.responses]
        words.append(f"until {'ever' if deadline == math.inf else deadline}")
        words.append(f"buffer {len(one.frames._buffer)}, unread {one.frames.unread}")
        if counted:
            words.append(" ".join(f"{name} {count}" for name, count in counted.items()))
        if self.info.muted_until is not None:
            words.append(
                f"muted until {self.info.muted_until}, abandoned {self.connection.is_abandoned()}"
            )
        if self.info.principal.name not in ("ANONYMOUS", "peer"):
            words.append(f"is {self.info.principal}")
        return words


class Script:
    """Runs the steps of a transcript; a connection lives from its `open` to the next one."""

    def __init__(self, clock: MockClock):
        self.clock = clock
        self.world: World
        self.nursery: trio.Nursery
        self.ended = False

    async def step(self, step):
        words = [line for line in step.source.splitlines() if line and not line.startswith("#")]
        for line in words:
            await self._do(*line.split(" ", 1))
        await wait_all_tasks_blocked()
        world = self.world
        end = ["has ended"] if self.ended else []
        return "\n".join([*world.told.taken(), *end, *world.state()])

    async def _do(self, word, rest=""):
        await getattr(self, f"_{word}")(rest)

    async def _frame(self, rest):
        self.world.endpoint.give.send_nowait(b"".join(map(framed, rest.split("|"))))

    async def _parts(self, rest):
        """Sends frames in two parts; the first number is the bytes of the first part."""
        size, _, texts = rest.partition(" ")
        data = b"".join(map(framed, texts.split("|")))
        for part in (data[: int(size)], data[int(size) :]):
            self.world.endpoint.give.send_nowait(part)

    async def _bytes(self, rest):
        """Sends the size of a frame, and a part of its bytes."""
        size, filled = map(int, rest.split())
        self.world.endpoint.give.send_nowait(size.to_bytes(4, "big") + b"." * filled)

    async def _rest(self, rest):
        self.world.endpoint.give.send_nowait(b"." * int(rest))

    async def _also(self, rest):
        """Adds frames that arrive while the slice of the next frame runs."""
        self.world.endpoint.also.append(b"".join(map(framed, rest.split("|"))))
        self.world.turn.joined = True

    async def _end(self, _):
        self.world.endpoint.give.send_nowait(b"")

    async def _break(self, rest):
        errors = {"reset": ConnectionResetError(), "os": OSError("disk"), "ours": ValueError()}
        self.world.endpoint.give.send_nowait(errors[rest])

    async def _known(self, rest):
        (await self._later(rest)).known.set()
        await wait_all_tasks_blocked()

    async def _fails(self, rest):
        name, kind = rest.split()
        later = await self._later(name)
        later.answer = {"close": CloseConnection("late"), "ours": ValueError()}[kind]
        later.known.set()

    async def _unanswered(self, rest):
        later = await self._later(rest)
        later.answer = None
        later.known.set()

    async def _later(self, name):
        await wait_all_tasks_blocked()
        return self.world.registry.later[name]

    async def _room(self, rest):
        """Sets how many bytes the kernel accepts from now on."""
        self.world.endpoint.room = math.inf if rest == "all" else int(rest)
        self.world.endpoint.more_room.set()

    async def _advance(self, rest):
        await wait_all_tasks_blocked()
        self.clock.jump(float(rest))

    async def _over(self, rest):
        self.world.turn.over = rest == "yes"

    async def _steps(self, rest):
        self.world.turn.step_seconds = float(rest)

    async def _gone(self, _):
        self.world.endpoint.gone = True

    async def _fill(self, rest):
        name, size = rest.split()
        getattr(self.world.memory, name).take(int(size))

    async def _free(self, rest):
        name, size = rest.split()
        getattr(self.world.memory, name).give_back(int(size))

    async def _want(self, rest):
        """Makes another connection wait for memory."""
        self.nursery.start_soon(getattr(self.world.memory, rest).acquire, 10)
        await wait_all_tasks_blocked()

    async def _shrink(self, _):
        await wait_all_tasks_blocked()
        self.world.connection.core.shrink()

    async def _stop(self, _):
        await wait_all_tasks_blocked()
        self.world.connection.stop_reading()

    async def _abort(self, _):
        await wait_all_tasks_blocked()
        self.world.connection.abort()

    async def _cancel(self, _):
        """Cancels the surrounding server."""
        await wait_all_tasks_blocked()
        self.around.cancel()

    async def _shake(self, _):
        self.world.endpoint.shakes.set()

    async def _open(self, rest):
        words = rest.split()
        if hasattr(self, "world"):
            self.world.connection.abort()
            await wait_all_tasks_blocked()
        self.ended = False
        token_bytes_max = next((int(word) for word in words if word.isdigit()), 524_288)
        self.world = world = World("sasl" in words, "blocks" in words, token_bytes_max)
        if "slowly" in words:
            world.endpoint.shakes = trio.Event()
        if "eof" in words:
            world.endpoint.failure = ssl.SSLEOFError()
        if "refused" in words:
            world.endpoint.failure = ssl.SSLError("bad certificate")

        self.around = trio.CancelScope()

        async def serve():
            with self.around:
                await world.connection.serve()
            self.ended = True

        self.nursery.start_soon(serve)


def framed(text):
    """Returns the frame of a text; `answer 3*5000` is padded to that many bytes with dots."""
    text, _, size = text.partition("*")
    data = text.encode()
    data += b"." * (int(size) - len(data)) if size else b""
    return len(data).to_bytes(4, "big") + data


def run_script(check):
    """Runs a transcript with tasks in a fixed order."""
    clock = MockClock()
    script = Script(clock)

    async def in_no_thread(work, *args, abandon_on_cancel, limiter):
        script.world.told.say(
            f"has a thread of {limiter.total_tokens}" + ", or leaves it" * abandon_on_cancel
        )
        await trio.lowlevel.checkpoint()
        return work(*args)

    async def main():
        async with trio.open_nursery() as script.nursery:
            await check(script)
            script.nursery.cancel_scope.cancel()

    with mock.patch.object(trio.to_thread, "run_sync", in_no_thread):
        return run_in_order(main, clock)
