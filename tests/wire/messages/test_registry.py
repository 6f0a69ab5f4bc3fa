import subprocess
import sys
from pathlib import Path

import pytest

import trimaran.wire.messages
from tests.wire.declared import MESSAGES
from trimaran.wire.messages.fetch import FetchRequest, FetchResponse
from trimaran.wire.messages.registry import REQUESTS, RESPONSES, ApiKey


def test_message_is_found_by_key():
    assert REQUESTS[1] is FetchRequest
    assert RESPONSES[ApiKey.FETCH] is FetchResponse
    assert REQUESTS.get(4711) is None
    assert 4711 not in REQUESTS
    assert len(REQUESTS) == len(list(REQUESTS.items())) == len(ApiKey)
    with pytest.raises(KeyError):
        RESPONSES[-1]


def test_every_declared_api_is_registered():
    requests = {cls for cls in MESSAGES if cls.__name__.endswith("Request")}
    assert requests == set(REQUESTS.values())


def test_every_key_has_a_file_of_its_name():
    assert sorted(ApiKey) == list(range(95))
    files = {path.stem for path in Path(trimaran.wire.messages.__file__).parent.glob("*.py")}
    assert {key.module for key in ApiKey} <= files
    for key in ApiKey:
        assert (
            REQUESTS[key].__module__
            == RESPONSES[key].__module__
            == f"trimaran.wire.messages.{key.module}"
        )
        assert REQUESTS[key].__name__ == f"{key.spelling}Request"


def test_message_has_name_of_its_api():
    assert ApiKey.OFFSET_FOR_LEADER_EPOCH.module == "offset_for_leader_epoch"
    assert ApiKey.OFFSET_FOR_LEADER_EPOCH.spelling == "OffsetForLeaderEpoch"


def test_apis_are_imported_on_first_use():
    """Importing one API imports one file, and generates no code before its first message."""
    program = """
import sys
from trimaran.wire.messages.registry import REQUESTS
before = {m for m in sys.modules if m.startswith("trimaran.wire.messages.")}
REQUESTS[3]
after = {m for m in sys.modules if m.startswith("trimaran.wire.messages.")}
assert before == {"trimaran.wire.messages.registry"}, before
assert after - before == {"trimaran.wire.messages.metadata"}, after
assert "trimaran.wire.codec.build" not in sys.modules
for heavy in ("dataclasses", "inspect", "trio", "socket", "asyncio"):
    assert heavy not in sys.modules, heavy
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
