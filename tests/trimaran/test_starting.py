"""A new local cluster that cannot be made leaves nothing that hinders the next attempt."""

import pytest

from trimaran.local import state_file
from trimaran.local.layout import FreePorts
from trimaran.local.starting import Wanted, starting

WANTED = Wanted(2, 1, zookeeper=False, fixed_ports=False, overrides=())


def names(path):
    return sorted(one.name for one in path.iterdir())


def test_a_format_that_fails_halfway_is_undone(tmp_path):
    hindrance = tmp_path / "broker-11"
    hindrance.write_text("somebody's")
    with (
        FreePorts() as ports,
        pytest.raises(OSError, match="broker-11"),
        starting(tmp_path, WANTED, ports),
    ):
        pytest.fail("it is not made")
    assert names(tmp_path) == ["broker-11"]
    hindrance.unlink()
    with FreePorts() as ports, starting(tmp_path, WANTED, ports) as plan:
        assert (plan.nodes[0].directory / "meta.properties").exists()


def interrupted(path, *written):
    with FreePorts() as ports, starting(path, WANTED, ports):
        for name in written:
            (path / name).write_text("{}")
        raise KeyboardInterrupt


def test_what_fails_before_it_is_written_down_is_undone(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        interrupted(tmp_path)
    assert names(tmp_path) == []


def test_what_is_written_down_stays(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        interrupted(tmp_path, state_file.FILE_NAME)
    assert "controller-1" in names(tmp_path)
