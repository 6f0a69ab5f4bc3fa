"""Delegation tokens, if secrets are mirrored: only their creator may read them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from trimaran.quorum.metadata.delta import MetadataDelta
from trimaran.quorum.metadata.image import MetadataImage
from trimaran.zkcompat.sections.notes import note
from trimaran.zkcompat.sections.section import Section, differing_keys
from trimaran.zkcompat.tree.operations import TreeOperation, Znode
from trimaran.zkcompat.znodes.delegation_token import TOKEN_CHANGE_PREFIX, TOKENS, DelegationToken


class TokenSection(Section):
    label = "DelegationToken"
    directories: ClassVar[tuple[str, ...]] = (TOKENS,)

    def names(self, image: MetadataImage) -> Iterable[str]:
        return sorted(image.tokens)

    def touched(self, delta: MetadataDelta) -> Iterable[str]:
        return delta.tokens.changed

    def differing(self, before: MetadataImage, after: MetadataImage) -> Iterable[str]:
        return differing_keys(before.tokens, after.tokens)

    def znodes(self, name: str, image: MetadataImage) -> Iterable[tuple[str, Znode]]:
        token = image.tokens.get(name)
        if token is None:
            return
        shown = DelegationToken(
            token_id=token.token_id,
            owner=token.owner,
            requester=token.requester,
            renewers=token.renewers,
            issue_ms=token.issue_timestamp,
            expiry_ms=token.expiration_timestamp,
            max_ms=token.max_timestamp,
        )
        yield DelegationToken.path(name), Znode(shown.encode(), secret=True)

    def notes(self, path: str) -> Iterable[TreeOperation]:
        token_id = path.removeprefix(f"{TOKENS}/")
        sentence = f"Telling of the changed token {token_id}"
        return (note(TOKEN_CHANGE_PREFIX, token_id.encode(), sentence, "TokenChange", path),)
