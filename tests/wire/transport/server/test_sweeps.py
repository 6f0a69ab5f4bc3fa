"""The sweeps of a server over its connections: idle ones, stalled ones, and the bound of each rule."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from trimaran.wire.transport.server.server import _Acceptor

IDLE_SECONDS = 10.0


class Rig:
    """An acceptor with stubs of connections; `told` are the calls, in order."""

    def __init__(self, **connections):
        self.told = []
        self.connections = connections
        self.counters = SimpleNamespace(idle_closed=0, stalled_closed=0)
        self._limits = SimpleNamespace(idle_seconds=IDLE_SECONDS)
        self._log = SimpleNamespace(
            log=lambda _event, connection: self.told.append(str(connection))
        )
        for connection in connections.values():
            connection.abort = lambda name=connection.info.id: self.told.append(f"abort {name}")
            connection.core.shrink = lambda name=connection.info.id: self.told.append(
                f"shrink {name}"
            )

    def _holders(self, pool):
        return _Acceptor._holders(self, pool)


def connection(name, *, progress=None, is_abandoned=False, held=0, activity=0):
    core = SimpleNamespace(
        progress=lambda: progress,
        activity=lambda: activity,
        share=SimpleNamespace(of=lambda _pool: held),
    )
    info = SimpleNamespace(id=name, __str__=lambda: name)
    return SimpleNamespace(info=info, core=core, is_abandoned=lambda: is_abandoned)


@pytest.mark.parametrize(
    ("progress", "seen", "now", "expected", "told"),
    [
        ((1, 2, 3), {}, 5.0, ((1, 2, 3), 5.0), []),
        ((1, 2, 3), {"a": ((1, 2, 2), 0.0)}, 50.0, ((1, 2, 3), 50.0), []),
        (None, {"a": (None, 0.0)}, 50.0, (None, 50.0), []),
        (None, {"a": ((1, 2, 3), 0.0)}, 50.0, (None, 50.0), []),
        ((1, 2, 3), {"a": ((1, 2, 3), 0.0)}, 9.9, ((1, 2, 3), 0.0), ["shrink a"]),
        ((1, 2, 3), {"a": ((1, 2, 3), 0.0)}, 10.0, ((1, 2, 3), 0.0), ["shrink a", "abort a"]),
        ((1, 2, 3), {"b": ((1, 2, 3), 0.0)}, 50.0, ((1, 2, 3), 50.0), []),
    ],
)
def test_connection_without_progress_is_idle(progress, seen, now, expected, told):
    rig = Rig(a=connection("a", progress=progress))
    assert _Acceptor._check_progress(rig, rig.connections["a"], seen, now) == expected
    assert (rig.told, rig.counters.idle_closed) == (told, int("abort a" in told))


def test_abandoned_connection_is_closed_at_once():
    rig = Rig(a=connection("a", progress=(1, 2, 3), is_abandoned=True))
    assert _Acceptor._check_progress(rig, rig.connections["a"], {}, 5.0) == ((1, 2, 3), 5.0)
    assert (rig.told, rig.counters.idle_closed) == (["abort a"], 0)


@pytest.mark.parametrize(
    ("used", "expected"),
    [
        (75_000, []),
        (75_001, ["c"]),
        (75_000 + 20_000, ["c"]),
        (75_001 + 20_000, ["c", "a"]),
        (200_000, ["c", "a", "d"]),
    ],
)
def test_largest_stalled_connections_release_a_quarter(used, expected):
    """`b` has made progress; `e` holds too little to count, and `f` held nothing before."""
    rig = Rig(
        a=connection("a", held=10_000),
        b=connection("b", held=50_000, activity=2),
        c=connection("c", held=20_000),
        d=connection("d", held=4097),
        e=connection("e", held=4096),
        f=connection("f", held=30_000),
    )
    pool = SimpleNamespace(used=used, bytes_max=100_000)
    _Acceptor._close_stalled(rig, pool, dict.fromkeys("abcde", 0))
    assert [line for line in rig.told if line.startswith("abort")] == [
        f"abort {name}" for name in expected
    ]
    assert rig.counters.stalled_closed == len(expected)
    assert len(rig.told) == 2 * len(expected), "each is logged"
    assert [holder.info.id for holder in rig._holders(pool)] == list("abcdf")
