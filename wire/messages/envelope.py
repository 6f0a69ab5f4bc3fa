"""Envelope (58): a broker forwards a client's request to the controller (KIP-590).

The principal inside is a `DefaultPrincipalData`, preceded by its int16 version.
"""

from trimaran.wire.codec.declarations import data, int16
from trimaran.wire.schema import Message, request, response


@request(key=58, versions="0", flexible="0+")
class EnvelopeRequest(Message):
    request_data: data
    request_principal: data | None
    client_host_address: data


@response(key=58, versions="0", flexible="0+")
class EnvelopeResponse(Message):
    response_data: data | None = None
    error_code: int16 = 0
