"""DefaultPrincipalData: the authenticated user inside an Envelope (KIP-590)."""

from trimaran.wire.codec.declarations import boolean, string
from trimaran.wire.schema import Message, message


@message(versions="0", flexible="0+")
class DefaultPrincipalData(Message):
    type: string
    name: string
    token_authenticated: boolean
