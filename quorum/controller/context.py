"""The context of a controller's request handlers. The quorum's own handlers use only its `node`."""

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
    """The context of one request. A handler decides by `controller.submit`; `image` serves requests that need no active
    controller.

    `authorizer` is None if there is no authorization. `forwarded`: the request came through a broker, in an Envelope.
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
        """Returns the committed image."""
        return self.controller.loader.image
