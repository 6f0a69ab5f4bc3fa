"""The certificates of brokers that expire soon, as their listeners show them to this client."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from trimaran.client.health import BAD, WARNING, Reason
from trimaran.client.offsets import ASIDE_SECONDS
from trimaran.wire.client.errors import AuthenticationRefused, ConnectionLost, RequestTimedOut
from trimaran.wire.later import imported_later

if TYPE_CHECKING:
    from datetime import datetime

    from trimaran.wire.blocking import BlockingClient
    from trimaran.wire.security.tls import certificate, validity
else:
    certificate = imported_later("trimaran.wire.security.tls.certificate")
    validity = imported_later("trimaran.wire.security.tls.validity")


def broker_certificates(client: BlockingClient, now: datetime) -> Iterator[Reason]:
    """Yields a reason for each broker whose certificate expires soon, or is refused; none without TLS. A broker that
    does not respond within `ASIDE_SECONDS` is left out.
    """
    client.refresh()
    for broker, address in sorted(client.routing.nodes.items()):
        try:
            der = client.connection_to(address, timeout=ASIDE_SECONDS).peer_certificate
        except AuthenticationRefused as error:
            yield Reason(BAD, f"broker {broker} is refused: {error}", "brokers")
            continue
        except (ConnectionLost, RequestTimedOut):
            continue
        if der is None:
            return
        found = certificate.certificate_of(der)
        told = None if found is None else validity.doubt(found, now)
        if told is not None:
            yield Reason(WARNING, f"broker {broker}: {told}", "certificates")
