"""A session that cannot be stored or resumed has no effect except for briefly missing ephemerals."""

import pytest
import trio

from trimaran.zkcompat.zookeeper.keeper import open_keeper
from trimaran.zkcompat.zookeeper.session import KeeperConfig
from trimaran.zkcompat.zookeeper.session_file import SavedSession, load_session, save_session

SESSION = SavedSession(-(1 << 62), b"p" * 16)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "null",
        "[" * 100_000,
        '{"session_id": "1", "password": "' + "00" * 16 + '"}',
        '{"session_id": "1", "password": "00", "connect": "a:1"}',
        '{"session_id": 1, "password": "' + "00" * 16 + '", "connect": "a:1"}',
        '{"session_id": "' + "f" * 17 + '", "password": "' + "00" * 16 + '", "connect": "a:1"}',
    ],
    ids=lambda content: content[:30],
)
def test_damaged_file_counts_as_missing(tmp_path, content):
    path = str(tmp_path / "session")
    save_session(path, "a:1", SESSION)
    assert load_session(path, "a:1") == SESSION
    (tmp_path / "session").write_text(content)
    assert load_session(path, "a:1") is None


async def test_failed_session_file_does_not_end_the_mirror(tmp_path, caplog):
    """The session arrives in a callback of the event loop: any exception there would end the process."""
    file = trio.Path(tmp_path / "no-such-directory" / "session")
    async with open_keeper(KeeperConfig("127.0.0.1:1", 4000), file) as keeper:
        keeper.on_session(SESSION)
    assert "cannot be kept" in caplog.text
