"""The steps of one request in order, on the loop or in a thread, as in the transcripts."""

import gc
from pathlib import Path

import pytest

from tests.broker.calls import connection
from tests.wire.transport.in_order import check_steps, run_in_order
from trimaran.wire.buffers.response_size import ResponseTooLarge
from trimaran.wire.errors import CloseConnection, ErrorCode, KafkaError, RemoteProtocolError
from trimaran.wire.messages.header import decode_response_header, encode_request, encode_response
from trimaran.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from trimaran.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponseTopic,
)
from trimaran.wire.messages.registry import RESPONSES
from trimaran.wire.transport.dispatch import registry, responding, running
from trimaran.wire.transport.dispatch.registry import Registry
from trimaran.wire.transport.dispatch.running import RunningRequest
from trimaran.wire.transport.requests.access import open_to_all
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling import loop_time
from trimaran.wire.transport.scheduling.effects import Blocking, Wait
from trimaran.wire.transport.scheduling.loop_time import Unscheduled

FILES = sorted((Path(__file__).parent / "testdata" / "dispatch").glob("*.txt"))
OPEN = open_to_all("a test")
FAILURES = {
    "refuses": KafkaError(ErrorCode.NOT_COORDINATOR, "elsewhere"),
    "fails": ValueError("ours"),
    "closes": CloseConnection("so"),
    "no-sense": RemoteProtocolError("no sense"),
}


class Hooks:
    def __init__(self, say):
        self.say = say

    def begin(self, call):
        self.say("hook begins")

    def end(self, call, response):
        self.say(f"hook ends with {response!r:.70}")


class Scene:
    """Dispatches a request to a handler of one kind, which answers as the transcript requires."""

    def __init__(self, monkeypatch):
        self.lines = []

        async def run_apart(work, *args, whom=None):
            name = getattr(work, "__name__", None) or getattr(work, "func", work).__class__.__name__
            self.say(f"apart{f' for {whom}' if whom is not None else ''}: {name}")
            return work(*args)

        encode = responding.encode_response

        def encode_response(*given):
            if self.too_large:
                self.too_large -= 1
                raise ResponseTooLarge
            return encode(*given)

        self.too_large = 0
        monkeypatch.setattr(responding, "encode_response", encode_response)

        async def yielded():
            self.say("others have their turn")

        close_room = Call.close_room
        for module in (registry, responding, running):
            monkeypatch.setattr(module, "run_apart", run_apart)
        monkeypatch.setattr(loop_time, "yield_to_loop", yielded)
        monkeypatch.setattr(gc, "freeze", lambda: self.say("freezes"))

        def noting(call):
            self.say("closes its room")
            close_room(call)

        monkeypatch.setattr(Call, "close_room", noting)

    def say(self, text):
        self.lines.append(text)

    async def step(self, step):
        self.lines.clear()
        words = step.source.splitlines()[-1].split()
        self.too_large = {"huge": 1, "huge-errors": 2}.get(words[-1], 0)
        try:
            await self._ask(words)
        except Exception as error:  # noqa: BLE001 - told
            self.say(f"{type(error).__name__}: {error}")
        return "\n".join(self.lines)

    async def _ask(self, words):
        of_topics = "topics" in words
        request_class = OffsetDeleteRequest if of_topics else HeartbeatRequest
        handler = self._handler(words, request_class)
        asked = Registry((handler,), hooks=Hooks(self.say))
        request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
        if of_topics:
            count = next((int(word) for word in words if word.isdigit()), 2)
            names = [OffsetDeleteRequestTopic(name=f"t{n}", partitions=[]) for n in range(count)]
            request = OffsetDeleteRequest(group_id="g", topics=names)
        version = 0 if of_topics else 4
        frame = memoryview(bytearray(encode_request(request, version, 7, "me")))
        info = connection()
        info.turn = Unscheduled(0.0)
        if "heavy" in words:
            answer = await asked.dispatch_heavy(frame, "context", info)
        else:
            answer = asked.dispatch(frame, "context", info)
        if isinstance(answer, RunningRequest):
            held = answer.held - len(frame)
            self.say(
                f"later, ready {answer.ready()}, holds {'nothing' if held < 0 else held}"
                + ", blocks" * answer.blocks
            )
            answer = await answer.finish()
        if answer is None:
            self.say("no answer")
            return
        number, body = decode_response_header(bytes(answer), request.KEY, version)
        self.say(f"{number}: {RESPONSES[request.KEY].decode(bytes(answer)[body:], version)}")

    def _act(self, words, request, call):
        what = f"{len(request)} bytes" if "frame" in words else type(request).__name__
        self.say(f"handles {what}" + ", heavy" * call.heavy)
        for word in words:
            if word in FAILURES:
                raise FAILURES[word]
        if "nothing" in words:
            return None
        if "too-large" in words:
            raise ResponseTooLarge
        if "bytes" in words:
            return encode_response(HeartbeatResponse(throttle_time_ms=9), 4, 7)
        if "topics" not in words:
            return HeartbeatResponse(throttle_time_ms=5)
        topics = [OffsetDeleteResponseTopic(name=t.name, partitions=[]) for t in request.topics]
        code = ErrorCode.GROUP_ID_NOT_FOUND if "whole" in words else ErrorCode.NONE
        return OffsetDeleteResponse(error_code=code, topics=topics)

    def _handler(self, words, request_class):
        def at_once(request, context, call):
            return self._act(words, request, call)

        def blocking(request, context, call):
            async def act():
                return self._act(words, request, call)

            return (yield Blocking(act))

        def deferred(request, context, call):
            async def finish():
                return self._act(words, request, call)

            ready = (lambda: True) if "ready" in words else None
            return (yield Wait(finish, ready, holds_request="holds" in words))

        handler = {"at-once": at_once, "blocking": blocking, "deferred": deferred}[words[1]]
        versions = "0" if request_class is OffsetDeleteRequest else "0-4"
        options = self._options(words, request_class)
        declared = handles(request_class, versions=versions, access=OPEN, **options)
        return declared(handler)

    def _options(self, words, request_class):
        def on_error(request, code, text):
            return self._said(request_class, f"{code.name} {text}", code)

        options = {
            "on-error": {"on_error": on_error},
            "once": {"once": self._once},
            "frame": {"takes_frame": True},
        }
        return {key: value for word in words for key, value in options.get(word, {}).items()}

    def _once(self, request):
        self.say("makes it simple")
        return request

    def _said(self, request_class, text, code):
        self.say(f"says {text}")
        if request_class is HeartbeatRequest:
            return HeartbeatResponse(error_code=code)
        return OffsetDeleteResponse(error_code=code, topics=[])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_request_is_dispatched_as_each_transcript_says(path, monkeypatch):
    scene = Scene(monkeypatch)

    async def main():
        await check_steps(path, scene.step)

    run_in_order(main)
