"""SaslHandshake (17): agrees on a SASL mechanism.

Versions: 1 carries the tokens in SaslAuthenticate instead of bare frames (KIP-152).
"""

from trimaran.wire.codec.declarations import int16, string
from trimaran.wire.schema import Message, request, response


@request(key=17, versions="0-1")
class SaslHandshakeRequest(Message):
    mechanism: string


@response(key=17, versions="0-1")
class SaslHandshakeResponse(Message):
    error_code: int16 = 0
    mechanisms: list[string]
