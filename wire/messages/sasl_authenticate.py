"""SaslAuthenticate (36): one round of a SASL exchange.

Versions: 1 the lifetime of the authentication (KIP-368); 2 flexible.
"""

from trimaran.wire.codec.declarations import data, field, int16, int64, string
from trimaran.wire.schema import Message, request, response


@request(key=36, versions="0-2", flexible="2+")
class SaslAuthenticateRequest(Message):
    auth_bytes: data


@response(key=36, versions="0-2", flexible="2+")
class SaslAuthenticateResponse(Message):
    error_code: int16 = 0
    error_message: string | None = None
    auth_bytes: data
    session_lifetime_ms: int64 = field("1+", default=0, ignorable=True)
