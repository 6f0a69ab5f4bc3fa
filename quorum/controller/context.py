"""The few things that a controller's request handlers may use. The quorum's own handlers use `node` of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from trimaran.node.config.server import ServerConfig
from trimaran.quorum.controller.configs.mutation_quotas import MutationQuotas
from trimaran.quorum.controller.controller import Controller
from trimaran.quorum.metadata.authorizer import Authorizer
from trimaran.quorum.metadata.image import MetadataImage
from trimaran.quorum.replica.node import QuorumNode


@dataclass(frozen=True, slots=True)
class ControllerContext:
    """A handler decides by `controller.submit`; for what needs no active controller there is `image`.

    `authorizer` is None if every client may do everything. `forwarded`: the request came through a broker, in an
    Envelope.
    """

    config: ServerConfig
    cluster_id: str
    node: QuorumNode
    controller: Controller
    authorizer: Authorizer | None = None
    forwarded: bool = False
    mutations: MutationQuotas = field(default_factory=MutationQuotas)

    @property
    def image(self) -> MetadataImage:
        """The committed image."""
        return self.controller.loader.image
