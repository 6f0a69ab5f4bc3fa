"""The process of a node until it serves."""

import logging

import pytest
import trio

from tests.certificates import Certificates
from tests.quorum.config_of import config_of
from trimaran.errors.user_error import UserError
from trimaran.running import node_process
from trimaran.running.node_process import run_roles, serve


async def never_starts(_config, *, task_status):
    del task_status
    await trio.sleep_forever()


async def starts_at_once(_config, *, task_status):
    task_status.started()
    await trio.sleep_forever()


async def test_overlong_start_ends(autojump_clock):
    config = config_of(server_max_startup_time_ms=5000)
    with pytest.raises(ExceptionGroup) as caught:
        await run_roles([starts_at_once, never_starts], config, pytest.fail)
    assert caught.group_contains(UserError, match="did not start within 5000 ms")
    assert trio.current_time() == pytest.approx(5, abs=1)


async def test_slow_start_of_node_is_tolerated(autojump_clock):
    async with trio.open_nursery() as nursery:

        def on_ready():
            nursery.cancel_scope.deadline = trio.current_time() + 3600

        await run_roles([starts_at_once], config_of(server_max_startup_time_ms=5000), on_ready)
    assert trio.current_time() >= 3600


@pytest.mark.parametrize("is_expired", [True, False])
def test_start_warns_of_expired_certificate(monkeypatch, caplog, is_expired):
    certificates = Certificates()
    key, chain = certificates.expired() if is_expired else certificates.server
    config = config_of(
        listener_security_protocol_map="CONTROLLER:SSL",
        ssl_keystore_type="PEM",
        ssl_keystore_key=key,
        ssl_keystore_certificate_chain=chain,
    )
    monkeypatch.setattr(node_process, "set_up", lambda _: None)
    monkeypatch.setattr(node_process, "_run", lambda *_: None)
    with caplog.at_level(logging.WARNING):
        serve(config, pytest.fail)
    found = [line for line in caplog.messages if "expired" in line]
    assert len(found) == is_expired
    assert all(line.startswith("ssl.keystore.certificate.chain: the cert") for line in found)
