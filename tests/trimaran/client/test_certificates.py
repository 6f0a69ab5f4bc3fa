"""The certificates that brokers show to a client, judged for `health`."""

import datetime as dt

import trio

from tests.broker.tls_broker import open_tls_broker
from tests.certificates import Certificates
from tests.cluster.in_process import cluster
from trimaran.client.certificates import broker_certificates
from trimaran.client.health import BAD, WARNING
from trimaran.wire.blocking import BlockingClient
from trimaran.wire.security.listener import ClientSecurity
from trimaran.wire.security.tls.certificate import certificates

DAY = dt.timedelta(days=1)


async def judged(bootstrap, security, now):
    def ask():
        with BlockingClient(bootstrap, security=security) as client:
            return list(broker_certificates(client, now))

    return await trio.to_thread.run_sync(ask)


async def test_certificate_that_expires_soon_is_a_reason(tmp_path):
    async with open_tls_broker(tmp_path, "SSL") as (_, broker, _, own):
        host, port = broker.addresses["CLIENTS"]
        security = ClientSecurity(own.client_context())
        end = next(certificates(own.server[1])).not_after
        assert await judged(f"{host}:{port}", security, end - 40 * DAY) == []
        (soon,) = await judged(f"{host}:{port}", security, end - 3 * DAY)
        assert (soon.level, soon.about) == (WARNING, "certificates")
        assert soon.text.startswith("broker 11: the certificate of ")
        assert "expires in 3 days" in soon.text


async def test_cluster_without_tls_has_no_certificates(tmp_path):
    async with cluster(tmp_path) as running:
        now = dt.datetime.now(dt.UTC)
        assert await judged(running.bootstrap, None, now + 90_000 * DAY) == []


async def test_refused_certificate_is_bad(tmp_path):
    """The first broker that a client asks must be accepted, or there are no others."""
    async with open_tls_broker(tmp_path, "SSL") as (_, broker, _, own):
        host, port = broker.addresses["CLIENTS"]

        def ask():
            with BlockingClient(
                f"{host}:{port}", security=ClientSecurity(own.client_context())
            ) as client:
                client.refresh()
                client.close()
                client._security = ClientSecurity(Certificates().client_context())
                client.refresh = lambda: None
                return list(broker_certificates(client, dt.datetime.now(dt.UTC)))

        (refused,) = await trio.to_thread.run_sync(ask)
        assert (refused.level, refused.about) == (BAD, "brokers")
        assert "broker 11 is refused: TLS" in refused.text
